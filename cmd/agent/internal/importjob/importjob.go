// Package importjob takes databases from a PostgreSQL server that runs elsewhere into a new one that nobody else reaches. The data goes
// from pg_dump to pg_restore through a pipe, so it needs no space beside what it takes in the end, and several tables go at once, all
// of one snapshot.
//
// Nothing of a failed import is ever used: it is the init Job's, which adopts a data generation only when it is whole. So there is
// nothing to resume, and every attempt begins with an empty server. Only an online import resumes, once it has copied all and follows.
package importjob

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/cmd/agent/internal/pgprogram"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// Reasons of Jobs that could not import.
const (
	ReasonSecretMissing     = "SecretMissing"
	ReasonSourceUnreachable = "SourceUnreachable"
	ReasonRefused           = "ImportRefused"
	ReasonImportFailed      = "ImportFailed"
)

const (
	// largeTable is from which size on a table is copied over a connection of its own.
	largeTable = 64 << 20
	// mostLarge is how many of them: each is named in the arguments of the pg_dump that takes the rest.
	mostLarge = 128
)

// Phases of an import.
const (
	phaseChecking  = "CheckingSource"
	phaseCopying   = "Copying"
	phaseIndexing  = "BuildingIndexes"
	phaseAnalyzing = "Analyzing"
)

// Settings of a server that is only filled, on a volume with this much space: what it writes counts when all of it is on the disk, and
// never before.
func Settings(free int64) string { return settings + " -c max_wal_size=" + maxWAL(free) }

const settings = "-c fsync=off -c synchronous_commit=off -c full_page_writes=off -c wal_level=minimal -c max_wal_senders=0 -c archive_mode=off " +
	"-c autovacuum=off -c checkpoint_timeout=30min -c max_parallel_maintenance_workers=0 -c max_locks_per_transaction=256 " +
	"-c log_min_error_statement=panic -c log_checkpoints=off"

// Worker imports into one server.
type Worker struct {
	Task   agentapi.ImportJob
	Major  int
	BinDir string
	Target local.Server
	// Scratch is a folder for files that hold no data, and Secrets that of the mounted Secrets.
	Scratch, Secrets string
	// Free bytes of the volume; 0: not known.
	Free   int64
	Report func(job.Progress)
	// Preflighted is told what was found before anything is copied, and again if there is more to say.
	Preflighted func(context.Context, agentapi.ImportPreflight) error
	// Following is told how an online import follows the source, and says what is wanted of it now.
	Following func(context.Context, Following) (agentapi.ImportWanted, error)
	// Pause is between two looks at the source; 0: the usual one.
	Pause time.Duration
	// LargeTable is from which size on a table is copied on its own; 0: the usual one.
	LargeTable int64

	attempt string // at the copy of an online import
}

// Run imports everything that the task names. Of an online import, it copies what is there, and returns what Follow needs to know.
func (w *Worker) Run(ctx context.Context) (Copied, error) {
	w.Report(job.Progress{Phase: phaseChecking})
	w.attempt = rand.Text()
	source, err := openSource(w.Task.Source, w.Secrets, w.Scratch)
	if err != nil {
		return Copied{}, err
	}
	inv, summary, err := w.preflight(ctx, source)
	if err == nil && w.Task.Online == nil {
		err = w.copyAll(ctx, source, inv, &summary)
	} else if err == nil {
		err = w.copyWatched(ctx, source, inv, &summary)
	}
	if err != nil {
		if w.Task.Online != nil {
			w.releaseFailed(ctx) // of a former attempt, too, which was killed
		}
		return Copied{}, err
	}
	return copiedFrom(inv, summary, w.attempt), nil
}

// copyWatched ends when the source retains too much meanwhile.
func (w *Worker) copyWatched(ctx context.Context, source *source, inv *Inventory, summary *agentapi.ImportPreflight) error {
	watched, stop := w.watchRetention(ctx, source, inv)
	defer stop()
	err := w.copyAll(watched, source, inv, summary)
	if err != nil && ctx.Err() == nil && watched.Err() != nil {
		return context.Cause(watched)
	}
	return err
}

// copyAll fills the new server.
func (w *Worker) copyAll(ctx context.Context, source *source, inv *Inventory, summary *agentapi.ImportPreflight) error {
	if err := w.createRoles(ctx, inv); err != nil {
		return fmt.Errorf("create the roles: %w", err)
	}
	if err := w.createDatabases(ctx, inv); err != nil {
		return err
	}
	if err := w.Preflighted(ctx, *summary); err != nil {
		return fmt.Errorf("record what the source has: %w", err)
	}
	slog.Info("importing", "databases", len(inv.Databases), "source", inv.Version)
	meter := newMeter(inv, w.Report)
	for _, d := range inv.Databases {
		if err := w.copyDatabase(ctx, source, d, meter); err != nil {
			return job.Fail(ReasonImportFailed, fmt.Errorf("import database %s: %w", d.Name, err))
		}
	}
	return w.finish(ctx, source, inv, summary, meter)
}

// finish is what comes after the data.
func (w *Worker) finish(ctx context.Context, source *source, inv *Inventory, summary *agentapi.ImportPreflight, meter *meter) error {
	for _, d := range inv.Databases {
		if err := w.execAll(ctx, openDatabase(d)); err != nil {
			return fmt.Errorf("rights in database %s: %w", d.Name, err)
		}
	}
	meter.phase(phaseAnalyzing, "The planner's statistics are being collected.")
	env := w.targetEnvironment()
	if err := pgprogram.Run(ctx, env, nil, filepath.Join(w.BinDir, "vacuumdb"), "--all", "--analyze-only", "--quiet", "--no-password", fmt.Sprintf("--jobs=%d", w.Task.Connections)); err != nil {
		return fmt.Errorf("collect statistics: %w", err)
	}
	if w.Task.Online != nil {
		return w.subscribe(ctx, source, inv)
	}
	return w.settle(ctx, databaseNames(inv), inv.Settings, summary)
}

// settle comes last: settings are for clients, and not for us.
func (w *Worker) settle(ctx context.Context, databases []string, settings []Setting, summary *agentapi.ImportPreflight) error {
	refused, err := w.applySettings(ctx, databases, settings)
	if err != nil || len(refused) == 0 {
		return err
	}
	for _, text := range refused {
		if !slices.Contains(summary.Warnings, text) { // a Job that has died here does it again
			summary.Warnings = append(summary.Warnings, text)
		}
	}
	return w.Preflighted(ctx, *summary)
}

// preflight looks at both sides and refuses what can't succeed.
func (w *Worker) preflight(ctx context.Context, source *source) (*Inventory, agentapi.ImportPreflight, error) {
	inv, err := source.inventory(ctx, w.Task.Databases)
	if err != nil {
		return nil, agentapi.ImportPreflight{}, err
	}
	for i, d := range inv.Databases {
		for _, wanted := range w.Task.Databases {
			if wanted.Name == d.Name {
				inv.Databases[i] = d.without(wanted.ExcludeSchemas, wanted.ExcludeTables, wanted.ExcludeTableData)
			}
		}
	}
	here, err := w.look(ctx, inv)
	if err != nil {
		return nil, agentapi.ImportPreflight{}, fmt.Errorf("look at the new server: %w", err)
	}
	found := judge(inv, w.Task, here)
	if len(found.Refusals) > 0 {
		return nil, agentapi.ImportPreflight{}, job.Final(ReasonRefused, errors.New(strings.TrimSuffix(strings.Join(found.Refusals, " "), ".")))
	}
	return inv, agentapi.ImportPreflight{
		SourceVersion: inv.Version, Databases: databaseNames(inv), Warnings: found.Warnings, RolesWithoutPassword: withoutPassword(inv),
	}, nil
}

// look finds what the new server has.
func (w *Worker) look(ctx context.Context, inv *Inventory) (target, error) {
	here := target{Major: w.Major, Free: w.Free}
	err := w.Target.With(ctx, postgres.RoleSuperuser, func(conn *pgx.Conn) error {
		for query, names := range map[string]*[]string{
			"SELECT name FROM pg_catalog.pg_available_extensions":                        &here.Extensions,
			"SELECT collname FROM pg_catalog.pg_collation WHERE collencoding IN (-1, 6)": &here.Collations,
		} {
			rows, err := conn.Query(ctx, query)
			if err != nil {
				return err
			}
			if *names, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
				return err
			}
		}
		for _, d := range inv.Databases {
			for _, c := range d.Collations {
				if !c.System && !creatable(ctx, conn, c) {
					here.Missing = append(here.Missing, d.Name+"."+c.Name)
				}
			}
		}
		return nil
	})
	return here, err
}

// creatable says whether the image has the locale of a collation.
func creatable(ctx context.Context, conn *pgx.Conn, c Collation) bool {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return false
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	_, err = tx.Exec(ctx, "CREATE COLLATION public.howdah_import (LC_COLLATE = "+literal(c.Collate)+", LC_CTYPE = "+literal(c.Ctype)+")")
	return err == nil
}

// createDatabases makes all of them before any is filled: a locale that isn't there shows in a second, and not after hours.
func (w *Worker) createDatabases(ctx context.Context, inv *Inventory) error {
	for _, d := range inv.Databases {
		err := w.execAll(ctx, createDatabase(d, w.Task.ClusterLocales))
		if err == nil {
			continue
		}
		for _, known := range []string{"locale", "encoding", "collation", "collator"} {
			if strings.Contains(strings.ToLower(err.Error()), known) {
				return job.Final(ReasonRefused, fmt.Errorf("the image can't have database %s as it is on the source (encoding %s, locale %s): set spec.image to an image that has the locale, "+
					"or set spec.bootstrap.import.locales: Cluster in a new PostgresCluster, which orders text by code points: %w", d.Name, d.Encoding, d.localeName(), err))
			}
		}
		return fmt.Errorf("create database %s: %w", d.Name, err)
	}
	return nil
}

func (d Database) localeName() string {
	if d.Locale != "" {
		return d.Locale
	}
	return d.Collate
}

// dumpArguments are those that every pg_dump has which copies a database.
func (w *Worker) dumpArguments(d Database, snapshot string) []string {
	args := []string{
		"--format=custom", "--compress=0", "--no-password", "--no-sync", "--snapshot=" + snapshot, "--lock-wait-timeout=5min",
		"--no-subscriptions", "--no-tablespaces", "--no-security-labels",
	}
	i := slices.IndexFunc(w.Task.Databases, func(wanted agentapi.ImportDatabase) bool { return wanted.Name == d.Name })
	if i < 0 {
		return args
	}
	wanted := w.Task.Databases[i]
	for _, name := range wanted.ExcludeSchemas {
		args = append(args, "--exclude-schema="+quote(name))
	}
	for _, name := range wanted.ExcludeTables {
		args = append(args, "--exclude-table="+pattern(name))
	}
	for _, name := range wanted.ExcludeTableData {
		args = append(args, "--exclude-table-data="+pattern(name))
	}
	return args
}

// pattern that fits one table alone.
func pattern(name string) string {
	schema, table, _ := strings.Cut(name, ".")
	return quote(schema) + "." + quote(table)
}

func (w *Worker) targetEnvironment() []string {
	return append(pgprogram.Environment(), "PGHOST="+w.Target.SocketDir, fmt.Sprintf("PGPORT=%d", w.Target.Port), "PGUSER="+postgres.RoleSuperuser,
		"PGPASSFILE=/nonexistent", "PGSSLMODE=disable", "PGOPTIONS="+local.Options(w.Major))
}

func (w *Worker) program(name string) string { return filepath.Join(w.BinDir, name) }

// archive is a file for the schema of a database, which is removed with the returned function.
func (w *Worker) archive() (path string, remove func(), err error) {
	dir, err := os.MkdirTemp(w.Scratch, "schema")
	return filepath.Join(dir, "schema.dump"), func() { _ = os.RemoveAll(dir) }, err
}
