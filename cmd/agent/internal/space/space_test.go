package space

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheStateOfAVolumeComesBackLaterThanItWent(t *testing.T) {
	for _, c := range []struct {
		total, free, reserve int64
		before, want         State
	}{
		{10 * gib, 5 * gib, 0, Enough, Enough},
		{10 * gib, 1000 * mib, 64 * mib, Enough, AlmostFull},
		{10 * gib, 1100 * mib, 64 * mib, Enough, Enough},
		{10 * gib, 1100 * mib, 64 * mib, AlmostFull, AlmostFull},
		{10 * gib, 1300 * mib, 64 * mib, AlmostFull, Enough},
		{10 * gib, 200 * mib, 64 * mib, AlmostFull, Full},
		{10 * gib, 250 * mib, 64 * mib, Full, Full},
		{10 * gib, 250 * mib, 64 * mib, Enough, AlmostFull},
		{10 * gib, 320 * mib, 64 * mib, Full, AlmostFull},
		{10 * gib, 0, 64 * mib, Enough, Full},
		{10 * gib, 264 * mib, 0, Full, Full}, // as with the reserve held back
		{512 * mib, 47 * mib, 48 * mib, Enough, Full},
		{512 * mib, 60 * mib, 48 * mib, Enough, AlmostFull},
		{512 * mib, 100 * mib, 48 * mib, Enough, Enough},
		{256 * mib, 100 * mib, 32 * mib, Enough, Enough},
		{10 << 40, 900 * mib, 64 * mib, Enough, Full},
		{10 << 40, 2 * gib, 64 * mib, Enough, AlmostFull},
		{0, 0, 0, Full, Full},
	} {
		u := Usage{Total: c.total, Free: c.free, Reserve: c.reserve}
		if got := u.Next(c.before); got != c.want {
			t.Errorf("%d MiB free of %d, %d held back, %d before: %d, want %d", c.free/mib, c.total/mib, c.reserve/mib, c.before, got, c.want)
		}
	}
}

func TestTheReserveDoesNotChangeTheState(t *testing.T) {
	for free := int64(64); free < 2000; free += 7 {
		for _, before := range []State{Enough, AlmostFull, Full} {
			held := Usage{Total: 10 * gib, Free: (free - 64) * mib, Reserve: 64 * mib}
			given := Usage{Total: 10 * gib, Free: free * mib}
			if held.Next(before) != given.Next(before) {
				t.Errorf("%d MiB free: %d with the reserve held back, %d without", free, held.Next(before), given.Next(before))
			}
		}
	}
}

func TestTheReserveIsAPartOfTheVolume(t *testing.T) {
	for total, want := range map[int64]int64{256 * mib: 32 * mib, 128 * mib: 16 * mib, gib: 48 * mib, 5 * gib: 5 * gib / 100, 1 << 40: 64 * mib} {
		if got := reserveSize(total); got != want {
			t.Errorf("of %d MiB %d MiB, want %d", total/mib, got/mib, want/mib)
		}
	}
}

func TestACauseNamesWhatKeepsWAL(t *testing.T) {
	usage := Usage{Total: 100 * gib, Free: 2 * gib}
	for want, takers := range map[string]Takers{
		"2.0 GiB of 100 GiB are free; WAL takes 1.0 GiB, and data and all else 97 GiB": {Usage: usage, WAL: gib},
		"60 GiB of WAL wait for the archive, which fails: the bucket is gone":          {Usage: usage, WAL: 61 * gib, Unarchived: 60 * gib, ArchiveError: "the bucket is gone"},
		"60 GiB of WAL wait for the archive, which is slower":                          {Usage: usage, WAL: 61 * gib, Unarchived: 60 * gib},
		"30 GiB of WAL are kept for shop-2, which has not received it":                 {Usage: usage, WAL: 31 * gib, SlotHolder: "shop-2", SlotBytes: 30 * gib},
		"WAL takes 31 GiB, and data and all else 67 GiB":                               {Usage: usage, WAL: 31 * gib, SlotHolder: "shop-2", SlotBytes: gib},
		"2.0 GiB of 100 GiB are free; data takes 98 GiB":                               {Holds: Data, Usage: usage},
		"are free; WAL of the data in use takes 90 GiB, and all else 8.0 GiB":          {Holds: WALOnly, Usage: usage, WAL: 90 * gib},
	} {
		if got := takers.Cause(); !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
}

func TestAReserveIsHeldAndReleased(t *testing.T) {
	dir := t.TempDir()
	v := Volume(dir)
	u := Usage{Total: gib, Free: gib / 2}
	held, err := v.Hold(u)
	if err != nil {
		t.Skip(err) // not every file system can
	}
	info, err := os.Stat(filepath.Join(dir, reserveFile))
	if err != nil || !held || info.Size() != 48*mib {
		t.Fatalf("%v, %v", info, err)
	}
	measured, err := v.Measure()
	if err != nil || measured.Reserve != 48*mib || measured.Total < measured.Free {
		t.Errorf("%+v, %v", measured, err)
	}
	u.Reserve = 48 * mib
	if again, err := v.Hold(u); again || err != nil {
		t.Errorf("held twice: %v", err)
	}
	lends := 0
	for lent := true; lent && err == nil; lends++ {
		if measured, err = v.Measure(); err == nil {
			lent, err = v.Lend(Usage{Total: gib, Reserve: measured.Reserve})
		}
	}
	if err != nil || measured.Reserve != 32*mib || lends != 65 {
		t.Errorf("%+v after %d parts, %v", measured, lends, err)
	}
	for range 2 {
		if err := v.Release(); err != nil {
			t.Error(err)
		}
	}
	if held, err := v.Hold(Usage{Total: gib, Free: 40 * mib}); held || err != nil {
		t.Errorf("a full volume is filled further: %v", err)
	}
}

func TestTheSizeOfWALIsCounted(t *testing.T) {
	dir := t.TempDir()
	for name, n := range map[string]int{"a": 3, "b": 4} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, n), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if all, named := WAL(dir, []string{"b", "gone"}); all != 7 || named != 4 {
		t.Errorf("%d, %d", all, named)
	}
}
