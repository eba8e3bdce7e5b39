package report

import (
	"cmp"
	"slices"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/agentapi"
)

// Bounds of what an agent may have written into the status.
const (
	mostFindings = 20
	longestText  = 512
)

// reportFindings takes over what the agent of the primary has found. While it says nothing, or can't judge a reason yet, what was found stays:
// that nobody has looked is no evidence.
func reportFindings(o *observed.Cluster) {
	agent := o.PrimaryAgent()
	if agent == nil || agent.Findings == nil {
		return
	}
	before := o.Cluster.Status.Findings
	var now []v1alpha1.ClusterFinding
	for _, found := range agent.Findings.Found {
		if len(now) == mostFindings || found.Reason == "" || slices.ContainsFunc(now, of(found.Reason)) {
			continue
		}
		now = append(now, finding(found, before, o))
	}
	for _, old := range before {
		if slices.Contains(agent.Findings.Undecided, old.Reason) && !slices.ContainsFunc(now, of(old.Reason)) && len(now) < mostFindings {
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
	return f
}
