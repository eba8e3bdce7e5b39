package replicate

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"howdah.dev/howdah/pkg/postgres"
)

// third is the history of timeline 3, which began on 1.
var third = postgres.TimelineHistory{Timeline: 3, Ancestors: []postgres.TimelineSwitch{{Timeline: 1, LSN: 0x1000}, {Timeline: 2, LSN: 0x2000}}}

func TestWALHasLeftAHistoryWhereItIsNoPartOfIt(t *testing.T) {
	for name, test := range map[string]struct {
		timeline uint32
		lsn      postgres.LSN
		want     bool
	}{
		"on the timeline itself":          {3, 0x9000, false},
		"on an ancestor, before":          {1, 0xf00, false},
		"on an ancestor, up to its end":   {1, 0x1000, false},
		"on an ancestor, beyond":          {1, 0x1001, true},
		"on the later ancestor, beyond":   {2, 0x2001, true},
		"on a timeline of somebody else":  {4, 0x100, true},
		"on the later ancestor, up to it": {2, 0x2000, false},
	} {
		if got := diverged(third, test.timeline, test.lsn); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestOnlyAShutdownInOrderShowsThatNothingIsToBeRewound(t *testing.T) {
	for name, test := range map[string]struct {
		control postgres.ControlData
		want    bool
	}{
		"on the timeline itself":      {postgres.ControlData{Timeline: 3, State: postgres.StateInArchiveRecovery}, true},
		"a primary, shut down before": {postgres.ControlData{Timeline: 2, State: postgres.StateShutDown, Checkpoint: 0x1f00}, true},
		"a primary, shut down behind": {postgres.ControlData{Timeline: 2, State: postgres.StateShutDown, Checkpoint: 0x2000}, false},
		"a primary that crashed":      {postgres.ControlData{Timeline: 2, State: postgres.StateInProduction, Checkpoint: 0x100}, false},
		"a replica, shut down":        {postgres.ControlData{Timeline: 2, State: postgres.StateShutDownRecovery, Checkpoint: 0x100}, false},
		"on another branch":           {postgres.ControlData{Timeline: 4, State: postgres.StateShutDown, Checkpoint: 0x100}, false},
	} {
		if got := isAncestor(test.control, third); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestProgressIsReadFromWhatPgBasebackupSays(t *testing.T) {
	for line, want := range map[string][2]int64{
		"  1234/56789 kB (2%), 0/1 tablespace":                       {1234 << 10, 56789 << 10},
		"56789/56789 kB (100%), 1/1 tablespace":                      {56789 << 10, 56789 << 10},
		"      0/  29560 kB (0%)":                                    {},
		"pg_basebackup: error: could not connect: 1/2 kB (is a lie)": {},
		"pg_basebackup: checkpoint completed":                        {},
	} {
		done, total, is := parseProgress(line)
		if done != want[0] || total != want[1] || is != (want[1] != 0) {
			t.Errorf("%q: %d of %d, %v", line, done, total, is)
		}
	}
}

func TestLinesAreTakenWhoeverEndsThem(t *testing.T) {
	var got []string
	w := &lineWriter{take: func(line string) { got = append(got, line) }}
	for _, part := range []string{"a\rb", "c\n\n", " d \r\n", "e"} {
		if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	w.end()
	if !slices.Equal(got, []string{"a", "bc", "d", "e"}) {
		t.Errorf("%q", got)
	}
}

func TestTheErrorOfAProgramIsWhatItHasSaid(t *testing.T) {
	failed := errors.New("pg_rewind: exit status 1")
	for name, test := range map[string]struct {
		lines []string
		want  string
	}{
		"an error":         {[]string{"pg_rewind: servers diverged", "pg_rewind: error: could not find previous WAL record at 0/1"}, "pg_rewind: exit status 1: could not find previous WAL record at 0/1"},
		"a server's":       {[]string{"connection failed: FATAL:  no pg_hba.conf entry"}, "pg_rewind: exit status 1: no pg_hba.conf entry"},
		"something else":   {[]string{"Segmentation fault"}, "pg_rewind: exit status 1: Segmentation fault"},
		"nothing":          {nil, "pg_rewind: exit status 1"},
		"errors and lines": {append(slices.Repeat([]string{"x"}, 100), "a: error: b"), "pg_rewind: exit status 1: b"},
	} {
		said := &complaint{}
		for _, line := range test.lines {
			said.add(line)
		}
		if got := said.explain(failed); got.Error() != test.want || !errors.Is(got, failed) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestNothingInTheEnvironmentChangesHowProgramsConnect(t *testing.T) {
	got := environment([]string{"PATH=/bin", "PGPASSWORD=x", "PGSSLMODE=disable", "HOME=/root"})
	if strings.Contains(strings.Join(got, " "), "PGPASSWORD") || strings.Contains(strings.Join(got, " "), "PGSSLMODE") || got[0] != "PATH=/bin" {
		t.Error(got)
	}
}

func TestSlotsAreNamedAsPostgreSQLWants(t *testing.T) {
	if got := SlotName("my-shop-10"); got != "howdah_my_shop_10" {
		t.Error(got)
	}
}
