package backup

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/backup/repository"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/postgres"
)

// database is a data directory that changes as PostgreSQL changes one, and writes WAL summaries if it shall.
type database struct {
	testing.TB
	dir       string
	store     *mem.Store
	source    Source
	random    *rand.Rand
	lsn       postgres.LSN
	summarize bool
	// changed since the last summary, which ended at summarized.
	changed    map[postgres.RelationFork]map[uint32]bool
	limits     map[postgres.RelationFork]uint32
	summarized postgres.LSN
	backups    int
}

func newDatabase(t testing.TB, seed uint64, summarize bool) *database {
	t.Helper()
	d := &database{
		TB: t, dir: pgdata(t), store: mem.New(), random: rand.New(rand.NewPCG(seed, 5)), lsn: 0x2000100, summarize: summarize,
		changed: map[postgres.RelationFork]map[uint32]bool{}, limits: map[postgres.RelationFork]uint32{}, summarized: 0x2000028,
	}
	d.source = source(t, d.store, d.dir)
	d.source.Start = func(context.Context) (Started, error) {
		d.lsn += 8
		d.writeSummary()
		return Started{LSN: d.lsn, Timeline: 1, Time: testStart}, nil
	}
	d.source.Stop = func(context.Context) (Stopped, error) {
		d.lsn += 8
		return Stopped{LSN: d.lsn, Time: testStart.Add(time.Minute), BackupLabel: testLabel}, nil
	}
	must(t, os.Remove(d.path("noise")))
	d.version("base/5", time.Time{})
	return d
}

// version makes PG_VERSION of a database, which says when that was made; the zero time is long ago.
func (d *database) version(folder string, made time.Time) {
	write(d, d.dir, folder+"/PG_VERSION", []byte("17\n"), 0o600)
	if made.IsZero() {
		made = testStart.AddDate(-1, 0, 0)
	}
	must(d, os.Chtimes(filepath.Join(d.dir, folder, "PG_VERSION"), made, made))
}

func (d *database) path(name string) string { return filepath.Join(d.dir, filepath.FromSlash(name)) }

// note says to the next summary what has become of a block, or of all from a block on.
func (d *database) note(name string, block uint32) {
	fork, _ := locate(name)
	if d.changed[fork] == nil {
		d.changed[fork] = map[uint32]bool{}
	}
	d.changed[fork][block] = true
}

func (d *database) cutOff(name string, block uint32) {
	fork, _ := locate(name)
	if limit, ok := d.limits[fork]; !ok || block < limit {
		d.limits[fork] = block
	}
}

// set writes a block of a relation anew.
func (d *database) set(name string, block uint32) {
	d.lsn += 8
	file, err := os.OpenFile(d.path(name), os.O_CREATE|os.O_WRONLY, 0o600)
	must(d, err)
	_, err = file.WriteAt(relationPages(1, block, d.lsn, d.random.Uint64()), int64(block)*postgres.PageSize)
	must(d, errors.Join(err, file.Close()))
	d.note(name, block)
}

func (d *database) blocks(name string) uint32 {
	info, err := os.Stat(d.path(name))
	if err != nil {
		return 0
	}
	return blocksOf(info.Size())
}

func (d *database) truncate(name string, blocks uint32) {
	must(d, os.Truncate(d.path(name), int64(blocks)*postgres.PageSize))
	d.cutOff(name, blocks)
}

// writeSummary writes what has changed up to now as PostgreSQL does.
func (d *database) writeSummary() {
	if !d.summarize {
		return
	}
	b := binary.LittleEndian.AppendUint32(nil, 0x652b137b)
	forks := map[postgres.RelationFork]bool{}
	for fork := range d.changed {
		forks[fork] = true
	}
	for fork := range d.limits {
		forks[fork] = true
	}
	for fork := range forks {
		limit, ok := d.limits[fork]
		if !ok {
			limit = postgres.NoLimit
		}
		for _, n := range []uint32{fork.Tablespace, fork.Database, fork.Relation, uint32(fork.Fork), limit, 1} {
			b = binary.LittleEndian.AppendUint32(b, n)
		}
		b = binary.LittleEndian.AppendUint16(b, uint16(len(d.changed[fork])))
		for block := range d.changed[fork] {
			b = binary.LittleEndian.AppendUint16(b, uint16(block))
		}
	}
	b = append(b, make([]byte, 24)...)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
	name := postgres.WALSummary{Timeline: 1, Start: d.summarized, End: d.lsn}.Name()
	write(d, d.dir, postgres.WALSummariesDir+"/"+name, b, 0o600)
	d.summarized = d.lsn
	clear(d.changed)
	clear(d.limits)
}

// backup makes one, on a parent or none, and keeps what was backed up.
func (d *database) backup(parent string) (*Manifest, string) {
	d.Helper()
	d.backups++
	m, err := Write(context.Background(), d.store, d.source, Options{ID: fmt.Sprintf("b%03d", d.backups), Parent: parent})
	must(d, err)
	kept := filepath.Join(d.TempDir(), "kept")
	must(d, exec.Command("cp", "-a", d.dir, kept).Run())
	return m, kept
}

// restores compares a backup with what was backed up, all files that hold data.
func (d *database) restores(m *Manifest, kept string) {
	d.Helper()
	read, err := ReadManifest(context.Background(), d.store, testLineage, m.ID)
	must(d, err)
	target := filepath.Join(d.TempDir(), "restored")
	must(d, Restore(context.Background(), d.store, read, target, RestoreOptions{}))
	same(d, kept, target, "backup_label", "pg_wal", "pg_replslot", "base/5/16400", "base/5/16400_vm")
}

// change does what sessions do to relations between two backups.
func (d *database) change() {
	name := fmt.Sprintf("base/5/%d", 20000+d.random.IntN(4))
	blocks := d.blocks(name)
	switch d.random.IntN(9) {
	case 0, 1: // adjacent rows
		from := d.random.Uint32N(blocks + 1)
		for i := range 1 + d.random.Uint32N(30) {
			d.set(name, from+i)
		}
	case 2, 3: // scattered rows
		for range 1 + d.random.IntN(40) {
			d.set(name, d.random.Uint32N(blocks+1))
		}
	case 4: // VACUUM cuts off the end, which then may grow again
		if blocks > 0 {
			d.truncate(name, d.random.Uint32N(blocks))
			if d.random.IntN(2) == 0 {
				d.set(name, d.blocks(name)+1) // with a block of zeros before it
			}
		}
	case 5: // TRUNCATE, then maybe the same name once more
		if blocks > 0 {
			must(d, os.Remove(d.path(name)))
			d.cutOff(name, 0)
		}
	case 6: // grows by much
		for i := range d.random.Uint32N(300) {
			d.set(name, blocks+i)
		}
	case 7: // other forks say nothing of their changes
		write(d, d.dir, name+"_vm", relationPages(1, 0, 0, d.random.Uint64()), 0o600)
		write(d, d.dir, "base/5/16384_fsm", relationPages(3, 0, 0, d.random.Uint64()), 0o600)
	case 8:
		write(d, d.dir, "pg_xact/0000", randomBytes(100+d.random.IntN(9000), d.random.Uint64()), 0o600)
	}
}

func TestRandomHistoriesOfIncrementalBackupsRestoreExactly(t *testing.T) {
	for _, summarize := range []bool{false, true} {
		for seed := range uint64(3) {
			t.Run(fmt.Sprintf("summaries %t, %d", summarize, seed), func(t *testing.T) {
				t.Parallel()
				d := newDatabase(t, seed, summarize)
				backups, kept, parent, partial := map[string]*Manifest{}, map[string]string{}, "", 0
				for range 12 {
					for range 1 + d.random.IntN(6) {
						d.change()
					}
					m, copied := d.backup(parent)
					if m.Type == Incremental && m.Totals.CopiedBytes < m.Totals.LogicalBytes {
						partial++
					}
					backups[m.ID], kept[m.ID], parent = m, copied, m.ID
					if d.random.IntN(3) == 0 {
						gone := slices.Sorted(mapsKeys(backups))[d.random.IntN(len(backups))]
						_, err := Delete(t.Context(), d.store, testLineage, gone)
						must(t, err)
						delete(backups, gone)
					}
					if d.random.IntN(4) == 0 && len(backups) > 0 {
						parent = slices.Sorted(mapsKeys(backups))[d.random.IntN(len(backups))] // not always the latest
					}
				}
				for id, m := range backups {
					d.restores(m, kept[id])
				}
				if partial < 4 {
					t.Errorf("only %d backups referred to older ones", partial)
				}
				if left := keys(t, d.store); contains(left, "/claims/") {
					t.Errorf("claims are left: %v", left)
				}
			})
		}
	}
}

func mapsKeys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for key := range m {
			if !yield(key) {
				return
			}
		}
	}
}

// bigRelation is the relation that the following tests change.
const bigRelation = "base/5/30000"

func withBigRelation(t *testing.T, summarize bool) (*database, *Manifest) {
	t.Helper()
	d := newDatabase(t, 1, summarize)
	write(t, d.dir, bigRelation, relationPages(1000, 0, 0x2000050, 8), 0o600)
	full, _ := d.backup("")
	return d, full
}

func TestAnIncrementalBackupCostsWhatHasChanged(t *testing.T) {
	for _, summarize := range []bool{false, true} {
		t.Run(fmt.Sprintf("summaries %t", summarize), func(t *testing.T) {
			d, full := withBigRelation(t, summarize)
			for block := range uint32(10) {
				d.set(bigRelation, 500+block)
			}
			m, kept := d.backup(full.ID)
			others := int64(0) // what is copied always
			for i := range m.Files {
				if rel, ok := relationOf(m.Files[i].Path); !ok || rel.fork != "" {
					others += m.Files[i].Size
				}
			}
			if m.Type != Incremental || m.Parent != full.ID || m.Why != "" {
				t.Errorf("type %s, parent %s, why %q", m.Type, m.Parent, m.Why)
			}
			if !summarize {
				others += 5 * postgres.PageSize // of base/5/16390: pages of zeros don't say when they were changed
			}
			if want := others + 10*postgres.PageSize; m.Totals.CopiedBytes != want {
				t.Errorf("%d bytes were copied, want %d", m.Totals.CopiedBytes, want)
			}
			if m.Totals.StoredBytes > full.Totals.StoredBytes/4 || m.Totals.LogicalBytes != full.Totals.LogicalBytes {
				t.Errorf("totals %+v, of the full one %+v", m.Totals, full.Totals)
			}
			d.restores(m, kept)
		})
	}
}

func TestOnlyTheBlocksThatSummariesNameAreRead(t *testing.T) {
	d, full := withBigRelation(t, true)
	d.set(bigRelation, 3)
	clear(d.changed) // the summary doesn't know of it
	d.set(bigRelation, 7)
	m, kept := d.backup(full.ID)
	was := relationPages(1000, 0, 0x2000050, 8)[3*postgres.PageSize:][:postgres.PageSize]
	file, err := os.OpenFile(filepath.Join(kept, bigRelation), os.O_WRONLY, 0)
	must(t, err)
	_, err = file.WriteAt(was, 3*postgres.PageSize)
	must(t, errors.Join(err, file.Close()))
	d.restores(m, kept)
}

func TestWithoutWholeSummariesThePagesAreRead(t *testing.T) {
	for name, harm := range map[string]func(d *database, summaries []string){
		"one is missing": func(d *database, s []string) { must(d, os.Remove(s[1])) },
		"one is damaged": func(d *database, s []string) {
			content := readFile(d, s[1])
			content[len(content)/2] ^= 1
			must(d, os.WriteFile(s[1], content, 0o600))
		},
		"one is another's": func(d *database, s []string) {
			must(d, os.Rename(s[1], strings.Replace(s[1], "/00000001", "/00000002", 1)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, full := withBigRelation(t, true)
			d.set(bigRelation, 3)
			d.lsn += 8
			d.writeSummary()
			clear(d.changed)
			d.set(bigRelation, 4)
			summaries, err := filepath.Glob(d.path(postgres.WALSummariesDir) + "/*")
			must(t, err)
			harm(d, summaries)
			m, kept := d.backup(full.ID)
			d.restores(m, kept)
			if m.Type != Incremental || m.Totals.CopiedBytes > m.Totals.LogicalBytes/2 {
				t.Errorf("type %s, %d bytes copied", m.Type, m.Totals.CopiedBytes)
			}
		})
	}
}

func TestAFileOfWhichMostHasChangedIsCopiedWhole(t *testing.T) {
	d, full := withBigRelation(t, false)
	for block := range uint32(1000) {
		if block%5 != 0 {
			d.set(bigRelation, block)
		}
	}
	m, kept := d.backup(full.ID)
	for i := range m.Files {
		if f := &m.Files[i]; f.Path == bigRelation && slices.ContainsFunc(f.Parts, func(p Part) bool { return m.Packs[p.Frame.Pack].Backup != m.ID }) {
			t.Error("it refers to the parent")
		}
	}
	d.restores(m, kept)
}

func TestAChainOfIncrementalBackupsStaysCheapToRestore(t *testing.T) {
	d, full := withBigRelation(t, true)
	last, kept := full, ""
	for range 25 {
		for range 60 {
			d.set(bigRelation, d.random.Uint32N(1000))
		}
		last, kept = d.backup(last.ID)
	}
	frames := map[uint64]int64{}
	for i := range last.Files {
		for _, p := range last.Files[i].Parts {
			frames[frameID(p.Frame)] = int64(p.Frame.Content)
		}
	}
	content := int64(0)
	for _, n := range frames {
		content += n
	}
	if content > 3*last.Totals.LogicalBytes {
		t.Errorf("a restore decompresses %d bytes for %d", content, last.Totals.LogicalBytes)
	}
	d.restores(last, kept)
}

func TestADatabaseThatWasMadeAnewIsCopiedWhole(t *testing.T) {
	d, full := withBigRelation(t, false)
	// Dropped, and copied from a template under the same OID: other old pages under the same names.
	write(t, d.dir, bigRelation, relationPages(900, 0, 0x2000030, 99), 0o600)
	d.version("base/5", testStart)
	m, kept := d.backup(full.ID)
	d.restores(m, kept)
	// What was made just before the parent is known by its time.
	d.set(bigRelation, 7)
	m, kept = d.backup(m.ID)
	if m.Totals.CopiedBytes > m.Totals.LogicalBytes/2 {
		t.Errorf("%d bytes were copied", m.Totals.CopiedBytes)
	}
	d.restores(m, kept)

	d, full = withBigRelation(t, true)
	write(t, d.dir, bigRelation, relationPages(900, 0, 0x2000030, 99), 0o600)
	d.limits[postgres.RelationFork{Tablespace: defaultTablespace, Database: 5}] = 0
	m, kept = d.backup(full.ID)
	d.restores(m, kept)
}

func TestAParentThatCannotBeBuiltOnMakesAFullBackup(t *testing.T) {
	for name, test := range map[string]struct {
		change func(d *database, full *Manifest)
		why    string
	}{
		"it was deleted": {func(d *database, full *Manifest) {
			_, err := Delete(d.Context(), d.store, testLineage, full.ID)
			must(d, err)
		}, "is not in the repository any more"},
		"its manifest is damaged": {func(d *database, full *Manifest) {
			key := repository.ManifestKey(testLineage, full.ID)
			content, err := d.store.Get(d.Context(), key, 1<<30)
			must(d, err)
			content = bytes.Clone(content)
			content[len(content)-1] ^= 1
			must(d, d.store.Put(d.Context(), key, content, objstore.PutOptions{}))
		}, "the list of files is not what was stored"},
		"a pack is missing": {func(d *database, full *Manifest) {
			must(d, d.store.Delete(d.Context(), repository.PackKey(testLineage, full.ID, full.Packs[0].Name)))
		}, "it was uploaded and is not there"},
		"it is of a later time":        {func(d *database, _ *Manifest) { d.lsn = 0x2000100 }, "after this one's start"},
		"checksums were switched on":   {func(d *database, _ *Manifest) { d.source.DataChecksums = false }, "checksums were switched on or off"},
		"it is another system":         {func(d *database, _ *Manifest) { d.source.SystemIdentifier = "8" }, "of another database system"},
		"its timeline can't be placed": {func(d *database, _ *Manifest) { d.onTimeline(3, "") }, "it can't be told how timeline 3 came"},
		"its timeline was left before": {func(d *database, full *Manifest) { d.onTimeline(2, "1\t"+full.StartLSN.String()+"\tx\n") }, "before its end"},
		"its timeline is no ancestor": {func(d *database, full *Manifest) {
			d.onTimeline(3, "2\t"+full.StopLSN.String()+"\tx\n")
		}, "before its end"},
	} {
		t.Run(name, func(t *testing.T) {
			d, full := withBigRelation(t, false)
			test.change(d, full)
			m, kept := d.backup(full.ID)
			if m.Type != Full || m.Parent != "" || !strings.Contains(m.Why, test.why) || m.Totals.CopiedBytes != m.Totals.LogicalBytes {
				t.Errorf("type %s, parent %q, why %q", m.Type, m.Parent, m.Why)
			}
			d.restores(m, kept)
			if contains(keys(t, d.store), "/claims/") {
				t.Error("a claim is left")
			}
		})
	}
}

// onTimeline lets the next backup be one of that timeline, with a history.
func (d *database) onTimeline(timeline uint32, history string) {
	start := d.source.Start
	d.source.Start = func(ctx context.Context) (Started, error) {
		started, err := start(ctx)
		started.Timeline = timeline
		return started, err
	}
	for number := uint64(2); number <= 3; number++ {
		name := postgres.Segment{Timeline: timeline, Number: number, SegSize: testSeg}.Name()
		must(d, wal.New(d.store).Put(context.Background(), testLineage, name, []byte("wal"), wal.Info{Writer: "test"}))
	}
	if history != "" {
		write(d, d.dir, fmt.Sprintf("pg_wal/%08X.history", timeline), []byte(history), 0o600)
	}
}

func TestAnIncrementalBackupFollowsAFailover(t *testing.T) {
	d, full := withBigRelation(t, false)
	d.lsn += 64
	d.onTimeline(2, "1\t"+d.lsn.String()+"\tno recovery target specified\n")
	d.set(bigRelation, 17)
	m, kept := d.backup(full.ID)
	if m.Type != Incremental {
		t.Errorf("type %s, why %s", m.Type, m.Why)
	}
	d.restores(m, kept)
}

func TestDeletingTheParentMeanwhileLeavesWhatIsClaimed(t *testing.T) {
	d, full := withBigRelation(t, false)
	d.set(bigRelation, 17)
	stop := d.source.Stop
	d.source.Stop = func(ctx context.Context) (Stopped, error) {
		if _, err := Delete(ctx, d.store, testLineage, full.ID); err != nil {
			return Stopped{}, err
		}
		return stop(ctx)
	}
	m, kept := d.backup(full.ID)
	if m.Type != Incremental {
		t.Errorf("type %s, why %s", m.Type, m.Why)
	}
	d.restores(m, kept)
	_, err := Delete(t.Context(), d.store, testLineage, m.ID)
	must(t, err)
	if left := keys(t, d.store); contains(left, "/packs/") || contains(left, "/claims/") {
		t.Errorf("left are %v", left)
	}
}

func TestClaimsOfKilledWritersGoWithTheirBackupOrWithTime(t *testing.T) {
	d, full := withBigRelation(t, false)
	killed := &writing{store: d.store, source: d.source, opts: Options{ID: "killed"}, attempt: "a1"}
	must(t, killed.claim(t.Context(), full.Packs))
	_, err := Delete(t.Context(), d.store, testLineage, full.ID)
	must(t, err)
	if !contains(keys(t, d.store), "/packs/") {
		t.Fatal("claimed packs were deleted")
	}
	_, _, err = SweepOrphans(t.Context(), d.store, testLineage, time.Now().Add(-time.Hour))
	must(t, err)
	if !contains(keys(t, d.store), "/packs/") {
		t.Fatal("packs with a young claim were deleted")
	}
	_, err = Delete(t.Context(), d.store, testLineage, "killed")
	must(t, err)
	_, _, err = SweepOrphans(t.Context(), d.store, testLineage, time.Now().Add(time.Hour))
	must(t, err)
	if left := keys(t, d.store); contains(left, "/packs/") || contains(left, "/claims/") {
		t.Errorf("left are %v", left)
	}
}

func TestBlockSets(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 3))
	for range 300 {
		s := blockSet{blocks: 1 + random.Uint32N(400)}
		want := make([]bool, s.blocks)
		for range random.IntN(12) {
			from := random.Uint32N(s.blocks)
			to := from + random.Uint32N(90)
			s.add(from, to)
			for i := from; i < min(to, s.blocks); i++ {
				want[i] = true
			}
		}
		got := make([]bool, s.blocks)
		for from, to := range s.runs(true) {
			for i := from; i < to; i++ {
				got[i] = true
			}
		}
		free := uint32(0)
		for from, to := range s.runs(false) {
			free += to - from
		}
		if !slices.Equal(got, want) || free != s.blocks-s.count() {
			t.Fatalf("%v is %v, %d free", want, got, free)
		}
		gap := random.Uint32N(9)
		runs, before := s.join(gap), s.count()
		if again := s.join(gap); again != runs || s.count() != before {
			t.Fatalf("joined twice: %d runs of %d, then %d of %d", runs, before, again, s.count())
		}
	}
}
