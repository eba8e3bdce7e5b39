//go:build integration

package cluster

import (
	"testing"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
)

func TestWhatTheAgentOfThePrimaryFindsIsInTheStatusUntilItIsFoundNoMore(t *testing.T) {
	l := newLab(t)
	shop := l.shop(three)
	l.awaitReplicated(shop)
	says := func(found ...agentapi.LoadFinding) {
		l.kube.set(func(s *standIn) {
			s.answer = func(status *agentapi.Status) {
				if status.Role == "primary" {
					status.Findings = &agentapi.Findings{Found: found}
				}
			}
		})
	}
	says(agentapi.LoadFinding{Reason: agentapi.FindingTemporaryFiles, Evidence: "9 files.", Advice: "Set spec.postgresql.parameters.work_mem."})
	l.eventually("it is in the status", func() bool {
		l.get(shop)
		found := shop.Status.Findings
		return len(found) == 1 && found[0].Reason == v1alpha1.ReasonTemporaryFiles && found[0].Evidence == "9 files." && !found[0].Since.IsZero()
	})
	says()
	l.eventually("it is gone", func() bool {
		l.get(shop)
		return len(shop.Status.Findings) == 0
	})
}
