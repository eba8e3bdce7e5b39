package backup

import (
	"errors"
	"strings"
	"testing"

	"howdah.dev/howdah/pkg/objstore/mem"
)

func TestAMillionFilesFitWhatIsSaidToBeNeeded(t *testing.T) {
	for _, test := range []struct {
		files     int
		have      int64
		need, has bool
	}{
		{100_000, 256 << 20, false, true}, {1_000_000, 0, false, true}, {1_000_000, 256 << 20, true, false},
		{1_000_000, 1 << 30, false, true}, {3_000, 64 << 20, false, true}, {100_000, 64 << 20, true, false},
	} {
		err := checkMemory(test.have, test.files, 0, int64(test.files)*bytesPerFile)
		lack := &MemoryError{}
		if errors.As(err, &lack) != test.need || (err == nil) != test.has || test.need && checkMemory(lack.Need, test.files, 0, int64(test.files)*bytesPerFile) != nil {
			t.Errorf("%+v: %v", test, err)
		}
	}
}

func TestWhoHasLittleMemoryTakesLittleForBuffers(t *testing.T) {
	for have, want := range map[int64]int64{0: 96, 4 << 30: 96, 256 << 20: 96, 128 << 20: 48, 64 << 20: 24} {
		if got := BuffersFor(have, 96<<20); got != want<<20 {
			t.Errorf("of %d MiB, %d MiB", have>>20, got>>20)
		}
	}
}

func TestAManifestThatDoesNotFitIsRefusedBeforeItIsRead(t *testing.T) {
	store, dir := mem.New(), pgdata(t)
	mustWrite(t, store, dir, "b1")
	realWAL(t, store)
	header, err := ReadHeader(t.Context(), store, testLineage, "b1")
	must(t, err)
	if header.list.size == 0 || header.list.stored == 0 || header.CheckMemory(1<<20) != nil {
		t.Errorf("a small list of %d bytes: %v", header.list.size, header.CheckMemory(1<<20))
	}
	header.list.size = 200 << 20
	if err := header.CheckMemory(256 << 20); !errors.Is(err, ErrMemory) {
		t.Errorf("a list of 200 MiB in a Job: %v", err)
	}
	header.list.size, header.packCount = 1<<20, 400_000
	lack := &MemoryError{}
	if err := header.CheckMemory(256 << 20); !errors.As(err, &lack) || header.CheckMemory(lack.Need) != nil || !strings.Contains(err.Error(), "400000 packs") {
		t.Errorf("400,000 packs in a Job: %v", err)
	}
}

func TestPacksAreCountedWithoutReadingThem(t *testing.T) {
	store, m := mem.New(), fullManifest("b1")
	m.Packs = somePacks("b1", 1000)
	putManifest(t, store, m)
	header, err := ReadOutline(t.Context(), store, testLineage, "b1")
	must(t, err)
	if header.packCount != 1000 || header.known() < 1000*bytesPerPack {
		t.Errorf("%d packs, %d bytes", header.packCount, header.known())
	}
}
