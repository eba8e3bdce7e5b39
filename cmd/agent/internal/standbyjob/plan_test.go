package standbyjob

import (
	"errors"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/postgres"
)

// stuck is a look at a copy that can't continue, where another may be made.
func stuck(change func(*look)) *look {
	l := &look{Worker: &Worker{store: mem.New()}, now: func() time.Time { return noon }, seen: following(func(s *seen) { s.diverged = true })}
	l.Notice, l.Pause = 10*time.Minute, time.Second
	l.record, l.heard = record{Cluster: "u1", Lineage: "7-g0", Restored: true}, agentapi.StandbyWanted{Cluster: "u1", Reinit: agentapi.StandbyReinitFromNewer}
	if change != nil {
		change(l)
	}
	return l
}

func TestAnotherCopyIsMadeOnlyWhereItIsNeededAndAllowed(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*look)
		want   string
	}{
		"it has diverged":             {nil, agentapi.StandbyDiverged},
		"a segment is missing":        {func(l *look) { l.seen.diverged, l.seen.lacked = false, segment(1, 5) }, agentapi.StandbyWALMissing},
		"it follows":                  {func(l *look) { l.seen.diverged = false }, ""},
		"it is not allowed":           {func(l *look) { l.heard.Reinit = "Never" }, ""},
		"nothing was heard":           {func(l *look) { l.heard = agentapi.StandbyWanted{} }, ""},
		"a promotion was requested":   {func(l *look) { l.record.Order = agentapi.PromoteAtEndOfArchive }, ""},
		"it is another copy itself":   {func(l *look) { l.record.Why = agentapi.StandbyDiverged }, ""},
		"there is no repository":      {func(l *look) { l.store = nil }, ""},
		"another lineage is named":    {func(l *look) { l.heard, l.Task.Lineage = agentapi.StandbyWanted{}, "7-g1" }, agentapi.StandbySourceMoved},
		"it is the one it follows":    {func(l *look) { l.seen.diverged, l.Task.Lineage = false, "7-g0" }, ""},
		"while a promotion is needed": {func(l *look) { l.record.Order, l.Task.Lineage = agentapi.PromoteImmediately, "7-g1" }, ""},
	} {
		if got := stuck(c.change).reinitReason(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestAnotherCopyIsAnnouncedAndBeginsOnceADay(t *testing.T) {
	ago := func(d time.Duration) *time.Time { at := noon.Add(-d); return &at }
	for name, c := range map[string]struct {
		reason string
		begun  *time.Time
		in     time.Duration
	}{
		"the first":                      {agentapi.StandbyDiverged, nil, 10 * time.Minute},
		"the last was long ago":          {agentapi.StandbyDiverged, ago(48 * time.Hour), 10 * time.Minute},
		"the last was an hour ago":       {agentapi.StandbyDiverged, ago(time.Hour), 23 * time.Hour},
		"a person has requested it":      {agentapi.StandbySourceMoved, nil, 0},
		"the last of them has failed":    {agentapi.StandbySourceMoved, ago(10 * time.Minute), 50 * time.Minute},
		"the last was in the last hours": {agentapi.StandbySourceMoved, ago(2 * time.Hour), 0},
	} {
		l := stuck(func(l *look) { l.record.Begun, l.plan = c.begun, plan{reason: c.reason, since: noon} })
		if got := l.startsAt().Sub(noon); got != c.in {
			t.Errorf("%s: in %s, want %s", name, got, c.in)
		}
	}
}

// The repository is empty: nothing can be chosen.
func TestWhatCantBeMadeIsNotAnnounced(t *testing.T) {
	l := stuck(func(l *look) {
		l.plan = plan{reason: agentapi.StandbyDiverged, since: noon.Add(-time.Hour), startsAt: noon}
	})
	if l.reinitDue(t.Context()) || l.plan.shown() != nil {
		t.Errorf("%+v", l.plan)
	}
	if problems := l.plan.problems(); len(problems) != 1 || !strings.Contains(problems[0].Message, "Nothing is deleted") {
		t.Errorf("%+v", problems)
	}
	unknown := stuck(func(l *look) { l.seen.positioned = false })
	if unknown.reinitDue(t.Context()) || !strings.Contains(unknown.plan.refused, "isn't known yet how much") {
		t.Errorf("%+v", unknown.plan)
	}
}

func TestBothCopiesHaveToFitOntoTheVolume(t *testing.T) {
	w := &Worker{store: mem.New()}
	w.Volume, w.DataGeneration, w.record.Why = generation.Volume(t.TempDir()), "g1", agentapi.StandbyDiverged
	err := w.checkRoom(t.Context(), record{Lineage: "7-g0", Backup: "b"}, 1<<60)
	if err == nil || hopeless(err) || !strings.Contains(err.Error(), "beside the copy that is kept") || !strings.Contains(err.Error(), "raise spec.storage.size") {
		t.Errorf("%v", err)
	}
}

func TestANewCopyReplacesTheOtherOneOnlyWithMore(t *testing.T) {
	beyond := segment(1, 9).Start()
	for name, c := range map[string]struct {
		change func(*seen)
		want   error
	}{
		"it has more":                  {nil, errCaughtUp},
		"it has as much":               {func(s *seen) { s.replayed = beyond }, errCaughtUp},
		"it has less":                  {func(s *seen) { s.replayed = beyond - 1 }, nil},
		"it isn't consistent":          {func(s *seen) { s.connected = false }, nil},
		"it can't continue either":     {func(s *seen) { s.diverged = true }, errUnwanted},
		"nor can it without a segment": {func(s *seen) { s.lacked, s.replayed = segment(1, 5), segment(1, 5).Start() }, errUnwanted},
		"it lacks one, and has more":   {func(s *seen) { s.lacked = segment(1, 5) }, errCaughtUp},
	} {
		err := complete(record{Beyond: beyond}, following(c.change), noon)
		if c.want == nil && err != nil || c.want != nil && !(isBoth(err, errEnough, c.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnotherCopyThatWasBegunIsGivenUpOnlyForAReason(t *testing.T) {
	next := record{Cluster: "u1", Lineage: "7-g0", Why: agentapi.StandbyDiverged}
	moved := record{Cluster: "u1", Lineage: "7-g1", Why: agentapi.StandbySourceMoved}
	for name, c := range map[string]struct {
		next   record
		change func(*look)
		given  bool
	}{
		"it is allowed":                {next, nil, false},
		"nothing is heard":             {next, func(l *look) { l.heard = agentapi.StandbyWanted{} }, false},
		"it is not allowed any more":   {next, func(l *look) { l.heard.Reinit = "Never" }, true},
		"a promotion waits for it":     {next, func(l *look) { l.record.Order = agentapi.PromoteAtEndOfArchive }, false},
		"a promotion does not":         {next, func(l *look) { l.record.Order = agentapi.PromoteImmediately }, true},
		"it is of another cluster":     {record{Cluster: "u0", Why: agentapi.StandbyDiverged}, nil, true},
		"its lineage is named":         {moved, func(l *look) { l.Task.Lineage, l.heard.Reinit = "7-g1", "Never" }, false},
		"its lineage isn't any longer": {moved, func(l *look) { l.Task.Lineage = "7-g0" }, true},
	} {
		if why := stuck(c.change).needless(c.next); (why != "") != c.given {
			t.Errorf("%s: %q", name, why)
		}
	}
}

func TestTheCopyThatReplacesAnotherKeepsWhatWasDecided(t *testing.T) {
	begun := noon.Add(-time.Hour)
	before := record{Cluster: "u1", Lineage: "7-g1", Backup: "a", Restored: true, Order: agentapi.PromoteAtEndOfArchive, Begun: &begun, Left: "7-g0"}
	made := record{Cluster: "u1", Lineage: "7-g2", Backup: "b", Restored: true, Why: agentapi.StandbySourceMoved, Beyond: 5}
	after := before.successor(made, noon)
	if after.Order != before.Order || after.Begun != before.Begun || after.Why != "" || after.Beyond != 0 || after.Backup != "b" || !after.Reinitialized.Equal(noon) ||
		!after.hasLeft("7-g0") || !after.hasLeft("7-g1") || after.hasLeft("7-g2") {
		t.Errorf("%+v", after)
	}
	if same := before.successor(record{Lineage: "7-g1"}, noon); same.Left != "7-g0" {
		t.Errorf("it has left %q", same.Left)
	}
}

func TestDataThatTheNewestTimelineIsNoContinuationOfIsAstray(t *testing.T) {
	history := timelineHistory(t, 3, "1\t0/5000000\tx\n2\t0/7000000\tx\n")
	for name, c := range map[string]struct {
		timeline uint32
		position uint64
		want     bool
	}{
		"before the fork":         {1, 0x4000000, false},
		"at the fork":             {1, 0x5000000, false},
		"beyond it":               {1, 0x5000001, true},
		"on the timeline between": {2, 0x6000000, false},
		"beyond the next fork":    {2, 0x8000000, true},
		"on the newest":           {3, 0x9000000, false},
		"on a newer one":          {4, 0x9000000, false},
		"nothing is known":        {0, 0, false},
	} {
		if got := leaves(history, c.timeline, lsn(c.position)); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if !leaves(timelineHistory(t, 4, "1\t0/5000000\tx\n"), 2, lsn(0x6000000)) {
		t.Error("a timeline that is no ancestor is taken for one")
	}
}

func isBoth(err, one, other error) bool { return errors.Is(err, one) && errors.Is(err, other) }

func lsn(position uint64) postgres.LSN { return postgres.LSN(position) }

func timelineHistory(t *testing.T, timeline uint32, content string) postgres.TimelineHistory {
	t.Helper()
	history, err := postgres.ParseTimelineHistory(timeline, []byte(content))
	if err != nil {
		t.Fatal(err)
	}
	return history
}
