package report

import (
	"cmp"
	"fmt"
	"slices"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/rolling"
	"howdah.dev/howdah/pkg/agentapi"
)

// Bounds of what an agent may have written into the status.
const (
	mostFindings = 20
	longestText  = 512
)

// onlyOfChecks are the reasons that only deep checks find, of whatever instance, and alsoOfChecks those that the primary finds, too.
var (
	onlyOfChecks = []string{
		v1alpha1.ReasonIndexDamaged, v1alpha1.ReasonReplicaDamaged, v1alpha1.ReasonChecksIncomplete,
		v1alpha1.ReasonServiceUnreachable, v1alpha1.ReasonServiceNotResolved,
	}
	alsoOfChecks = []string{v1alpha1.ReasonClockSkew, v1alpha1.ReasonCertificateExpires}
	// ofDamage are those of them that nobody takes back by looking away.
	ofDamage = []string{v1alpha1.ReasonIndexDamaged, v1alpha1.ReasonReplicaDamaged}
)

// checksSuspended is found without an agent.
var checksSuspended = agentapi.LoadFinding{
	Reason:   v1alpha1.ReasonChecksSuspended,
	Evidence: "spec.deepChecks.suspend is true, so nobody looks for damaged indexes and pages, or tries to commit through the Service.",
	Advice:   "Set it to false once what the checks disturbed is over. Damage that was found before stays here until then.",
}

// reportFindings takes over what the agent of the primary has found in how it runs, and what all agents have found in their deep checks. While
// an agent says nothing, or can't judge a reason yet, what was found stays: that nobody has looked is no evidence.
func reportFindings(o *observed.Cluster) {
	agent := o.PrimaryAgent()
	if agent == nil || agent.Findings == nil {
		return
	}
	before := o.Cluster.Status.Findings
	var now []v1alpha1.ClusterFinding
	add := func(all []agentapi.LoadFinding) {
		for _, found := range all {
			if len(now) == mostFindings || found.Reason == "" || slices.ContainsFunc(now, of(found.Reason)) {
				continue
			}
			now = append(now, finding(found, before, o))
		}
	}
	add(agent.Findings.Found)
	unchecked, stays := false, onlyOfChecks
	if suspended := o.Cluster.Spec.DeepChecks != nil && o.Cluster.Spec.DeepChecks.Suspend; suspended {
		unchecked, stays = true, ofDamage
		add([]agentapi.LoadFinding{checksSuspended})
	} else {
		for ordinal := range o.Wanted() {
			said := o.Agent(ordinal)
			if said == nil || said.Checks == nil {
				unchecked = true
				continue
			}
			add(slices.DeleteFunc(slices.Clone(said.Checks.Found), func(f agentapi.LoadFinding) bool {
				return !slices.Contains(onlyOfChecks, f.Reason) && !slices.Contains(alsoOfChecks, f.Reason)
			}))
		}
	}
	for _, old := range before {
		undecided := slices.Contains(agent.Findings.Undecided, old.Reason) || unchecked && slices.Contains(stays, old.Reason)
		if undecided && !slices.ContainsFunc(now, of(old.Reason)) && len(now) < mostFindings {
			now = append(now, old)
		}
	}
	slices.SortFunc(now, func(a, b v1alpha1.ClusterFinding) int { return cmp.Compare(a.Reason, b.Reason) })
	o.Cluster.Status.Findings = now
}

func of(reason string) func(v1alpha1.ClusterFinding) bool {
	return func(f v1alpha1.ClusterFinding) bool { return f.Reason == reason }
}

func finding(found agentapi.LoadFinding, before []v1alpha1.ClusterFinding, o *observed.Cluster) v1alpha1.ClusterFinding {
	f := v1alpha1.ClusterFinding{
		Reason: observed.Bounded(found.Reason, longestText), Since: *observed.TimeOf(o.Now),
		Evidence: observed.Bounded(found.Evidence, longestText), Advice: observed.Bounded(found.Advice, longestText),
	}
	if i := slices.IndexFunc(before, of(f.Reason)); i >= 0 {
		f.Since = before[i].Since
	}
	if f.Reason == v1alpha1.ReasonReplicaDamaged {
		f.Advice = observed.Bounded(adviceForDamage(o, f.Advice), longestText)
	}
	return f
}

// adviceForDamage says what becomes of a damaged replica by itself, and otherwise why nothing does.
func adviceForDamage(o *observed.Cluster, advice string) string {
	instance, _, against := rolling.Damaged(o)
	switch {
	case instance == "":
		return advice
	case o.Cluster.Status.Cloning() == instance:
		return fmt.Sprintf("Nothing: %s is being cloned again.", instance)
	case against == "":
		return fmt.Sprintf("Nothing: %s is about to be cloned again automatically.", instance)
	}
	return fmt.Sprintf("%s is not cloned automatically now: %s When that has passed, or its disk was replaced, clone it: spec.reinit: {instance: %s, token: a}.", instance, against, instance)
}
