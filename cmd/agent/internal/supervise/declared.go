package supervise

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/roles"
	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/agentapi"
)

const (
	declaredInterval = 3 * time.Minute // after which what somebody else has changed is put back
	declaredTime     = 10 * time.Minute
	maxDeclaredPause = time.Minute
	maxProblems      = 10 // in the status
)

// runDeclared keeps declared roles and databases as they are written, until ctx ends.
func (r *runner) runDeclared(ctx context.Context) {
	defer r.set(func(status *agentapi.Status) { status.Declared = nil }) // it is another's to say then
	pause := time.Second
	for {
		next := declaredInterval
		if !r.keepDeclared(ctx) {
			next = pause
			pause = min(2*pause, maxDeclaredPause)
		}
		select {
		case <-ctx.Done():
			return
		case <-r.declarations:
			pause = time.Second
		case <-time.After(next):
		}
	}
}

// keepDeclared makes everything as it is declared, and says whether it is.
func (r *runner) keepDeclared(ctx context.Context) bool {
	in := r.read()
	if in.err != nil || in.config.DataGeneration != r.wanted {
		return false
	}
	if in.config.Declared == nil {
		r.set(func(status *agentapi.Status) { status.Declared = nil })
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, declaredTime)
	defer cancel()
	problems, err := roles.Declare(ctx, r.server, roles.Desired{
		Declared: *in.config.Declared, Major: r.adopted.generation.MajorVersion,
		Database: in.config.Database, Owner: in.config.Owner, Passwords: in.declared,
	})
	if err != nil {
		if ctx.Err() == nil {
			r.Log.Warn("what is declared can't be seen to yet", "error", err)
		}
		return false
	}
	r.declare(in.config.Declared.Hash(), problems)
	return len(problems) == 0
}

// declare notes what became of what is declared.
func (r *runner) declare(hash string, problems []string) {
	if more := len(problems) - maxProblems; more > 0 {
		problems = append(problems[:maxProblems:maxProblems], fmt.Sprintf("and %d more", more))
	}
	changed := r.set(func(status *agentapi.Status) {
		status.Declared = &agentapi.DeclaredStatus{Hash: hash, Problems: problems}
	})
	switch {
	case !changed:
	case len(problems) == 0:
		r.Log.Info("roles and databases are as declared")
	default:
		r.Log.Warn("not all is as declared; trying again", "problems", problems)
	}
}

// tryHBA has the running server read a new pg_hba.conf without acting on it. One that it can't read would stay without
// effect, and let the next server not start.
func (r *runner) tryHBA(ctx context.Context, files settings.Files) error {
	if files.HBA == r.files.HBA {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, factsTime)
	defer cancel()
	var faults []string
	err := r.server.With(ctx, "postgres", func(conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, "SELECT line_number, error FROM pg_catalog.pg_hba_file_rules WHERE error IS NOT NULL ORDER BY 1")
		if err != nil {
			return err
		}
		lines := strings.Split(files.HBA, "\n")
		var number int
		var fault string
		_, err = pgx.ForEachRow(rows, []any{&number, &fault}, func() error {
			if number < 1 || number > len(lines) {
				return fmt.Errorf("PostgreSQL names line %d of pg_hba.conf, which has %d", number, len(lines))
			}
			faults = append(faults, fmt.Sprintf("%q: %s", lines[number-1], fault))
			return nil
		})
		return err
	})
	if err == nil && len(faults) > 0 {
		err = fmt.Errorf("%w: %s", settings.ErrRefused, strings.Join(slices.Compact(faults), "; "))
	}
	return err
}
