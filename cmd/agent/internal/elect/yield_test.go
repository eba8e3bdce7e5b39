package elect

import (
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
)

// asked has somebody ask for the position of b, which follows a by version 5 of the Lease.
func asked(t *testing.T, version string) (*instance, bool) {
	b := start(t, "b", required(1)).sees(held(1, "b", "c")).serves(Replica, 1, 100)
	yields := b.core.AskedPosition(b.now, agentapi.PositionRequest{Version: version})
	b.step()
	return b, yields
}

func TestAReplicaThatHasAnsweredReceivesNothingUntilTheLeaseIsAnother(t *testing.T) {
	for name, version := range map[string]string{"the same Lease": "5", "a later one": "7", "an agent that doesn't say": ""} {
		t.Run(name, func(t *testing.T) {
			b, yields := asked(t, version)
			b.wants(Follow)
			if !yields || !b.acts.Want.Detached || b.acts.Want.Leader.Name != "" {
				t.Errorf("%v, %+v", yields, b.acts.Want)
			}
			renewed := held(1, "b", "c")
			renewed.Version = "8"
			if b.sees(renewed); b.acts.Want.Detached || b.acts.Want.Leader.Name != "a" {
				t.Errorf("%+v", b.acts.Want)
			}
		})
	}
}

func TestAnAnswerIsNoReasonToLeaveAPrimaryThatNobodyCanReplaceByIt(t *testing.T) {
	if b, yields := asked(t, "4"); yields || b.acts.Want.Detached {
		t.Errorf("whoever asks knows an older Lease: %+v", b.acts.Want)
	}
	b := start(t, "b", required(1)).sees(held(1, "b", "c")).serves(Replica, 1, 100)
	if b.core.AskedPosition(b.now, agentapi.PositionRequest{Ended: true}) {
		t.Error("the holder asks, whose server has ended")
	}
	b.core.AskedFailsafe(b.now, agentapi.FailsafeRequest{Leader: "a", Term: 3, Generation: generation})
	if b.core.AskedPosition(b.now, agentapi.PositionRequest{Version: "5"}) {
		t.Error("it has promised to follow")
	}
}

func TestNobodyCountsOnAMemberThatHasPromisedToFollow(t *testing.T) {
	b := start(t, "b", required(1)).sees(held(1, "b", "c")).serves(Replica, 1, 100)
	b.passes(limits.Expire)
	b.hearsPosition(agentapi.Position{Pod: "c", Replica: true, Timeline: 1, LSN: 90, Promised: true}).waits()
	b.passes(time.Second).hears("c", 1, 90).takes()
}

func TestWhoHasAnsweredIsNoMemberThatFollows(t *testing.T) {
	b, _ := asked(t, "5")
	if answer := b.core.AskedFailsafe(b.now, agentapi.FailsafeRequest{Leader: "a", Term: 3, Generation: generation}); answer.Follows {
		t.Error("it follows")
	}
}
