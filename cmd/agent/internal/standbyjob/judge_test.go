package standbyjob

import (
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/postgres"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// following is a standby that has everything: the archive goes to the end of segment 9 on timeline 1.
func following(change func(*seen)) seen {
	s := seen{
		connected: true, replayed: segment(1, 9).End(), tipKnown: true,
		tip: tipOf(wal.Coverage{Timelines: []wal.Timeline{{ID: 1, First: segment(1, 2), Last: segment(1, 9)}}}), served: segment(1, 9), lacked: segment(1, 10), lackedSince: noon.Add(-time.Hour),
	}
	if change != nil {
		change(&s)
	}
	return s
}

func reasons(problems []agentapi.StandbyProblem) string {
	var all []string
	for _, p := range problems {
		all = append(all, p.Reason)
	}
	return strings.Join(all, " ")
}

func TestWhatKeepsAStandbyFromFollowingIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*seen)
		want   string
	}{
		"nothing":                        {nil, ""},
		"it is behind":                   {func(s *seen) { s.replayed = segment(1, 4).Start() }, ""},
		"the store doesn't answer":       {func(s *seen) { s.trouble = "The archive can't be read: away." }, "NotFollowing"},
		"nobody knows the archive":       {func(s *seen) { s.tipError = "The archive can't be read: denied." }, "NotFollowing"},
		"the server has ended":           {func(s *seen) { s.complaint, s.connected = "out of memory", false }, "NotFollowing"},
		"it was paused":                  {func(s *seen) { s.paused = true }, "NotFollowing"},
		"a dead branch was replayed":     {func(s *seen) { s.diverged = true }, "Diverged"},
		"a segment was deleted":          {func(s *seen) { s.lacked = segment(1, 5) }, "WALMissing"},
		"one is on its way":              {func(s *seen) { s.lacked, s.lackedSince = segment(1, 5), noon.Add(-time.Second) }, ""},
		"of a timeline that was left":    {func(s *seen) { s.lacked = segment(2, 5) }, ""},
		"the source writes elsewhere":    {func(s *seen) { s.movedTo = "7-g1" }, "SourceMoved"},
		"more than one":                  {func(s *seen) { s.diverged, s.movedTo, s.trouble = true, "7-g1", "away" }, "Diverged SourceMoved NotFollowing"},
		"it begins and isn't consistent": {func(s *seen) { *s = seen{} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := reasons(following(c.change).problems(noon)); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestAPromotionAtTheEndOfTheArchiveWaitsForAllOfIt(t *testing.T) {
	end, none := segment(1, 9).End(), postgres.Segment{}
	for name, c := range map[string]struct {
		change      func(*seen)
		target      postgres.LSN
		last        postgres.Segment
		targetError string
		waits       bool
	}{
		"all is replayed":                     {nil, end, none, "", false},
		"more is replayed":                    {nil, end - 100, none, "", false},
		"the archive is empty from here on":   {nil, 0, none, "", false},
		"some is not replayed":                {nil, end + 1, none, "", true},
		"the end isn't known":                 {nil, 0, none, "away", true},
		"where the last one ends isn't known": {nil, segment(1, 9).Start(), segment(1, 9), "", false},
		"nor was the next one asked for":      {func(s *seen) { s.lacked = none }, segment(1, 9).Start(), segment(1, 9), "", true},
		"the server doesn't answer":           {func(s *seen) { s.connected = false }, end, none, "", true},
		"a dead branch was replayed":          {func(s *seen) { s.diverged = true }, end, none, "", true},
		"a segment is missing":                {func(s *seen) { s.lacked, s.replayed = segment(1, 5), segment(1, 5).Start() }, end, none, "", true},
		"the store was away for a moment":     {func(s *seen) { s.trouble = "away" }, end, none, "", false},
		"the source writes elsewhere by now":  {func(s *seen) { s.movedTo = "7-g1" }, end, none, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			problems := following(c.change).obstacle(target{c.target, c.last}, c.targetError, noon)
			if (len(problems) > 0) != c.waits {
				t.Errorf("%+v", problems)
			}
			if c.waits && !strings.Contains(problems[len(problems)-1].Message, "spec.standby.promote: Immediately") {
				t.Errorf("it doesn't say what to do: %s", problems[len(problems)-1].Message)
			}
		})
	}
}

func TestAnArchiveThatHasLostItsEndIsNoticed(t *testing.T) {
	long := tipOf(wal.Coverage{Timelines: []wal.Timeline{{ID: 1, First: segment(1, 2), Last: segment(1, 9)}}})
	short := tipOf(wal.Coverage{Timelines: []wal.Timeline{{ID: 1, First: segment(1, 2), Last: segment(1, 6)}}})
	other := tipOf(wal.Coverage{Timelines: []wal.Timeline{{ID: 1, First: segment(1, 2), Last: segment(1, 6)}, {ID: 2, First: segment(2, 6), Last: segment(2, 6)}}})
	for name, c := range map[string]struct {
		now, before tip
		position    postgres.LSN
		want        bool
	}{
		"it goes as far":              {long, long, segment(1, 4).Start(), false},
		"it goes further":             {long, short, segment(1, 4).Start(), false},
		"it was emptied":              {tip{}, long, segment(1, 4).Start(), true},
		"it is shorter":               {short, long, segment(1, 4).Start(), true},
		"what it lacks was replayed":  {tip{}, long, segment(1, 9).End(), false},
		"the source has failed over":  {other, long, segment(1, 4).Start(), false},
		"the new timeline was lost":   {short, other, segment(1, 4).Start(), true},
		"nothing was known of it yet": {short, tip{}, 0, false},
	} {
		if got := c.now.lacks(c.before, c.position); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestOnlyDataOfAPromotionIsTakenForPromoted(t *testing.T) {
	for state, want := range map[postgres.ClusterState]bool{
		postgres.StateInProduction: true, postgres.StateShutDown: true, postgres.StateShuttingDown: true, postgres.StateInCrashRecovery: true,
		postgres.StateStartingUp: true, postgres.StateInArchiveRecovery: false, postgres.StateShutDownRecovery: false,
	} {
		if got := writes(state); got != want {
			t.Errorf("%s: %t", state, got)
		}
	}
}
