package backup

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/backup/internal/codec"
	"howdah.dev/howdah/pkg/backup/internal/envelope"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/postgres"
)

const (
	chainRelations = 80 // of 256 MiB each, all of which are one file on disk
	chainBlocks    = 32768
	chainShare     = 20 // one of this many blocks is changed before each backup
	chainRun       = 3  // blocks of a part of the first backup, which has about as many as may be
	// softLimit is that of a worker of a Job, whose pod may have 256 MiB.
	softLimit = 176 << 20
	// memoryBoundOfChain is what that limit allows: mostly it is 130 to 145, but garbage may lie for longer on a busy machine.
	memoryBoundOfChain = softLimit >> 20
)

// TestScatteredBackupsFitIntoTheMemory builds an incremental backup on one that has about as many parts as may be, of a
// database of 20 GiB that was changed all over. It has as many itself.
func TestScatteredBackupsFitIntoTheMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("reads several GiB")
	}
	dir := pgdata(t)
	for i := range chainRelations {
		scatteredRelation(t, dir, i)
	}
	place := t.TempDir()
	store := chainStore(t, place)
	putFirst(t, store)
	putScattered(t, store)
	measureMemoryIn(t, place, dir, memoryBoundOfChain, "chain-write", "chain-verify", "chain-restore")
}

func chainStart(n int) postgres.LSN { return postgres.LSN(0x2000100 + n*16) }

func chainRelation(i int) string { return fmt.Sprintf("base/5/%d", 50000+i) }

// scatteredRelation makes the first relation, and the others links to it.
func scatteredRelation(t testing.TB, dir string, i int) {
	t.Helper()
	if i > 0 {
		must(t, os.Link(filepath.Join(dir, chainRelation(0)), filepath.Join(dir, chainRelation(i))))
		return
	}
	page := relationPages(1, 0, 100, 1)
	for at := 1024; at < len(page); at++ {
		page[at] = 7
	}
	write(t, dir, chainRelation(0), []byte(strings.Repeat(string(page), chainBlocks)), 0o600)
}

// chainStore is a store of packs and manifests that an earlier process has put.
func chainStore(t testing.TB, place string) onDisk {
	t.Helper()
	store := onDisk{Store: mem.New(), dir: place, all: true}
	files, err := os.ReadDir(place)
	must(t, err)
	for _, file := range files {
		if key, err := hex.DecodeString(file.Name()); err == nil {
			must(t, store.Store.Put(t.Context(), string(key), nil, objstore.PutOptions{}))
		}
	}
	return store
}

// chainWork is done by a process of its own.
func chainWork(t testing.TB, work, dir, place string) {
	t.Helper()
	store := chainStore(t, place)
	debug.SetMemoryLimit(softLimit)
	switch work {
	case "verify":
		source(t, store, dir) // its WAL
		_, err := VerifyBackup(t.Context(), store, testLineage, "scattered", VerifyOptions{shortWAL: true})
		must(t, err)
	case "restore":
		debug.SetGCPercent(50)
		debug.SetMemoryLimit(208 << 20)
		m, err := ReadManifest(t.Context(), store, testLineage, "scattered")
		must(t, err)
		must(t, Restore(t.Context(), store, m, filepath.Join(place, "restored"), RestoreOptions{}))
	case "write":
		chainBackup(t, store, dir)
	}
}

// chainBackup makes an incremental backup on the first one.
func chainBackup(t testing.TB, store objstore.Store, dir string) {
	t.Helper()
	database := source(t, store, dir)
	database.DataChecksums = false
	scatteredSummary(t, dir, chainStart(0), chainStart(1))
	database.Start = func(context.Context) (Started, error) {
		return Started{LSN: chainStart(1), Timeline: 1, Time: testStart}, nil
	}
	database.Stop = func(context.Context) (Stopped, error) {
		return Stopped{LSN: chainStart(1) + 8, Time: testStart.Add(time.Minute), BackupLabel: testLabel}, nil
	}
	m, err := Write(t.Context(), store, database, Options{ID: "b1", Parent: "b0"})
	must(t, err)
	if m.Type != Incremental {
		t.Fatalf("a full backup was made: %s", m.Why)
	}
	parts := 0
	for i := range m.Files {
		parts += len(m.Files[i].Parts)
	}
	if frames := int(m.Totals.LogicalBytes / minFrame); parts < manyParts/8*7 || parts > manyParts+3*frames {
		t.Errorf("it has %d parts", parts)
	}
}

func fullManifest(id string) *Manifest {
	segment := postgres.Segment{Timeline: 1, Number: 2, SegSize: testSeg}.Name()
	return &Manifest{Header: Header{
		Format: FormatVersion, ID: id, Lineage: testLineage, Type: Full, SystemIdentifier: "7412345678901234567", PGMajor: 17,
		StartLSN: chainStart(0), StopLSN: chainStart(0) + 8, Timeline: 1, StartTime: testStart, StopTime: testStart,
		WAL: WALRange{SegmentSize: testSeg, First: segment, Last: segment},
	}}
}

// putFirst puts the first backup of the chain, which was never written: its only pack is empty, and of the right size.
func putFirst(t testing.TB, store onDisk) {
	t.Helper()
	pack := Pack{Backup: "b0", Name: "first-000000", Size: chainRelations*256*1000 + 1000}
	first := fullManifest("b0")
	first.Packs = []Pack{pack}
	random, offset := rand.New(rand.NewPCG(1, 1)), uint32(1000)
	for i := range chainRelations {
		f := File{Path: chainRelation(i), Kind: Regular, Mode: 0o600, Size: chainBlocks * postgres.PageSize, MTime: testStart}
		for at := int64(0); at < f.Size; at += minFrame {
			frame := &Frame{
				Offset: offset, Stored: 1000, Content: minFrame, Coding: codec.Zstd,
				StoredCRC: random.Uint32(), ContentCRC: random.Uint32(), Digest: random.Uint64(),
			}
			for skip := uint32(0); skip < minFrame; skip += chainRun * postgres.PageSize {
				length := min(chainRun*postgres.PageSize, minFrame-skip)
				f.Parts = append(f.Parts, Part{FileOffset: at + int64(skip), Length: length, Skip: skip, Frame: frame})
			}
			offset += 1000
		}
		first.Files = append(first.Files, f)
	}
	first.Totals = totals(first.Files)
	putManifest(t, store, first)
	key := layout.PackKey(testLineage, "b0", pack.Name)
	must(t, store.Put(t.Context(), key, nil, objstore.PutOptions{}))
	must(t, os.Truncate(store.path(key), pack.Size))
}

// scatteredParts is how many parts the backup has that is restored: a few more than the chain's last.
const scatteredParts = 1 << 20

// putScattered puts a backup of which all parts are tiny, so that restoring it writes little.
func putScattered(t testing.TB, store onDisk) {
	t.Helper()
	const length, perFrame = 16, 256
	m := fullManifest("scattered")
	m.Files = []File{{Path: "base", Kind: Dir, Mode: 0o700}, {Path: "base/5", Kind: Dir, Mode: 0o700}}
	name := "tiny-000000"
	pack, err := envelope.Seal(envelope.Pack, packHeader{Lineage: testLineage, Backup: m.ID, Name: name})
	must(t, err)
	content := randomBytes(length*perFrame, 1)
	for i := range chainRelations {
		f := File{Path: chainRelation(i), Kind: Regular, Mode: 0o600, MTime: testStart}
		for range scatteredParts / chainRelations / perFrame {
			binary.LittleEndian.PutUint64(content, uint64(len(pack)))
			frame := &Frame{Offset: uint32(len(pack)), Stored: length * perFrame, Content: length * perFrame, Digest: uint64(len(pack))}
			frame.StoredCRC, frame.ContentCRC, frame.Coding = codec.CRC(content), codec.CRC(content), codec.Raw
			pack = append(pack, content...)
			for j := range uint32(perFrame) {
				f.Parts = append(f.Parts, Part{FileOffset: f.Size, Length: length, Skip: j * length, Frame: frame})
				f.Size += 2 * length
			}
		}
		m.Files = append(m.Files, f)
	}
	m.Packs, m.Totals = []Pack{{Backup: m.ID, Name: name, Size: int64(len(pack))}}, totals(m.Files)
	must(t, store.Put(t.Context(), layout.PackKey(testLineage, m.ID, name), pack, objstore.PutOptions{}))
	putManifest(t, store, m)
}

func putManifest(t testing.TB, store objstore.Store, m *Manifest) {
	t.Helper()
	object, err := encodeManifest(m)
	must(t, err)
	must(t, store.Put(t.Context(), layout.ManifestKey(testLineage, m.ID), object, objstore.PutOptions{}))
}

// scatteredSummary says that blocks from all over the relations have changed, in PostgreSQL's form.
func scatteredSummary(t testing.TB, dir string, from, to postgres.LSN) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	b := binary.LittleEndian.AppendUint32(nil, 0x652b137b)
	for i := range chainRelations {
		fork, _ := locate(chainRelation(i))
		for _, n := range []uint32{fork.Tablespace, fork.Database, fork.Relation, uint32(fork.Fork), postgres.NoLimit, 1} {
			b = binary.LittleEndian.AppendUint32(b, n)
		}
		b = binary.LittleEndian.AppendUint16(b, 4096) // a bit for each block
		var words [4096]uint16
		for range chainBlocks / chainShare {
			block := random.IntN(chainBlocks)
			words[block/16] |= 1 << (block % 16)
		}
		for _, word := range words {
			b = binary.LittleEndian.AppendUint16(b, word)
		}
	}
	b = append(b, make([]byte, 24)...)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
	name := postgres.WALSummary{Timeline: 1, Start: from, End: to}.Name()
	write(t, dir, postgres.WALSummariesDir+"/"+name, b, 0o600)
}
