package pgbouncer

import (
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
)

func TestClientsAreHeldServedAndLetGo(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	primary := func(term int64, handover string) agentapi.PoolerAnswer {
		return agentapi.PoolerAnswer{Serving: true, DataGeneration: "g", Term: term, Handover: handover}
	}
	type seen struct {
		answer *agentapi.PoolerAnswer // nil: there was none
		after  time.Duration
		tick   bool
		want   act
	}
	heard := func(answer agentapi.PoolerAnswer, want act) seen { return seen{answer: &answer, want: want} }
	heardAt := func(after time.Duration, answer agentapi.PoolerAnswer, want act) seen {
		return seen{answer: &answer, after: after, want: want}
	}
	replicas := func(term int64, handover string, names ...string) agentapi.PoolerAnswer {
		answer := primary(term, handover)
		for _, name := range names {
			answer.Replicas = append(answer.Replicas, agentapi.PoolerReplica{Pod: name})
		}
		return answer
	}
	aged := func(age time.Duration) agentapi.PoolerAnswer {
		answer := replicas(1, "", "a")
		answer.ReplicasSeconds = age.Seconds()
		return answer
	}
	of := func(lease string, term int64) agentapi.PoolerAnswer {
		answer := primary(term, "")
		answer.LeaseCreated = lease
		return answer
	}
	const old, young = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"
	unknown := func(term int64) agentapi.PoolerAnswer {
		return agentapi.PoolerAnswer{Serving: true, DataGeneration: "g", Term: term, ReplicasUnknown: true}
	}
	const late = lagKnown + time.Millisecond
	for name, steps := range map[string][]seen{
		"readers in a handover":              {heard(replicas(1, "", "a"), serve), heard(replicas(1, "h", "a"), serve), heard(agentapi.PoolerAnswer{}, nothing)},
		"readers whose primary is lost":      {heard(replicas(1, "", "a"), serve), {want: nothing}, {after: time.Hour, tick: true, want: nothing}, heard(replicas(2, "", "b"), serve)},
		"readers of a former primary":        {heard(replicas(2, "", "a"), serve), heard(replicas(1, "", "b"), nothing)},
		"readers without a replica":          {heard(replicas(1, ""), hold), heard(replicas(1, ""), nothing), {want: nothing}, heard(replicas(1, "", "a"), serve)},
		"readers without a replica for long": {heard(replicas(1, ""), hold), {after: pauseLimit, want: release}, heard(replicas(1, ""), nothing), heard(replicas(1, "", "a"), serve), heard(replicas(1, ""), hold)},
		"readers with a limit in a switchover": {
			heard(replicas(1, "", "a"), serve), heardAt(time.Second, agentapi.PoolerAnswer{}, nothing), heardAt(3*time.Second, unknown(2), nothing),
			heardAt(4*time.Second, replicas(2, "", "b"), serve),
		},
		"readers with a limit whose primary is lost": {
			heard(replicas(1, "", "a"), serve), {want: nothing}, {after: lagKnown, tick: true, want: nothing}, {after: late, tick: true, want: hold},
			{after: late, want: nothing}, {after: late + pauseLimit, tick: true, want: release}, {after: time.Hour, tick: true, want: nothing},
			heardAt(time.Hour, replicas(2, "", "b"), serve),
		},
		"readers with a limit whose primary does not know": {heard(replicas(1, "", "a"), serve), heardAt(late, unknown(2), hold), heardAt(late, replicas(2, "", "b"), serve)},
		"readers with a limit whose primary is stuck":      {heard(aged(lagKnown-time.Second), serve), heardAt(time.Second, aged(lagKnown), serve), heardAt(2*time.Second, aged(late), hold), heardAt(3*time.Second, aged(0), serve)},
		"readers whose primary does not know":              {heard(replicas(1, "", "a"), serve), heardAt(time.Hour, unknown(2), nothing), heardAt(time.Hour, aged(0), nothing)},
		"readers whose primary is stuck":                   {heard(aged(time.Hour), serve)},
		"a handover": {
			heard(primary(1, ""), serve), heard(primary(1, "h"), hold), heard(primary(1, "h"), nothing),
			heard(agentapi.PoolerAnswer{DataGeneration: "g", Term: 1}, nothing), heard(primary(2, ""), serve),
		},
		"a handover that is taken back": {heard(primary(1, ""), serve), heard(primary(1, "h"), hold), heard(primary(1, ""), serve)},
		"a primary that is lost":        {heard(primary(1, ""), serve), {want: hold}, {want: nothing}, heard(primary(2, ""), serve)},
		"a former primary that thaws":   {heard(primary(2, ""), serve), {want: hold}, heard(primary(1, ""), nothing), heard(primary(2, ""), serve)},
		"other data, whose terms begin anew": {
			heard(primary(7, ""), serve), heard(agentapi.PoolerAnswer{Serving: true, DataGeneration: "h", Term: 1}, serve),
		},
		"another Lease, whose terms begin anew": {
			heard(of(old, 7), serve), {want: hold}, heard(of(young, 1), serve), heard(of(old, 8), hold), heard(of(young, 1), serve),
		},
		"an agent that doesn't name the Lease":              {heard(of(old, 7), serve), heard(of("", 6), hold), heard(of("", 7), serve)},
		"a cluster that has one instance now, and no Lease": {heard(of(old, 7), serve), {want: hold}, heard(of("", 0), serve)},
		"a Lease that was restored from a backup": {
			heard(of(old, 7), serve), {want: hold}, heard(of(old, 6), nothing), {after: pauseLimit, tick: true, want: release},
			heardAt(pauseLimit, of(old, 6), serve), heard(of(old, 6), serve),
		},
		"a pooler that is forgotten": {
			heard(primary(1, ""), serve), heard(primary(1, "h"), hold), {after: pauseLimit - 1, tick: true, want: nothing},
			{after: pauseLimit, tick: true, want: release}, heard(primary(1, "h"), nothing), {want: nothing},
			{after: time.Hour, tick: true, want: nothing}, heard(primary(1, ""), serve), {want: hold},
		},
		"a handover of a primary that was lost": {heard(primary(1, ""), serve), {want: hold}, heard(primary(1, "h"), nothing)},
	} {
		t.Run(name, func(t *testing.T) {
			m := &mind{readOnly: strings.HasPrefix(name, "readers"), knownLagOnly: strings.HasPrefix(name, "readers with a limit")}
			for i, s := range steps {
				var got act
				now := start.Add(s.after)
				switch {
				case s.tick:
					got = m.tick(now)
				case s.answer == nil:
					got = m.lost(now)
				default:
					got = m.heard(*s.answer, now)
				}
				if got != s.want {
					t.Fatalf("step %d: got %d, want %d", i, got, s.want)
				}
			}
		})
	}
}
