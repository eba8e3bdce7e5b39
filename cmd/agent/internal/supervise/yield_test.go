//go:build postgres

package supervise

import (
	"bytes"
	"encoding/json"
	"runtime"
	"sync"
	"testing"

	"howdah.dev/howdah/cmd/agent/internal/elect"
	"howdah.dev/howdah/cmd/agent/internal/postmaster"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// An agent that was frozen finds, all at once, that its server was killed and that another one is the primary. Should it go
// on to say that clients belong here, the two would write over each other in the EndpointSlice for good.
func TestAPrimaryThatWasFrozenLeavesClientsToTheNextOne(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	two, _ := newPair(t)
	for _, p := range []*pod{two.first, two.second} {
		p.configure(p.with(map[string]string{"wal_keep_size": "64MB"})) // what a rewind needs stays, as it does by default
	}
	two.run()
	frozen := two.first.agent
	member := frozen.member
	frozen.mu.Lock() // the loop needs it for each of its turns
	thaw := sync.OnceFunc(frozen.mu.Unlock)
	defer thaw()
	two.second.await("let the loop stand still", blocked)
	postmaster.KillAll(two.first.Volume.PGData(two.first.config.DataGeneration))
	two.lease.pass(t, "shop-1")
	two.second.await("take over", two.second.public.ready)
	two.second.await("let the former primary know", func() bool { return member.Want().Role != elect.Lead })
	<-member.Changed() // what the agent hears of first is the end of its server
	thaw()
	two.first.awaitStatus("follow", func(s agentapi.Status) bool { return s.Replication != nil && s.Replication.Streaming })
	if two.first.public.ready() {
		t.Error("the former primary still has clients sent to it")
	}
}

// blocked says whether a loop waits for a lock, which only one that is frozen does for long: wherever in its turn that is.
func blocked() bool {
	stacks := make([]byte, 4<<20)
	for stack := range bytes.SplitSeq(stacks[:runtime.Stack(stacks, true)], []byte("\n\n")) {
		header, frames, _ := bytes.Cut(stack, []byte("\n"))
		if bytes.Contains(header, []byte("[sync.Mutex.Lock")) && bytes.Contains(frames, []byte("(*runner).loop(")) {
			return true
		}
	}
	return false
}

// pass gives the Lease to another instance, as if it had run out and that one had taken it.
func (l *leaseServer) pass(t *testing.T, to string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	spec, annotations := l.object["spec"].(map[string]any), l.object["metadata"].(map[string]any)["annotations"].(map[string]any)
	election := map[string]any{}
	if err := json.Unmarshal([]byte(annotations["howdah.dev/election"].(string)), &election); err != nil {
		t.Fatal(err)
	}
	term, _ := spec["leaseTransitions"].(float64)
	timeline, _ := election["timeline"].(float64)
	spec["holderIdentity"], spec["leaseTransitions"] = to, term+1
	election["holderUID"], election["lastHolder"], election["timeline"] = "uid of "+to, to, timeline+1
	delete(election, "checkpoint") // it has none yet
	content, err := json.Marshal(election)
	if err != nil {
		t.Fatal(err)
	}
	annotations["howdah.dev/election"] = string(content)
	l.publish()
}
