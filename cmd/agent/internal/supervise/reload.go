package supervise

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/postmaster"
	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// apply applies the desired configuration to the running server, unless PostgreSQL refuses it.
func (c *configuration) apply(ctx context.Context, server *postmaster.Server, desired agentapi.Config) {
	if desired.Hash() == c.effect.Hash() {
		c.take(desired, c.files, desired)
		return
	}
	files, err := c.render(desired, c.replication)
	if err == nil && (files.Conf != c.files.Conf || files.HBA != c.files.HBA || files.Ident != c.files.Ident) {
		if err = c.check(ctx, files, desired); err == nil {
			err = c.reload(ctx, server, files)
		}
	}
	if err == nil {
		err = c.lookForPending(ctx) // before the configuration is said to be in effect: it is not, while that is unknown
	}
	c.unchecked = false
	switch {
	case err == nil:
		c.take(desired, files, desired)
		c.Log.Info("applied the configuration", "config", desired.Hash())
		if len(c.Status().PendingRestart) == 0 {
			c.keepGood() // it works
		}
	case isRefusal(err):
		c.refuse(desired, err)
	default:
		c.unchecked = true
		c.Log.Warn("the configuration can't be applied yet", "error", err)
	}
}

// reload has the server read new files, and returns when it has. A server that doesn't respond gets them all the same.
func (c *configuration) reload(ctx context.Context, server *postmaster.Server, files settings.Files) error {
	before, err := c.loadTime(ctx)
	if err != nil {
		return err
	}
	if err := c.write(files); err != nil {
		return err
	}
	if err := c.tryHBA(ctx, files); err != nil {
		return errors.Join(err, c.write(c.files))
	}
	if err := server.Reload(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		if now, err := c.loadTime(ctx); err == nil && now.After(before) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("PostgreSQL has not read its configuration: %w", ctx.Err())
		case <-time.After(startPoll):
		}
	}
}

// reloadReplication has the server read the files of its present replication settings, and returns when it has.
func (c *configuration) reloadReplication(ctx context.Context, server *postmaster.Server) error {
	files, err := c.render(c.effect, c.replication)
	if err != nil {
		return err
	}
	if err := c.reload(ctx, server, files); err != nil {
		return err
	}
	c.files = files
	return nil
}

// loadTime is when the postmaster read its configuration; a new session inherits it.
func (c *configuration) loadTime(ctx context.Context) (at time.Time, err error) {
	err = c.server.With(ctx, "postgres", func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT pg_catalog.pg_conf_load_time()").Scan(&at)
	})
	return at, err
}

// lookForPending notes which parameters wait for a restart.
func (c *configuration) lookForPending(ctx context.Context) error {
	var pending []string
	err := c.server.With(ctx, "postgres", func(conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, "SELECT name FROM pg_catalog.pg_settings WHERE pending_restart ORDER BY name")
		if err != nil {
			return err
		}
		pending, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return fmt.Errorf("which parameters wait for a restart: %w", err)
	}
	c.set(func(status *agentapi.Status) { status.PendingRestart = pending })
	if len(pending) > 0 {
		c.Log.Info("parameters wait for a restart", "parameters", strings.Join(pending, ", "))
	}
	return nil
}

// tryHBA has the running server read a new pg_hba.conf and pg_ident.conf without acting on them. A file that it can't read would stay
// without effect, and let the next server not start.
func (c *configuration) tryHBA(ctx context.Context, files settings.Files) error {
	ctx, cancel := context.WithTimeout(ctx, factsTime)
	defer cancel()
	for _, file := range []struct{ name, view, content, previous string }{
		{"pg_hba.conf", "pg_hba_file_rules", files.HBA, c.files.HBA},
		{"pg_ident.conf", "pg_ident_file_mappings", files.Ident, c.files.Ident},
	} {
		if file.content == file.previous {
			continue
		}
		var faults []string
		err := c.server.With(ctx, "postgres", func(conn *pgx.Conn) (err error) {
			faults, err = faultsIn(ctx, conn, file.view, strings.Split(file.content, "\n"))
			return err
		})
		if err == nil && len(faults) > 0 {
			err = fmt.Errorf("%w: %s", settings.ErrRefused, strings.Join(slices.Compact(faults), "; "))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file.name, err)
		}
	}
	return nil
}

// faultsIn are the lines that the server can't read, and why, as a view of it says.
func faultsIn(ctx context.Context, conn *pgx.Conn, view string, lines []string) (faults []string, err error) {
	rows, err := conn.Query(ctx, "SELECT line_number, error FROM pg_catalog."+view+" WHERE error IS NOT NULL ORDER BY 1")
	if err != nil {
		return nil, err
	}
	var number int
	var fault string
	_, err = pgx.ForEachRow(rows, []any{&number, &fault}, func() error {
		if number < 1 || number > len(lines) {
			return fmt.Errorf("PostgreSQL names line %d of a file that has %d", number, len(lines))
		}
		faults = append(faults, fmt.Sprintf("%q: %s", lines[number-1], fault))
		return nil
	})
	return faults, err
}

// mayRestart looks once more whether the server would come back.
func (c *configuration) mayRestart(ctx context.Context) bool {
	err := c.check(ctx, c.files, c.effect)
	if err == nil {
		return true
	}
	c.Log.Error("PostgreSQL is not restarted: it would not start", "error", err)
	c.set(func(status *agentapi.Status) { status.Message = "the restart was refused: " + sentence(err) })
	return false
}

// isRefusal says that a configuration was refused, by PostgreSQL or before it saw it.
func isRefusal(err error) bool {
	return errors.Is(err, settings.ErrRefused) || errors.Is(err, postgres.ErrParameter) || errors.Is(err, postgres.ErrHBA)
}

// sentence is an error for a person, without the words that a status says by itself.
func sentence(err error) string {
	text := err.Error()
	for _, known := range []error{settings.ErrRefused, postgres.ErrParameter, postgres.ErrHBA} {
		text = strings.ReplaceAll(text, known.Error()+": ", "")
	}
	return strings.ReplaceAll(text, "\n", "; ")
}
