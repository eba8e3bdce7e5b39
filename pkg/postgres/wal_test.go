package postgres

import (
	"encoding/json"
	"errors"
	"testing"

	"howdah.dev/howdah/test/testkit/heaptest"
)

func TestAnLSNIsReadAndWrittenAsPostgreSQLDoes(t *testing.T) {
	for text, want := range map[string]LSN{
		"0/0":               0,
		"16/B374D848":       0x16B374D848,
		"FFFFFFFF/FFFFFFFF": 0xFFFFFFFFFFFFFFFF,
		"1/0":               1 << 32,
	} {
		got, err := ParseLSN(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("ParseLSN(%q) = %d, %v; String() = %q", text, got, err, got)
		}
	}
	if got, err := ParseLSN("16/0b374d848"[:11]); err != nil || got != 0x160b374d84 {
		t.Errorf("lower case and leading zeroes: %v, %v", got, err)
	}
}

func TestATextThatIsNoLSNIsRefused(t *testing.T) {
	for _, text := range []string{"", "/", "0", "0/", "/0", "0/123456789", "g/0", "-1/0", "+1/0", "1_0/0", "0/0/0", " 0/0"} {
		if got, err := ParseLSN(text); !errors.Is(err, ErrSyntax) {
			t.Errorf("ParseLSN(%q) = %v, %v", text, got, err)
		}
	}
}

func TestAnLSNInJSONIsItsTextAndNoPositionIsEmpty(t *testing.T) {
	type status struct {
		LSN  LSN `json:"lsn"`
		None LSN `json:"none"`
		Zero LSN `json:"zero,omitzero"`
	}
	text, err := json.Marshal(status{LSN: 0x16B374D848})
	if err != nil || string(text) != `{"lsn":"16/B374D848","none":""}` {
		t.Fatalf("%s, %v", text, err)
	}
	var back status
	if err := json.Unmarshal(text, &back); err != nil || back.LSN != 0x16B374D848 || back.None != 0 {
		t.Fatalf("%+v, %v", back, err)
	}
}

func TestADistanceMayBeNegative(t *testing.T) {
	if got := LSN(10).Sub(30); got != -20 {
		t.Errorf("10-30 = %d", got)
	}
	if got := LSN(30).Add(-20); got != 10 {
		t.Errorf("30-20 = %v", got)
	}
}

func TestASegmentNameAndItsPositionsAgree(t *testing.T) {
	for _, c := range []struct {
		name       string
		segSize    uint64
		start, end LSN
	}{
		{"000000010000000000000001", DefaultSegSize, 0x1000000, 0x2000000},
		{"0000000100000000000000FF", DefaultSegSize, 0xFF000000, 0x100000000},
		{"00000002000000010000000A", DefaultSegSize, 0x10A000000, 0x10B000000},
		{"0000000A0000000200000003", MaxSegSize, 0x2C0000000, 0x300000000},
		{"000000010000000000000FFF", MinSegSize, 0xFFF00000, 0x100000000},
	} {
		s, err := ParseSegment(c.name, c.segSize)
		if err != nil || s.Start() != c.start || s.End() != c.end || s.Name() != c.name {
			t.Errorf("%s: %+v %v, from %v to %v", c.name, s, err, s.Start(), s.End())
		}
		if got := SegmentOf(s.Timeline, c.start, c.segSize); got != s {
			t.Errorf("%s: the first byte is in %v", c.name, got)
		}
		if got := SegmentBefore(s.Timeline, c.end, c.segSize); got != s {
			t.Errorf("%s: the byte before the end is in %v", c.name, got)
		}
		if got := SegmentOf(s.Timeline, c.end, c.segSize); got != s.Next() || got.Compare(s) != 1 {
			t.Errorf("%s: the next is %v", c.name, got)
		}
	}
}

func TestANameThatNoSegmentHasIsRefused(t *testing.T) {
	for _, name := range []string{
		"", "00000001000000000000000", "0000000100000000000000010", "00000001000000000000000g",
		"00000001000000000000000a", "000000010000000000000100", "000000000000000000000001", "+00000010000000000000001",
	} {
		if s, err := ParseSegment(name, DefaultSegSize); err == nil {
			t.Errorf("%q is taken for %+v", name, s)
		}
	}
	if _, err := ParseSegment("000000010000000000000001", 12345); err == nil {
		t.Error("a segment size that no server has is accepted")
	}
}

func TestEveryKindOfArchivedFileIsRecognisedByItsName(t *testing.T) {
	for name, want := range map[string]WALFile{
		"000000010000000000000003":                 {Kind: WALSegment, Timeline: 1, Segment: Segment{1, 3, DefaultSegSize}},
		"000000020000000000000003.partial":         {Kind: WALPartial, Timeline: 2, Segment: Segment{2, 3, DefaultSegSize}},
		"0000000B.history":                         {Kind: WALHistory, Timeline: 11},
		"000000010000000000000003.00000028.backup": {Kind: WALBackupHistory, Timeline: 1, Segment: Segment{1, 3, DefaultSegSize}, Start: 0x3000028},
	} {
		want.Name = name
		if got, err := ParseWALFile(name, DefaultSegSize); err != nil || got != want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestANameThatPostgreSQLNeverArchivesIsRefused(t *testing.T) {
	for _, name := range []string{
		"", ".", "..", "../etc/passwd", "00000001.history", "0000000g.history", "00000002.history ", "RECOVERYHISTORY",
		"000000010000000000000003.", "000000010000000000000003.partial.tmp", "000000010000000000000003.00000028",
		"000000010000000000000003.backup", "000000010000000000000003.FF000000.backup", "000000010000000000000003.0000002x.backup",
		"000000010000000000000003.00000028.x.backup",
	} {
		if got, err := ParseWALFile(name, DefaultSegSize); err == nil {
			t.Errorf("%q is taken for %+v", name, got)
		}
	}
}

func FuzzParseWALFile(f *testing.F) {
	f.Add("000000010000000000000003.00000028.backup")
	f.Add("0000000B.history")
	f.Add("000000020000000000000003.partial")
	f.Fuzz(func(t *testing.T, name string) {
		got, err := ParseWALFile(name, DefaultSegSize)
		if err != nil {
			return
		}
		back := got.Segment.SegSize != 0 && got.Segment.Name() == name[:24] || HistoryName(got.Timeline) == name
		if !back {
			t.Errorf("%q is taken for %+v", name, got)
		}
	})
}

func FuzzParseLSN(f *testing.F) {
	f.Add("16/B374D848")
	f.Fuzz(func(t *testing.T, text string) {
		lsn, err := ParseLSN(text)
		if err != nil {
			return
		}
		if again, err := ParseLSN(lsn.String()); err != nil || again != lsn {
			t.Errorf("%q -> %v -> %v, %v", text, lsn, again, err)
		}
	})
}

const historyOf3 = "1\t0/3000000\tno recovery target specified\n\n# a comment\n2\t0/50000A0\tbefore 2026-11-21 01:00:00+00\n"

func TestATimelineHistoryTellsWhoWroteWhichPosition(t *testing.T) {
	h, err := ParseTimelineHistory(3, []byte(historyOf3))
	if err != nil || len(h.Ancestors) != 2 {
		t.Fatalf("%+v, %v", h, err)
	}
	if got := h.Ancestors[1]; got != (TimelineSwitch{2, 0x50000A0, "before 2026-11-21 01:00:00+00"}) {
		t.Errorf("second line: %+v", got)
	}
	for lsn, want := range map[LSN]uint32{0x2FFFFFF: 1, 0x3000000: 2, 0x500009F: 2, 0x50000A0: 3} {
		if got := h.At(lsn); got != want {
			t.Errorf("%v was written on %d, got %d", lsn, want, got)
		}
	}
	if at, ok := h.Left(1); !ok || at != 0x3000000 {
		t.Errorf("left timeline 1 at %v, %v", at, ok)
	}
	if _, ok := h.Left(4); ok {
		t.Error("timeline 4 is no ancestor of 3")
	}
}

func TestABrokenTimelineHistoryIsRefused(t *testing.T) {
	for _, content := range []string{"1", "x\t0/1\t", "0\t0/1\t", "2\t0/1\t\n1\t0/2\t", "3\t0/1\t", "1\tnowhere\t"} {
		if h, err := ParseTimelineHistory(3, []byte(content)); !errors.Is(err, ErrSyntax) {
			t.Errorf("%q: %+v, %v", content, h, err)
		}
	}
}

func FuzzParseTimelineHistory(f *testing.F) {
	for _, content := range []string{historyOf3, "9\t0/1\tits own", "12\t0/1\ta later one", "0\t0/1\tnone", "2\t0/1\tx\n1\t0/2\ty"} {
		f.Add([]byte(content))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		var h TimelineHistory
		var err error
		heaptest.AtMost(t, 1<<20, 64, len(content), func() { h, err = ParseTimelineHistory(9, content) })
		last := uint32(0)
		for _, a := range h.Ancestors {
			if err != nil || a.Timeline <= last || a.Timeline >= 9 {
				t.Errorf("%+v, %v", h, err)
			}
			last = a.Timeline
		}
	})
}
