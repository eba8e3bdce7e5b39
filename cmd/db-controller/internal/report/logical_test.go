package report

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/pkg/flow"
)

func TestTheConditionSaysWhetherLogicalSlotsSurviveAFailover(t *testing.T) {
	for name, c := range map[string]struct {
		major, instances int32
		parameters       map[string]string
		reason, message  string
	}{
		"replicas have copies":      {18, 3, map[string]string{"wal_level": "logical"}, "Enabled", "their clients continue after a failover."},
		"the version is too low":    {16, 3, map[string]string{"wal_level": "logical"}, "VersionTooLow", "upgrade to 17 or later."},
		"there is no feedback":      {18, 3, map[string]string{"wal_level": "logical", "hot_standby_feedback": "off"}, "ParameterOff", "remove it from spec.postgresql.parameters."},
		"nobody asks for it":        {18, 3, nil, "", ""},
		"there is only one of them": {18, 1, map[string]string{"wal_level": "logical"}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := observedtest.Trio(func(o *observed.Cluster) {
				o.Cluster.Spec.Instances, o.Cluster.Status.MajorVersion = c.instances, c.major
				o.Cluster.Spec.PostgreSQL.Parameters = map[string]v1alpha1.ParameterValue{}
				for name, value := range c.parameters {
					o.Cluster.Spec.PostgreSQL.Parameters[name] = v1alpha1.ParameterValue(value)
				}
			})
			Write(o, flow.Next)
			got := meta.FindStatusCondition(o.Cluster.Status.Conditions, v1alpha1.ConditionLogicalSlotsSynchronized)
			if c.reason == "" && got != nil || c.reason != "" && (got == nil || got.Reason != c.reason || !strings.Contains(got.Message, c.message)) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestLogicalSlotsAreNotSaidToSurviveBeforeTheRestart(t *testing.T) {
	o := observedtest.Trio(func(o *observed.Cluster) {
		o.Cluster.Status.MajorVersion = 18
		o.Cluster.Spec.PostgreSQL.Parameters = map[string]v1alpha1.ParameterValue{"wal_level": "logical"}
		for _, agent := range o.Agents {
			agent.PendingRestart = []string{"wal_level"}
		}
	})
	Write(o, flow.Next)
	if got := meta.FindStatusCondition(o.Cluster.Status.Conditions, v1alpha1.ConditionLogicalSlotsSynchronized); got == nil || got.Reason != v1alpha1.ReasonRestartPending {
		t.Errorf("got %+v", got)
	}
}
