package agentclient

import (
	"crypto/sha256"
	"maps"
	"slices"
	"time"

	"howdah.dev/howdah/cmd/db-controller/internal/pace"
	"howdah.dev/howdah/pkg/agentapi"
)

const (
	// firstPause and longestPause are how long an agent is left alone that didn't respond: twice as long each time. What can't be
	// undone asks it all the same.
	firstPause, longestPause = 4 * time.Second, time.Minute
)

// kept is what is known of the agents of one cluster.
type kept struct {
	agents map[string]*heard
	// round counts the times that they were asked; pending of this round have yet to answer.
	round   int
	pending int
	// demanded: the cluster is woken at the end of the round, whatever comes.
	demanded bool
	// ended is when the last round did, and due when the next one begins at the latest. fresh: all were asked in it, and no pass has looked
	// since.
	ended, due time.Time
	fresh      bool
	// seen is the digest of what the last pass has seen.
	seen digest
}

type digest = [sha256.Size]byte

// heard is what one agent has said.
type heard struct {
	Instance
	// round in which it was asked last, and asked whether it has answered one, or has failed to.
	round int
	asked bool
	// status is nil if it didn't respond.
	status   *agentapi.Status
	mark     digest
	failures int
	// silence is what came instead of an answer.
	silence Silence
	// next is when it may be asked again.
	next time.Time
}

// follow takes up which pods there are. Of another incarnation nothing is known.
func (k *kept) follow(instances map[string]Instance) {
	known := make(map[string]*heard, len(instances))
	for pod, instance := range instances {
		known[pod] = k.agents[pod]
		if known[pod] == nil || known[pod].Incarnation != instance.Incarnation {
			known[pod] = &heard{}
		}
		known[pod].Instance = instance
	}
	k.agents = known
}

// answers for one look. They are not live for another.
func (k *kept) answers(now time.Time) Answers {
	answers := Answers{ByPod: map[string]*agentapi.Status{}, Silent: map[string]Silence{}, Known: true, Age: now.Sub(k.ended)}
	for pod, agent := range k.agents {
		answers.Known = answers.Known && agent.asked
		switch {
		case agent.status != nil:
			answers.ByPod[pod] = agent.status
		case agent.failures > 0:
			answers.Silent[pod] = agent.silence
		}
	}
	answers.Live = len(k.agents) == 0 || answers.Known && k.fresh && k.complete() && answers.Age <= liveAge
	k.fresh = false
	return answers
}

// complete: all agents that there are now were asked in this round.
func (k *kept) complete() bool {
	for _, agent := range k.agents {
		if agent.round != k.round {
			return false
		}
	}
	return true
}

// end of a round. It says whether that was demanded.
func (k *kept) end(now time.Time, random float64) bool {
	demanded := k.demanded
	k.ended, k.fresh, k.demanded = now, k.complete(), false
	k.due = now.Add(pace.Spread(pace.QuietInterval, random))
	return demanded
}

// digest of all that is known.
func (k *kept) digest() digest {
	sum := sha256.New()
	for _, pod := range slices.Sorted(maps.Keys(k.agents)) {
		agent := k.agents[pod]
		sum.Write([]byte(pod + " " + agent.Incarnation + "\n"))
		sum.Write(agent.mark[:])
	}
	return digest(sum.Sum(nil))
}

// keep the answer of an agent, or that there is none.
func (a *heard) keep(status *agentapi.Status, mark digest, err error, now time.Time, random float64) {
	a.asked = true
	if err != nil {
		since := a.silence.Since
		if a.failures == 0 {
			since = now
		}
		a.failures, a.silence = a.failures+1, silenceOf(a.Target, err, since)
		a.status, a.mark, a.next = nil, digest{}, now.Add(pause(a.failures, random))
		return
	}
	a.status, a.mark, a.failures, a.silence, a.next = status, mark, 0, Silence{}, time.Time{}
}

// pause after this many failures, give or take a quarter.
func pause(failures int, random float64) time.Duration {
	return pace.Spread(min(longestPause, firstPause<<min(failures-1, 10)), random)
}
