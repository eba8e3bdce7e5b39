package supervise

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/replicate"
)

// detach returns once the replica receives no WAL any more: it was told to follow nobody, and its receiver has ended. The loop tells
// it. The receiver is ended here, as the process that would do so may be busy replaying, or may wait for a query for long.
func (i *instance) detach(ctx context.Context) error {
	for {
		var follows bool
		var receivers []int
		err := i.server.With(ctx, "postgres", func(conn *pgx.Conn) (err error) {
			follows, receivers, err = replicate.Receivers(ctx, conn)
			return err
		})
		if err == nil && !follows && len(receivers) == 0 {
			return nil
		}
		if err == nil && !follows {
			for _, pid := range receivers {
				if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
					return fmt.Errorf("end the process that receives WAL: %w", err)
				}
			}
		}
		select {
		case <-ctx.Done():
			return errors.Join(errors.New("the replica still receives WAL"), err)
		case <-time.After(startPoll):
		}
	}
}
