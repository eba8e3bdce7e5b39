package roles

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/logicalslot"
)

// readMarks reads which subscriptions must not be enabled. That they can't be read is a problem of the subscriptions alone.
func (d *declaration) readMarks(ctx context.Context, conn *pgx.Conn) error {
	declares := false
	for _, database := range d.Databases {
		declares = declares || len(database.Subscriptions) > 0
	}
	if !declares {
		return nil
	}
	d.marks, d.errMarks = logicalslot.Marks(ctx, conn, d.Told)
	if d.errMarks != nil && (ctx.Err() != nil || conn.IsClosed()) {
		return d.errMarks
	}
	return nil
}

// keepMarked keeps a subscription, and forgets the mark of one that isn't there, or that is enabled: a mark is made together with the disabling, so
// somebody has enabled that one since.
func (s *subscriber) keepMarked(ctx context.Context, d *declaration, which logicalslot.Subscription) error {
	mark, marked := d.marks[which]
	if !marked {
		return s.keep(ctx)
	}
	found, err := s.look(ctx)
	missing := errors.Is(err, pgx.ErrNoRows)
	switch {
	case err != nil && !missing:
		return err
	case missing || found.enabled: // before another one of this name is created
		if err := logicalslot.Unmark(ctx, d.server, which); err != nil {
			return err
		}
	default:
		s.mark = &mark
	}
	if err := s.keep(ctx); err != nil || !s.wanted.Absent || s.mark == nil {
		return err
	}
	return logicalslot.Unmark(ctx, d.server, which)
}

// skips says why a subscription that is disabled would skip changes silently if it were enabled; nil: it wouldn't.
func (s *subscriber) skips(found subscribed) error {
	why, slot := "it knows none of its tables, as after an upgrade from version 16, and would skip their changes",
		"drop its slot "+s.slotOf(found)+" at the publisher unless another cluster uses it, "
	switch {
	case s.mark == nil && found.tables:
		return nil
	case s.mark != nil:
		why = s.mark.Why()
	}
	if s.mark != nil && s.mark.Ours {
		slot = "" // it is dropped with the subscription
	}
	copies := ""
	if s.wanted.NoCopy {
		copies = " and copyData: true"
	}
	return fmt.Errorf("%w: it stays disabled, because %s: set ensure: Absent, %sempty its tables, and set ensure: Present%s, which copies them again", errRefused, why, slot, copies)
}

// slotOf a subscription that is there.
func (s *subscriber) slotOf(found subscribed) string {
	if found.slot != "" {
		return found.slot
	}
	return s.slot()
}
