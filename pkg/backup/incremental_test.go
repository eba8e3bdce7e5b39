package backup

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"howdah.dev/howdah/pkg/postgres"
)

func TestRandomHistoriesOfIncrementalBackupsRestoreExactly(t *testing.T) {
	leaveOutForRaces(t)
	for _, summarize := range []bool{false, true} {
		for seed := range uint64(3) {
			if testing.Short() && seed != 1 {
				continue
			}
			t.Run(fmt.Sprintf("summaries %t, %d", summarize, seed), func(t *testing.T) {
				t.Parallel()
				d := newDatabase(t, seed, summarize)
				d.mostParts = int(seed) * 60
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
				if d.taken == 0 {
					t.Error("no restore took anything from the present directory")
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
	leaveOutForRaces(t)
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

func TestZeroesAtTheEndOfARelationStay(t *testing.T) {
	leaveOutForRaces(t)
	for _, summarize := range []bool{false, true} {
		d := newDatabase(t, 1, summarize)
		write(t, d.dir, bigRelation, append(relationPages(20, 0, 0x2000050, 8), make([]byte, 300*postgres.PageSize)...), 0o600)
		last, _ := d.backup("")
		for block := range uint32(3) {
			d.set(bigRelation, block)
			next, kept := d.backup(last.ID)
			d.restores(next, kept)
			last = next
		}
	}
}

func TestOnlyTheBlocksThatSummariesNameAreRead(t *testing.T) {
	leaveOutForRaces(t)
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
	leaveOutForRaces(t)
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
	leaveOutForRaces(t)
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
	leaveOutForRaces(t)
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

func TestPartsAreFewEnoughHoweverLongTheChain(t *testing.T) {
	leaveOutForRaces(t)
	const most = 200
	d := newDatabase(t, 1, true)
	d.mostParts = most
	write(t, d.dir, bigRelation, relationPages(6000, 0, 0x2000050, 8), 0o600)
	last, _ := d.backup("")
	copied, kept := int64(0), ""
	for range 5 {
		for range 60 {
			d.set(bigRelation, d.random.Uint32N(6000))
		}
		last, kept = d.backup(last.ID)
		copied += last.Totals.CopiedBytes
		parts := 0
		for i := range last.Files {
			parts += len(last.Files[i].Parts)
		}
		if bound := most + 3*int(last.Totals.LogicalBytes/minFrame); parts > bound {
			t.Errorf("%d parts, more than %d", parts, bound)
		}
	}
	if copied > 3*last.Totals.LogicalBytes {
		t.Errorf("%d bytes were copied", copied)
	}
	d.restores(last, kept)
}

func TestADatabaseThatWasCreatedAgainIsCopiedWhole(t *testing.T) {
	leaveOutForRaces(t)
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
	}
}

// TestAChainGoesOnAsLongAsItsHeaderHasRoom counts the packs that are kept, not all of the parent, and continues with a full backup.
func TestAChainGoesOnAsLongAsItsHeaderHasRoom(t *testing.T) {
	leaveOutForRaces(t)
	for _, summarize := range []bool{false, true} {
		d, full := withBigRelation(t, summarize)
		parent, one := full, namesOf(full.Packs[:1])
		for i := range uint32(5) {
			for block := range uint32(40) {
				d.set(bigRelation, i*100+block)
			}
			parent, _ = d.backup(parent.ID)
		}
		if len(parent.Packs) < 6 {
			t.Fatalf("it has %d packs", len(parent.Packs))
		}
		for block := range uint32(1000) {
			d.set(bigRelation, block)
		}
		d.mostNames = 5 * one // one of the first backup, and two of its own at most
		m, kept := d.backup(parent.ID)
		if m.Type != Incremental || len(m.Packs) > 3 {
			t.Errorf("%s of %d packs, %s", m.Type, len(m.Packs), m.Why)
		}
		d.restores(m, kept)
		d.mostNames = one
		d.set(bigRelation, 7)
		m, kept = d.backup(m.ID)
		if m.Type != Full || !strings.Contains(m.Why, "the header of an incremental backup has no room for the names of") {
			t.Errorf("%s, %s", m.Type, m.Why)
		}
		d.restores(m, kept)
		if left := keys(t, d.store); contains(left, "/claims/") {
			t.Errorf("claims are left: %v", left)
		}
	}
}
