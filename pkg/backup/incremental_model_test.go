package backup

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/postgres"
)

// database is a data directory that changes as PostgreSQL changes one, and writes WAL summaries if it shall.
type database struct {
	testing.TB
	dir       string
	store     objstore.Store
	source    Source
	random    *rand.Rand
	lsn       postgres.LSN
	summarize bool
	// changed since the last summary, which ended at summarized.
	changed    map[postgres.RelationFork]map[uint32]bool
	limits     map[postgres.RelationFork]uint32
	summarized postgres.LSN
	backups    int
	mostParts  int // of a backup; 0: as always
	mostNames  int64
	// reportDamage takes backups of damaged pages, too.
	reportDamage bool
	taken        int64 // bytes, by restores from the present directory
}

func newDatabase(t testing.TB, seed uint64, summarize bool) *database {
	t.Helper()
	return newDatabaseIn(t, mem.New(), seed, summarize)
}

func newDatabaseIn(t testing.TB, store objstore.Store, seed uint64, summarize bool) *database {
	t.Helper()
	d := &database{
		TB: t, dir: pgdata(t), store: store, random: rand.New(rand.NewPCG(seed, 5)), lsn: 0x2000100, summarize: summarize,
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
	m, err := Write(context.Background(), d.store, d.source, Options{ID: fmt.Sprintf("b%03d", d.backups), Parent: parent, mostParts: d.mostParts, mostNames: d.mostNames, ReportDamage: d.reportDamage})
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
	ignored := []string{"backup_label", "pg_wal", "pg_replslot", "base/5/16400", "base/5/16400_vm"}
	same(d, kept, target, ignored...)
	target, last := deltaRestore(d, d.store, read, d.dir, RestoreOptions{})
	same(d, kept, target, ignored...)
	d.taken += last.Taken
	target = copyOf(d, d.dir)
	d.taken += inPlace(d, d.store, read, target, d.random.IntN(2) == 0, RestoreOptions{}).Taken
	same(d, kept, target, ignored...)
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
