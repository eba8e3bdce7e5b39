package report

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
)

func TestTheConditionSaysHowThePrimaryKeepsItsLease(t *testing.T) {
	keeps := func(renewal string, silent ...string) func(*observed.Cluster) {
		return func(o *observed.Cluster) {
			o.Cluster.Spec.Failover = &v1alpha1.Failover{Renewal: v1alpha1.RenewalMembers}
			o.Agents["shop-0"].Election.Renewal, o.Agents["shop-0"].Election.Silent = renewal, silent
		}
	}
	for name, c := range map[string]struct {
		change  func(*observed.Cluster)
		message string
	}{
		"it isn't asked for":     {func(o *observed.Cluster) { o.Cluster.Spec.Failover = &v1alpha1.Failover{} }, "Another instance takes over when the primary fails."},
		"all members answer":     {keeps(agentapi.RenewalMembers), "shop-0 renews the lease through its members."},
		"they have yet to":       {keeps(agentapi.RenewalAPIServer), "until all members have answered its datagrams for some seconds."},
		"some are silent":        {keeps(agentapi.RenewalAPIServer, "shop-1", "shop-2"), "it gets no response to its datagrams from shop-1 and shop-2. Let UDP port 8443 through"},
		"the agent is too old":   {keeps(""), "because its agent is too old for spec.failover.renewal. Replace its pod."},
		"the primary is unknown": {observedtest.All(keeps(""), func(o *observed.Cluster) { o.Agents["shop-0"].Election = nil }), "when the primary fails."},
	} {
		t.Run(name, func(t *testing.T) {
			o := observedtest.Trio(c.change)
			Write(o, flow.Next)
			got := meta.FindStatusCondition(o.Cluster.Status.Conditions, v1alpha1.ConditionAutomaticFailover)
			if got == nil || !strings.Contains(got.Message, c.message) {
				t.Errorf("got %+v", got)
			}
		})
	}
}
