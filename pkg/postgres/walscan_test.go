package postgres

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"testing"
	"testing/iotest"
	"time"

	"howdah.dev/howdah/test/testkit/heaptest"
)

// walWriter lays records out over segments of 1 MiB, as the server does.
type walWriter struct {
	start    LSN
	segments [][]byte
	pos      int // in the last segment
}

func newWALWriter(start LSN) *walWriter { return &walWriter{start: start, pos: MinSegSize} }

func (w *walWriter) segment() []byte { return w.segments[len(w.segments)-1] }

func (w *walWriter) lsn() LSN { return w.start + LSN((len(w.segments)-1)*MinSegSize+w.pos) }

// page begins a page where one is due; remaining is what a record still has to write.
func (w *walWriter) page(flags uint16, remaining int) {
	if w.pos == MinSegSize {
		w.segments, w.pos = append(w.segments, make([]byte, MinSegSize)), 0
	}
	if w.pos%walPageSize != 0 {
		return
	}
	header, size := w.segment()[w.pos:], walShortHeaderSize
	if w.pos == 0 {
		flags, size = flags|walFlagLong, walLongHeaderSize
		binary.LittleEndian.PutUint64(header[24:], 4711)
		binary.LittleEndian.PutUint32(header[32:], MinSegSize)
		binary.LittleEndian.PutUint32(header[36:], walPageSize)
	}
	if remaining > 0 {
		flags |= walFlagContinued
	}
	binary.LittleEndian.PutUint16(header, 0xD116)
	binary.LittleEndian.PutUint16(header[2:], flags)
	binary.LittleEndian.PutUint32(header[4:], 3)
	binary.LittleEndian.PutUint64(header[8:], uint64(w.lsn()))
	binary.LittleEndian.PutUint32(header[16:], uint32(remaining))
	w.pos += size
}

// write lays out a record and returns where it begins; only the first limit bytes of it are written.
func (w *walWriter) write(record []byte, limit int) LSN {
	w.pos = (w.pos + 7) &^ 7
	w.page(0, 0)
	lsn := w.lsn()
	for done := 0; done < limit; {
		w.page(0, len(record)-done)
		n := min(limit-done, walPageSize-w.pos%walPageSize)
		copy(w.segment()[w.pos:], record[done:done+n])
		done, w.pos = done+n, w.pos+n
	}
	return lsn
}

func (w *walWriter) add(record []byte) LSN { return w.write(record, len(record)) }

func walRecord(rmgr, info byte, fragments ...byte) []byte {
	r := make([]byte, recordHeader, recordHeader+len(fragments))
	r = append(r, fragments...)
	binary.LittleEndian.PutUint32(r, uint32(len(r)))
	r[16], r[17] = info, rmgr
	crc := crc32.Update(crc32.Checksum(r[recordHeader:], castagnoli), castagnoli, r[:20])
	binary.LittleEndian.PutUint32(r[20:], crc)
	return r
}

// xact is a record of a transaction's end, that many seconds after the epoch, with more data after.
func xact(info byte, seconds, more int) []byte {
	data := binary.LittleEndian.AppendUint32([]byte{253, 1, 0, 254}, uint32(8+more))
	data = binary.LittleEndian.AppendUint64(data, uint64(seconds)*1e6)
	return walRecord(rmgrXact, info, append(data, make([]byte, more)...)...)
}

func filler(size int) []byte { return walRecord(10, 0, make([]byte, size-recordHeader)...) }

func after(seconds int) time.Time { return pgEpoch.Add(time.Duration(seconds) * time.Second) }

func scanAll(t testing.TB, w *walWriter) []WALScan {
	var scans []WALScan
	var tail WALTail
	for i, segment := range w.segments {
		scan, err := ScanWAL(segment, tail)
		if err != nil {
			t.Fatalf("segment %d: %v", i, err)
		}
		tail = scan.Tail
		scans = append(scans, scan)
	}
	return scans
}

func TestCommitsAreCountedWithTheFirstTheLastAndTheLatest(t *testing.T) {
	w := newWALWriter(0x5000000)
	first := w.add(xact(xactCommit|0x80, 10, 100))
	w.add(xact(xactCommitPrepared, 30, 0))
	w.add(xact(xactAbort, 40, 0))
	w.add(xact(0x10, 90, 0)) // PREPARE ends nothing
	w.add(filler(3 * walPageSize))
	last := w.add(xact(xactCommit, 20, 0))
	end := w.lsn()
	got := scanAll(t, w)[0]
	if got.Commits != 3 || got.First != (Commit{first, after(10)}) || got.Last != (Commit{last, after(20)}) || !got.LatestTime.Equal(after(40)) {
		t.Errorf("%+v", got)
	}
	if got.SystemIdentifier != 4711 || got.Major != 17 || got.Segment != (Segment{3, 0x50, MinSegSize}) || got.Complete || got.End != end {
		t.Errorf("%+v", got)
	}
}

func TestARecordOverTwoSegmentsCountsWhereItEnds(t *testing.T) {
	w := newWALWriter(0x5000000)
	w.add(filler(MinSegSize - 128*walShortHeaderSize - 16 - 200))
	lsn := w.add(xact(xactCommit, 10, 5000))
	w.add(xact(xactCommit, 20, 0))
	got := scanAll(t, w)
	if got[0].Commits != 0 || !got[0].Complete || got[0].Tail.LSN != lsn || got[1].Commits != 2 || got[1].First.LSN != lsn {
		t.Errorf("%+v", got)
	}
	alone, err := ScanWAL(w.segments[1], WALTail{})
	if err != nil || alone.Commits != 1 || !alone.First.Time.Equal(after(20)) {
		t.Errorf("without the tail: %+v, %v", alone, err)
	}
}

func TestARecordLongerThanASegmentIsSkipped(t *testing.T) {
	w := newWALWriter(0x5000000)
	w.add(filler(2*MinSegSize + 500))
	w.add(xact(xactCommit, 20, 0))
	got := scanAll(t, w)
	if !got[0].Complete || !got[1].Complete || got[1].End != 0 || got[2].Commits != 1 {
		t.Errorf("%+v", got)
	}
	const most = 1 << 20
	for i, scan := range got {
		if len(scan.Tail.Data) > most {
			t.Errorf("segment %d carries %d bytes", i, len(scan.Tail.Data))
		}
	}
}

func TestARestorePointIsFoundByNameAndTime(t *testing.T) {
	w := newWALWriter(0x5000000)
	data := binary.LittleEndian.AppendUint64([]byte{255, 72}, 7e6)
	data = append(data, make([]byte, 64)...)
	copy(data[10:], "before the deletion")
	lsn := w.add(walRecord(rmgrXLOG, xlogRestorePoint, data...))
	got := scanAll(t, w)[0].RestorePoints
	if len(got) != 1 || got[0] != (RestorePoint{"before the deletion", lsn, after(7)}) {
		t.Errorf("%+v", got)
	}
}

func TestASwitchEndsTheSegment(t *testing.T) {
	w := newWALWriter(0x5000000)
	w.add(xact(xactCommit, 10, 0))
	w.add(walRecord(rmgrXLOG, xlogSwitch))
	got := scanAll(t, w)[0]
	if !got.Complete || got.End != 0x5100000 || got.Commits != 1 || got.Switched != w.pos {
		t.Errorf("%+v", got)
	}
}

func TestARecordThatACrashCutOffIsLeftOut(t *testing.T) {
	w := newWALWriter(0x5000000)
	w.write(xact(xactCommit, 10, 3*walPageSize), walPageSize) // the server wrote no more of it
	for w.pos%walPageSize != 0 {
		w.pos++
	}
	w.page(walFlagOverwritten, 0)
	lsn := w.add(xact(xactCommit, 20, 0))
	if got := scanAll(t, w)[0]; got.Commits != 1 || got.First.LSN != lsn {
		t.Errorf("%+v", got)
	}
}

func TestReadingEndsBeforeADamagedRecordAndBeforeAFormerLife(t *testing.T) {
	w := newWALWriter(0x5000000)
	w.add(xact(xactCommit, 10, 0))
	damaged := w.add(xact(xactCommit, 20, 0))
	w.segment()[int(damaged-w.start)+30] ^= 1
	if got := scanAll(t, w)[0]; got.Commits != 1 || got.End != damaged || got.Damaged != damaged {
		t.Errorf("%+v", got)
	}

	w = newWALWriter(0x5000000)
	w.add(xact(xactCommit, 10, 2*walPageSize))
	w.add(xact(xactCommit, 20, 0))
	binary.LittleEndian.PutUint64(w.segment()[walPageSize+8:], 0x4002000)
	if got := scanAll(t, w)[0]; got.Commits != 0 || got.Complete {
		t.Errorf("%+v", got)
	}
}

func TestADamagedRecordOverTwoSegmentsIsFoundWhereItEnds(t *testing.T) {
	for _, damage := range []bool{false, true} {
		w := newWALWriter(0x5000000)
		w.add(filler(MinSegSize - 2*walPageSize))
		record := w.add(xact(xactCommit, 10, 3*walPageSize))
		w.add(xact(xactCommit, 20, 0))
		if damage {
			w.segment()[100] ^= 1
		}
		want := LSN(0)
		if damage {
			want = record
		}
		if got := scanAll(t, w); len(got) != 2 || got[0].Damaged != 0 || got[1].Damaged != want {
			t.Errorf("damage %t: %v, then %v", damage, got[0].Damaged, got[1].Damaged)
		}
	}
}

func TestAPartOfASegmentIsReadAsFarAsItGoes(t *testing.T) {
	w := newWALWriter(0x5000000)
	for range 1000 {
		w.add(xact(xactCommit, 10, 100))
	}
	whole := scanAll(t, w)[0].Commits
	got, err := ScanWAL(w.segment()[:5*walPageSize+100], WALTail{})
	if err != nil || got.Commits == 0 || got.Commits >= whole || got.Complete {
		t.Errorf("%d of %d: %+v, %v", got.Commits, whole, got, err)
	}
}

func TestWhatIsNoWALIsRefused(t *testing.T) {
	w := newWALWriter(0x5000000)
	w.add(filler(100))
	for name, damage := range map[string]func(b []byte) []byte{
		"nothing":        func([]byte) []byte { return nil },
		"zeroes":         func(b []byte) []byte { return make([]byte, len(b)) },
		"another magic":  func(b []byte) []byte { b[0]++; return b },
		"a short header": func(b []byte) []byte { b[2] = 0; return b },
		"a wrong size":   func(b []byte) []byte { b[32]++; return b },
		"a wrong place":  func(b []byte) []byte { b[8]++; return b },
		"too long":       func(b []byte) []byte { return append(b, b...) },
	} {
		b := append([]byte(nil), w.segment()...)
		if got, err := ScanWAL(damage(b), WALTail{}); !errors.Is(err, ErrSyntax) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestAnErrorOfTheReaderIsNotTheEndOfWAL(t *testing.T) {
	w := newWALWriter(0x5000000)
	for range 1000 {
		w.add(xact(xactCommit, 10, 100))
	}
	broken := errors.New("broken")
	for _, pages := range []int{0, 2} {
		source := io.MultiReader(bytes.NewReader(w.segment()[:pages*walPageSize]), iotest.ErrReader(broken))
		if _, err := ReadWAL(source, WALTail{}); !errors.Is(err, broken) {
			t.Errorf("after %d pages: %v", pages, err)
		}
	}
}

// Garbage after good headers of pages, which chance would seldom make.
func FuzzScanWAL(f *testing.F) {
	w := newWALWriter(0x5000000)
	w.add(xact(xactCommit, 10, walPageSize))
	w.add(walRecord(rmgrXLOG, xlogRestorePoint, append([]byte{255, 72}, make([]byte, 72)...)...))
	pages := w.segment()[:3*walPageSize]
	f.Add(xact(xactCommit, 10, 20), uint32(0))
	f.Add(xact(xactCommit, 10, 20), uint32(100))
	f.Fuzz(func(t *testing.T, garbage []byte, remaining uint32) {
		segment := append([]byte(nil), pages...)
		binary.LittleEndian.PutUint32(segment[16:], remaining)
		binary.LittleEndian.PutUint16(segment[2:], walFlagLong|walFlagContinued)
		copy(segment[walLongHeaderSize:walPageSize], garbage)
		var scan WALScan
		var err error
		heaptest.AtMost(t, 4<<20, 64, len(segment)+len(garbage), func() { scan, err = ScanWAL(segment, WALTail{LSN: 1, Data: garbage}) })
		if err != nil || scan.End > scan.Segment.End() || scan.End != 0 && scan.End < scan.Segment.Start() {
			t.Errorf("%+v, %v", scan, err)
		}
	})
}

// Records of the right length and checksum, with anything in them.
func FuzzScanWALRecord(f *testing.F) {
	f.Add(byte(rmgrXact), byte(xactCommit), []byte{253, 1, 0, 255, 8, 1, 2, 3, 4, 5, 6, 7, 8})
	f.Add(byte(rmgrXLOG), byte(xlogRestorePoint), append([]byte{255, 72}, make([]byte, 72)...))
	f.Fuzz(func(t *testing.T, rmgr, info byte, fragments []byte) {
		w := newWALWriter(0x5000000)
		w.add(walRecord(rmgr, info, fragments...))
		heaptest.AtMost(t, 4<<20, 64, len(fragments), func() {
			if _, err := ScanWAL(w.segments[0], WALTail{}); err != nil {
				t.Error(err)
			}
		})
	})
}

func BenchmarkScanWAL(b *testing.B) {
	w := newWALWriter(0x5000000)
	for len(w.segments) < 2 {
		w.add(xact(xactCommit, 10, 20))
		w.add(filler(700))
	}
	b.SetBytes(MinSegSize)
	for b.Loop() {
		if _, err := ScanWAL(w.segments[0], WALTail{}); err != nil {
			b.Fatal(err)
		}
	}
}
