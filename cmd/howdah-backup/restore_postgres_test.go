//go:build postgres

package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

// TestPostgreSQLStartsOnWhatIsRestored: rows up to 120 are in the first backup, up to 200 before the moment that is named in
// three ways, up to 220 in the second backup, which is an incremental one, up to 300 after it.
func TestPostgreSQLStartsOnWhatIsRestored(t *testing.T) {
	subset.OneIn(t, 2)
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.begin()
		b.rows(1, 100)
		b.backup("first", "", 101, 120)
		b.rows(121, 200)
		at := b.value("SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US+00')")
		lsn := b.value("SELECT pg_current_wal_lsn()::text")
		b.exec("SELECT pg_create_restore_point('before the import')")
		b.backup("second", "first", 201, 220)
		b.rows(221, 300)
		b.archive()

		for name, test := range subset.Of(4, map[string]struct {
			args []string
			last int
		}{
			"the backup alone":        {[]string{"first"}, 120},
			"an incremental alone":    {[]string{"second"}, 220},
			"an incremental and more": {[]string{"second", "--latest"}, 300},
			"immediate":               {[]string{"first", "--immediate"}, 120},
			"the end":                 {[]string{"--latest"}, 300},
			"a time":                  {[]string{"--cluster=shop", "--to-time", at}, 200},
			"a position":              {[]string{"--to-lsn", lsn}, 200},
			"a restore point":         {[]string{"--to-name", "before the import"}, 200},
			"the end, and tablespace": {[]string{"first", "--latest", "--tablespace"}, 300},
		}) {
			t.Run(name, func(t *testing.T) { b.at(t).restores(test.args, test.last) })
		}
		t.Run("verify, and damage", func(t *testing.T) { b.at(t).verifies() })
		t.Run("a flipped byte on the disk is found by pg_verifybackup", func(t *testing.T) { b.at(t).flips() })
		t.Run("a store that goes away is not the end of WAL", func(t *testing.T) { b.at(t).losesTheStore() })
		t.Run("what was killed is no database", func(t *testing.T) { b.at(t).isKilled() })
		t.Run("the timeline of a failover is followed", func(t *testing.T) { b.at(t).failsOver() })
	})
}

// target is a folder with an odd name that isn't there yet.
func target(t *testing.T) string { return filepath.Join(t.TempDir(), "wieder da", "pg 100% 'data'") }

func (b *bed) restores(args []string, last int) {
	dir := target(b.t)
	if args[len(args)-1] == "--tablespace" {
		oid := b.value("SELECT oid::text FROM pg_tablespace WHERE spcname = 'fast'")
		place := filepath.Join(b.t.TempDir(), "neuer Platz \u00fc")
		args = append(args, oid+"="+place)
		defer func() {
			if link, err := os.Readlink(filepath.Join(dir, "pg_tblspc", oid)); err != nil || link != place {
				b.t.Errorf("the tablespace is at %s, %v", link, err)
			}
		}()
	}
	b.wants(exitDone, []string{"Restored " + b.lineage + "/"}, append([]string{"restore", "--target-dir", dir}, args...)...)
	if err := b.verify(dir); err != nil {
		b.t.Error(err)
	}
	b.holds(dir, last)
	if _, err := os.Stat(filepath.Join(dir, "pg_wal", "howdah-spool")); !errors.Is(err, fs.ErrNotExist) {
		b.t.Errorf("the spool is left: %v", err)
	}
}

func (b *bed) verifies() {
	b.wants(exitDone, []string{"ok       " + b.lineage + "/first"}, "verify", "--all", "--wal")
	b.wants(exitDone, []string{"incremental, based on first", "of other backups"}, "show", "second")
	b.wants(exitDone, []string{"page checksums were checked", ": complete"}, "show", "first")
}

func (b *bed) flips() {
	dir := target(b.t)
	b.wants(exitDone, nil, "restore", "first", "--target-dir", dir)
	table := filepath.Join(dir, b.value("SELECT pg_relation_filepath('bulk')"))
	content, err := os.ReadFile(table)
	must(b.t, err)
	content[len(content)/2] ^= 1
	must(b.t, os.WriteFile(table, content, 0o600))
	if err := b.verify(dir); err == nil || !strings.Contains(err.Error(), "checksum mismatch") {
		b.t.Errorf("got %v", err)
	}
}

// losesTheStore: recovery must end with an error, and continue from where it was when the store is back.
func (b *bed) losesTheStore() {
	dir := target(b.t)
	b.wants(exitDone, nil, "restore", "first", "--latest", "--target-dir", dir)
	away := b.dir + ".away"
	must(b.t, os.Rename(b.dir, away))
	log := filepath.Join(pgtest.Dir(b.t), "log")
	cmd := b.server.Command(b.t.Context(), b.t, "pg_ctl", "-D", dir, "-w", "-t", "120", "-l", log, "-o", "-c archive_mode=off -c listen_addresses= -c unix_socket_directories="+filepath.Dir(log), "start")
	if out, err := cmd.CombinedOutput(); err == nil {
		b.t.Errorf("it came up: %s", out)
	}
	must(b.t, os.Rename(away, b.dir))
	if said, _ := os.ReadFile(log); !strings.Contains(string(said), "exit code 200") {
		b.t.Errorf("%s", said)
	}
	b.holds(dir, 300)
}

// isKilled: without pg_control PostgreSQL refuses.
func (b *bed) isKilled() {
	dir := target(b.t)
	b.wants(exitDone, nil, "restore", "first", "--target-dir", dir)
	must(b.t, os.Rename(filepath.Join(dir, "global/pg_control"), filepath.Join(dir, "global/pg_control.unfinished")))
	cmd := b.server.Command(b.t.Context(), b.t, "postgres", "-D", dir)
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "could not find the database system") {
		b.t.Errorf("%v: %s", err, out)
	}
}

// failsOver has a restored server continue as the primary of the same lineage, on timeline 2.
func (b *bed) failsOver() {
	dir := target(b.t)
	b.wants(exitDone, nil, "restore", "first", "--to-name", "before the import", "--target-dir", dir)
	b.startedWith(dir, "on", func(conn *pgx.Conn) {
		promoted := *b
		promoted.conn = conn
		promoted.rows(201, 207) // other rows of these numbers are on timeline 1
		promoted.archive()
	})
	b.wants(exitDone, []string{"timeline 2"}, "show", "first")
	b.restores([]string{"first", "--latest"}, 207)
}
