package maintain

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/pkg/postgres"
)

// extensions brings every extension to the version that fits the programs.
func (m *Maintainer) extensions(ctx context.Context) ([]string, error) {
	return m.inEach(ctx, func(ctx context.Context, conn *pgx.Conn, database string) ([]string, error) {
		rows, err := conn.Query(ctx, `SELECT e.extname::text FROM pg_catalog.pg_extension e
			JOIN pg_catalog.pg_available_extensions a ON a.name = e.extname
			WHERE a.default_version <> e.extversion ORDER BY 1`)
		if err != nil {
			return nil, err
		}
		old, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return nil, err
		}
		var messages []string
		for _, name := range old {
			found, err := try(ctx, conn, "ALTER EXTENSION "+pgx.Identifier{name}.Sanitize()+" UPDATE",
				fmt.Sprintf("extension %s in database %s can't be updated", name, database))
			if err != nil {
				return nil, err
			}
			messages = append(messages, found...)
		}
		return messages, nil
	})
}

// statistics collects the planner's statistics, rough ones of everything first. From 18 on an upgrade brings most along.
func (m *Maintainer) statistics(ctx context.Context) ([]string, error) {
	runs := [][]string{{"--analyze-in-stages"}}
	if m.Generation.MajorVersion >= 18 {
		runs = [][]string{{"--analyze-in-stages", "--missing-stats-only"}, {"--analyze-only"}}
	}
	for _, args := range runs {
		if message, err := m.vacuumdb(ctx, args...); message != nil || err != nil {
			return message, err
		}
	}
	return nil, nil
}

func (m *Maintainer) vacuumdb(ctx context.Context, args ...string) ([]string, error) {
	args = append(args, "--all", "--no-password", "--host="+m.Server.SocketDir, "--port="+strconv.Itoa(m.Server.Port),
		"--username="+postgres.RoleSuperuser)
	cmd := exec.CommandContext(ctx, filepath.Join(m.BinDir, "vacuumdb"), args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "PGAPPNAME=howdah", "PGSSLMODE=disable",
		"PGOPTIONS="+local.Options(m.Generation.MajorVersion))
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return []string{"statistics could not be collected everywhere: " + lines[len(lines)-1]}, nil
	}
	return nil, err
}
