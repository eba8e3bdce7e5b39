package report

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/pkg/agentapi"
)

func TestFindingsAreThoseOfThePrimaryAndKeepTheTimeOfTheFirst(t *testing.T) {
	o := observedtest.Running(nil)
	begun := o.Now
	found := func(reason string) agentapi.LoadFinding {
		return agentapi.LoadFinding{Reason: reason, Evidence: "9 of 10.", Advice: "Set it."}
	}
	for _, c := range []struct {
		said *agentapi.Findings
		want string
	}{
		{nil, "[]"},
		{&agentapi.Findings{Found: []agentapi.LoadFinding{found("b"), found("a"), found("a"), found("")}}, "[a 1m0s b 1m0s]"},
		{nil, "[a 1m0s b 1m0s]"}, // nobody has looked
		{&agentapi.Findings{Found: []agentapi.LoadFinding{found("b"), found("c")}}, "[b 1m0s c 3m0s]"},
		{&agentapi.Findings{Undecided: []string{"b"}}, "[b 1m0s]"}, // another agent has just begun to look
		{&agentapi.Findings{}, "[]"},
	} {
		o.PrimaryAgent().Findings = c.said
		reportFindings(o)
		var got []string
		for _, f := range o.Cluster.Status.Findings {
			got = append(got, fmt.Sprint(f.Reason, " ", f.Since.Sub(begun).Round(time.Second)))
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%v, and not %s", got, c.want)
		}
		o.Now = o.Now.Add(time.Minute)
	}
}

func TestWhatADeepCheckFindsStaysUntilEveryInstanceHasLookedAgain(t *testing.T) {
	o := observedtest.Trio(nil)
	for _, agent := range o.Agents {
		agent.Findings = &agentapi.Findings{}
	}
	damaged := agentapi.LoadFinding{Reason: agentapi.FindingReplicaDamaged, Evidence: "On the replica shop-1."}
	foreign := agentapi.LoadFinding{Reason: agentapi.FindingWraparoundAge}
	for step, c := range []struct {
		instance string
		said     *agentapi.Checks
		want     int
	}{
		{"shop-1", &agentapi.Checks{Found: []agentapi.LoadFinding{damaged, foreign}}, 1},
		{"shop-1", nil, 1}, // it is being cloned
		{"shop-1", &agentapi.Checks{}, 1},
		{"shop-2", &agentapi.Checks{}, 1},
		{"shop-0", &agentapi.Checks{}, 0},
	} {
		o.Agents[c.instance].Checks = c.said
		reportFindings(o)
		if got := o.Cluster.Status.Findings; len(got) != c.want {
			t.Errorf("after %d steps: %+v", step, got)
		}
	}
}

func TestWhileNobodyChecksOnlyKnownDamageStays(t *testing.T) {
	o := observedtest.Trio(nil)
	for _, agent := range o.Agents {
		agent.Findings, agent.Checks = &agentapi.Findings{}, &agentapi.Checks{}
	}
	o.Agents["shop-1"].Checks.Found = []agentapi.LoadFinding{{Reason: agentapi.FindingReplicaDamaged}, {Reason: agentapi.FindingServiceUnreachable}}
	reasons := func() string {
		reportFindings(o)
		var got []string
		for _, f := range o.Cluster.Status.Findings {
			got = append(got, f.Reason)
		}
		return strings.Join(got, " ")
	}
	if got := reasons(); got != "ReplicaDamaged ServiceUnreachable" {
		t.Errorf("before: %s", got)
	}
	o.Cluster.Spec.DeepChecks = &v1alpha1.DeepChecks{Suspend: true}
	if got := reasons(); got != "ChecksSuspended ReplicaDamaged" {
		t.Errorf("suspended: %s", got)
	}
	o.Agents["shop-1"].Checks = nil
	o.Cluster.Spec.DeepChecks = nil
	if got := reasons(); got != "ReplicaDamaged" {
		t.Errorf("before it has looked again: %s", got)
	}
}

func TestAnAgentCanNotFillTheStatusWithFindings(t *testing.T) {
	o := observedtest.Running(nil)
	said := &agentapi.Findings{}
	for i := range 100 {
		said.Found = append(said.Found, agentapi.LoadFinding{Reason: fmt.Sprint("r", i), Evidence: strings.Repeat("é", 1e5)})
	}
	o.PrimaryAgent().Findings = said
	reportFindings(o)
	if got := o.Cluster.Status.Findings; len(got) != mostFindings || len([]rune(got[0].Evidence)) != longestText {
		t.Errorf("%d findings", len(got))
	}
}
