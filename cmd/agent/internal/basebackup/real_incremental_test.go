//go:build postgres

package basebackup

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

// history is a database that lives at random.
type history struct {
	*rig
	t      *testing.T
	random *rand.Rand
	names  int
	log    []string
}

func newHistory(t *testing.T, pg pgtest.Installation, seed uint64, summarize bool) *history {
	return newHistoryIn(t, pg, seed, summarize, mem.New())
}

func newHistoryIn(t *testing.T, pg pgtest.Installation, seed uint64, summarize bool, store objstore.Store) *history {
	rig := newRigIn(t, pg, generation.Generation{ID: dataGeneration}, store)
	h := &history{rig: rig, t: t, random: rand.New(rand.NewPCG(seed, 2))}
	params := map[string]string{"allow_in_place_tablespaces": "on", "autovacuum": "off", "checkpoint_timeout": "30s"}
	if pg.Major >= 17 {
		params["summarize_wal"] = map[bool]string{true: "on", false: "off"}[summarize]
	}
	h.Stop()
	h.Configure(params)
	h.Start()
	h.SQL("CREATE TABLESPACE side LOCATION ''")
	for range 4 {
		h.create()
	}
	return h
}

// do runs statements one by one, as some can't be in a transaction.
func (h *history) do(statements string) {
	h.t.Helper()
	h.log = append(h.log, statements)
	for statement := range strings.SplitSeq(statements, "; ") {
		h.SQL(statement)
	}
}

func (h *history) create() {
	h.names++
	h.do(fmt.Sprintf("CREATE TABLE t%[1]d (id int PRIMARY KEY, n bigint, note text); "+
		"INSERT INTO t%[1]d SELECT i, i, repeat(md5(i::text), 3) FROM generate_series(1, %[2]d) i", h.names, 2000+h.random.IntN(20000)))
}

func (h *history) table() string {
	tables := strings.Fields(h.SQL("SELECT relname FROM pg_class WHERE relname ~ '^t[0-9]+$' AND relkind = 'r' ORDER BY 1"))
	return tables[h.random.IntN(len(tables))]
}

// live changes something.
func (h *history) live() {
	h.t.Helper()
	table, n := h.table(), 1+h.random.IntN(5000)
	switch h.random.IntN(15) {
	case 0, 1:
		h.do(fmt.Sprintf("INSERT INTO %[1]s SELECT (SELECT coalesce(max(id), 0) FROM %[1]s) + i, i, md5(i::text) FROM generate_series(1, %d) i", table, n))
	case 2, 3:
		h.do(fmt.Sprintf("UPDATE %s SET n = n + 1 WHERE id %% 101 = %d", table, n%101))
	case 4:
		h.do(fmt.Sprintf("UPDATE %s SET note = note || 'x' WHERE id BETWEEN %d AND %d", table, n, n+200))
	case 5:
		h.do(fmt.Sprintf("DELETE FROM %[1]s WHERE id > (SELECT max(id) - %[2]d FROM %[1]s); VACUUM %[1]s", table, n))
	case 6:
		h.do("TRUNCATE " + table)
	case 7:
		h.do("VACUUM (FULL) " + table)
	case 8:
		h.do("DROP TABLE " + table)
		h.create()
	case 9:
		h.do(fmt.Sprintf("CREATE INDEX ON %s (n); REINDEX TABLE %s", table, table))
	case 10:
		h.do(fmt.Sprintf("ALTER TABLE %s SET TABLESPACE %s", table, []string{"side", "pg_default"}[n%2]))
	case 11:
		h.do(fmt.Sprintf("ALTER TABLE %s SET UNLOGGED; ALTER TABLE %s SET LOGGED", table, table))
	case 12: // the same OIDs and file names with other content
		h.do(fmt.Sprintf("DROP DATABASE IF EXISTS other; CREATE DATABASE other OID 70000 STRATEGY %s TEMPLATE %s",
			[]string{"file_copy", "wal_log"}[n%2], []string{"template0", "template1"}[h.random.IntN(2)]))
	case 13:
		h.do("CHECKPOINT")
	case 14:
		h.do("VACUUM (FREEZE) " + table)
	}
}

// contents is what a restore has to bring back, by value.
func contentsOf(t *testing.T, s *pgtest.Server) string {
	t.Helper()
	var all []string
	for _, table := range strings.Fields(s.SQL("SELECT relname FROM pg_class WHERE relname ~ '^t[0-9]+$' AND relkind = 'r' ORDER BY 1")) {
		all = append(all, table+" "+s.SQL("SELECT count(*), sum(n), md5(string_agg(id || note, ',' ORDER BY id)) FROM "+table))
	}
	databases := s.SQL("SELECT datname, oid FROM pg_database ORDER BY 2")
	if strings.Contains(databases, "other|") {
		all = append(all, s.SQLIn("other", "SELECT count(*), sum(length(prosrc)), sum(c.relpages) FROM pg_proc p, pg_class c WHERE p.proname = c.relname OR c.relname ~ 'pg_c'"))
	}
	return strings.Join(append(all, databases), "\n")
}

// backup makes the next one, on a parent or none.
func (h *history) backup(parent string) agentapi.BackupResult {
	h.t.Helper()
	h.task.Parent = parent
	h.task.BackupID = fmt.Sprintf("b%d", len(h.log))
	h.log = append(h.log, "-- backup "+h.task.BackupID+" on "+parent)
	result, err := h.worker(silent).Run(h.t.Context(), h.task)
	if err != nil {
		h.t.Fatal(err)
	}
	return result
}

// compared is how the last backup knew what had changed.
func (h *history) compared() backup.Comparison {
	h.t.Helper()
	header, err := backup.ReadHeader(h.t.Context(), h.store, h.task.Lineage, h.task.BackupID)
	if err != nil {
		h.t.Fatal(err)
	}
	return header.Compared
}

// seed is HOWDAH_SEED, to try other histories than the usual one.
func seed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("HOWDAH_SEED")
	if text == "" {
		return 1
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// restoreAt starts a server on a backup as it was at its end, where nothing but its own WAL was replayed.
func (h *history) restoreAt(id string) *pgtest.Server {
	h.t.Helper()
	manifest, err := backup.ReadManifest(h.t.Context(), h.store, h.task.Lineage, id)
	if err != nil {
		h.t.Fatal(err)
	}
	dir := pgtest.Dir(h.t)
	target := filepath.Join(dir, "pgdata")
	if err := backup.Restore(h.t.Context(), h.store, manifest, target, backup.RestoreOptions{}); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(target, "recovery.signal"), nil, 0o600); err != nil {
		h.t.Fatal(err)
	}
	pgtest.Own(h.t, dir)
	restored := pgtest.Init(h.t, pgtest.Options{Major: h.Major})
	restored.DataDir = target
	restored.Configure(map[string]string{
		"archive_mode": "off", "restore_command": "cp " + h.archive + "/%f %p", "unix_socket_directories": restored.SocketDir,
		"recovery_target": "immediate", "recovery_target_action": "promote",
	})
	restored.Start()
	for deadline := time.Now().Add(2 * time.Minute); restored.SQL("SELECT pg_is_in_recovery()") != "f"; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			h.t.Fatal("recovery did not end")
		}
	}
	return restored
}

// sound looks at every table and index as pg_amcheck does.
func sound(t *testing.T, s *pgtest.Server) {
	t.Helper()
	s.SQL("CREATE EXTENSION amcheck")
	if found := s.SQL("SELECT c.relname, v.msg FROM pg_class c, verify_heapam(c.oid) v WHERE c.relkind = 'r'"); found != "" {
		t.Errorf("heaps: %s", found)
	}
	s.SQL("SELECT bt_index_parent_check(c.oid, true) FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE a.amname = 'btree' AND c.relkind = 'i'")
}

func TestRandomHistoriesOfIncrementalBackupsRestoreToTheSameContents(t *testing.T) {
	subset.OneIn(t, 2)
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		for _, summarize := range []bool{false, true} {
			if summarize && pg.Major < 17 || !summarize && pg.Major >= 17 && testing.Short() {
				continue
			}
			t.Run(fmt.Sprintf("summaries %t", summarize), func(t *testing.T) {
				h := newHistory(t, pg, seed(t), summarize)
				h.backup("")
				want := map[string]string{h.task.BackupID: contentsOf(t, h.Server)}
				rounds := 5
				if testing.Short() {
					rounds = 2
				}
				for range rounds {
					for range 1 + h.random.IntN(7) {
						h.live()
					}
					parent := h.task.BackupID
					result := h.backup(parent)
					want[h.task.BackupID] = contentsOf(t, h.Server)
					if how := h.compared(); how != map[bool]backup.Comparison{true: backup.BySummaries, false: backup.ByPages}[summarize] {
						t.Errorf("compared by %q", how)
					}
					if !result.Incremental || result.Parent != parent || result.CopiedBytes >= result.LogicalBytes {
						t.Errorf("result %+v", result)
					}
					if h.random.IntN(2) == 0 { // any one may go
						if _, err := backup.Delete(t.Context(), h.store, h.task.Lineage, parent); err != nil {
							t.Fatal(err)
						}
						delete(want, parent)
					}
				}
				if result := h.backup(h.task.BackupID); result.CopiedBytes > result.LogicalBytes/2 { // maps of templates, for the most part
					t.Errorf("nothing has changed, and %+v", result)
				}
				want[h.task.BackupID] = contentsOf(t, h.Server)
				for id, contents := range want {
					restored := h.restoreAt(id)
					if got := contentsOf(t, restored); got != contents {
						t.Errorf("%s restored\n%s\nwant\n%s\nafter\n%s", id, got, contents, strings.Join(h.log, "\n"))
					}
					sound(t, restored)
					restored.Stop()
				}
			})
		}
	})
}

func TestAnIncrementalBackupTakenUnderWritesRestoresToTheSameContents(t *testing.T) {
	subset.OneIn(t, 3)
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		h := newHistory(t, pg, 2, true)
		h.SQL("CREATE TABLE accounts (id int PRIMARY KEY, balance bigint NOT NULL, note text NOT NULL); " +
			"INSERT INTO accounts SELECT n, n, md5(n::text) FROM generate_series(1, 60000) n; CREATE INDEX ON accounts (balance)")
		stop := h.write(t)
		h.backup("")
		for range 3 {
			h.backup(h.task.BackupID)
		}
		stop()
		h.awaitArchived(t)
		want := h.SQL(contents)
		h.Stop()
		if got := h.restore(t, pg).SQL(contents); got != want {
			t.Errorf("restored %s, want %s", got, want)
		}
	})
}
