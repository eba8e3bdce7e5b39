//go:build e2e

package e2e

import (
	"fmt"
	"testing"

	"howdah.dev/howdah/test/chaos"
)

// TestACDCClientReadsEveryRowOnceAcrossASwitchoverAKilledPodAndALostNode: replication is asynchronous, so that the primary may have
// rows that no replica has. The client must not be told of those.
func TestACDCClientReadsEveryRowOnceAcrossASwitchoverAKilledPodAndALostNode(t *testing.T) {
	onlyInFull(t, "it takes minutes, and the agent's own tests hand a slot over and back")
	faults, err := chaos.Find("switchover", "kill-pod", "node-kill", "switchover")
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []int32{17, 18} {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			subject := chaos.New(t, chaos.Options{Replication: chaos.Async, Version: version, Logical: true})
			client := subject.Follow()
			for i, fault := range faults {
				subject.AwaitCopies(client)
				subject.Try(t, fault, i+1)
				subject.CompareClient(client)
			}
		})
	}
}
