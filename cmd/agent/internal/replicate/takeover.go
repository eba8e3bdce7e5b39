package replicate

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/cmd/agent/internal/settings"
)

// takeOver gives the data of a copy to its clone, for want of room for both. The copy is gone then, and where it is the only one beside the source, there
// is one copy less until the clone is whole. So this is not begun where the source sends no WAL: that may be why the copy could not follow.
func (i Instance) takeOver(ctx context.Context, source settings.Upstream, id, from string) error {
	if err := i.sends(ctx, source); err != nil {
		return fmt.Errorf("there is no room for a clone beside copy %s, which stays: %w", from, err)
	}
	return i.Volume.TakeOver(id, from)
}

// cloneSenders are the processes that send WAL to a clone.
const cloneSenders = 2

// sends says why the source would not send WAL to a clone; nil: it would.
func (i Instance) sends(ctx context.Context, source settings.Upstream) error {
	for range cloneSenders {
		config, err := i.connection(source)
		if err != nil {
			return err
		}
		config.RuntimeParams = map[string]string{"replication": "true", "application_name": "howdah"}
		conn, err := pgconn.ConnectConfig(ctx, &config.Config)
		if err != nil {
			return fmt.Errorf("%s sends no WAL: %w", source.Pod, local.Plain(err))
		}
		defer conn.Close(context.WithoutCancel(ctx))
		if _, err := conn.Exec(ctx, "IDENTIFY_SYSTEM").ReadAll(); err != nil {
			return fmt.Errorf("%s sends no WAL: %w", source.Pod, local.Plain(err))
		}
	}
	return nil
}
