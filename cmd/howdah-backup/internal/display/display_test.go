package display

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestSizesAreShort(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 99 << 20: "99.0 MiB", 100 << 20: "100 MiB", 999 << 20: "999 MiB", 1023 << 20: "1.0 GiB", 5 << 40: "5.0 TiB",
	} {
		if got := Bytes(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestATimeIsWrittenInUTCAndNoneIsADash(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 89000000, time.FixedZone("", 3600))
	if got := Time(at); got != "2026-03-04T04:06:07.089Z" {
		t.Error(got)
	}
	if got := Second(at); got != "2026-03-04T04:06:07Z" {
		t.Error(got)
	}
	if got := Time(time.Time{}); got != "-" {
		t.Error(got)
	}
}

// metered reports at these seconds and returns what was written.
func metered(width int, reports ...[2]int64) string {
	out, at := &bytes.Buffer{}, time.Unix(1000, 0)
	m := &Meter{out: out, width: func() int { return width }, now: func() time.Time { return at }}
	for _, r := range reports {
		at = time.Unix(1000+r[0], 0)
		m.Report("Fetching", r[1]<<20, 100<<20)
	}
	m.Done()
	return out.String()
}

func TestATerminalGetsABarInOneLine(t *testing.T) {
	got := metered(100, [2]int64{0, 0}, [2]int64{5, 50})
	frames := strings.Split(got, "\r\033[K")
	want := "[####################....................] Fetching: 50.0 MiB of 100 MiB, 50%, 10.0 MiB/s, 5s left"
	if len(frames) != 4 || frames[2] != want[:len(frames[2])] && len(frames[2]) >= 100 {
		t.Errorf("%q", frames)
	}
	for _, width := range []int{1, 10, 40, 80, 200} {
		for _, frame := range strings.Split(metered(width, [2]int64{0, 0}, [2]int64{5, 50}), "\r\033[K") {
			if len(frame) >= width && frame != "" {
				t.Errorf("%d columns: %q", width, frame)
			}
		}
	}
}

func TestAFileGetsALineEveryTenSeconds(t *testing.T) {
	got := metered(0, [2]int64{0, 0}, [2]int64{5, 10}, [2]int64{10, 20}, [2]int64{15, 30}, [2]int64{20, 40})
	want := "Fetching: 20.0 MiB of 100 MiB, 20%, 2.0 MiB/s, 40s left\nFetching: 40.0 MiB of 100 MiB, 40%, 2.0 MiB/s, 30s left\n"
	if got != want {
		t.Errorf("%q", got)
	}
}
