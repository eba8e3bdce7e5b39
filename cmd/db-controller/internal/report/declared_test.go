package report

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/condition"
	"howdah.dev/howdah/cmd/db-controller/internal/desired"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
)

func TestTheConditionSaysWhatIsNotAsDeclared(t *testing.T) {
	for name, test := range map[string]struct {
		change               func(*observed.Cluster)
		status, reason, says string
	}{
		"all is":                               {func(*observed.Cluster) {}, "True", v1alpha1.ReasonCurrent, "as spec declares"},
		"an agent that doesn't know of it yet": {func(o *observed.Cluster) { o.Agents["shop-0"].Declared.Hash = "old" }, "False", v1alpha1.ReasonApplying, "has yet to"},
		"an agent that has said nothing":       {func(o *observed.Cluster) { o.Agents["shop-0"].Declared = nil }, "False", v1alpha1.ReasonApplying, "has yet to"},
		"no agent":                             {func(o *observed.Cluster) { delete(o.Agents, "shop-0") }, "False", v1alpha1.ReasonApplying, "has yet to"},
		"problems": {func(o *observed.Cluster) {
			o.Agents["shop-0"].Declared.Problems = []string{"role a: no", "role b: no", strings.Repeat("long ", 1000), "role c: no"}
		}, "False", v1alpha1.ReasonNotAsDeclared, "Role a: no; role b: no; long"},
		"a Secret that is missing": {func(o *observed.Cluster) {
			o.NoPasswords = []condition.Finding{condition.False(v1alpha1.ReasonSecretNotFound, "role web has no password: there is no Secret web")}
			o.Agents["shop-0"].Declared.Problems = []string{"role web: its password has not arrived"}
		}, "False", v1alpha1.ReasonSecretNotFound, "there is no Secret web."},
		"a password that can't be used": {func(o *observed.Cluster) {
			o.NoPasswords = []condition.Finding{condition.False(v1alpha1.ReasonPasswordRefused, "LDAP has a password that can't be used"), condition.False(v1alpha1.ReasonSecretNotFound, "there is no Secret web")}
		}, "False", v1alpha1.ReasonPasswordRefused, "LDAP has a password that can't be used; there is no Secret web."},
		"a certificate's Secret that is another's": {func(o *observed.Cluster) {
			o.NoCertificates = []string{"role web has no certificate: Secret web-tls already exists and belongs to somebody else"}
		}, "False", v1alpha1.ReasonNameConflict, "Secret web-tls already exists"},
	} {
		o := observedtest.Running(func(o *observed.Cluster) { o.Cluster.Spec.Roles = []v1alpha1.Role{{Name: "web"}} })
		o.Agents["shop-0"].Declared = &agentapi.DeclaredStatus{Hash: desired.AgentConfig(o).Declared.Hash()}
		test.change(o)
		Write(o, flow.Next)
		got := meta.FindStatusCondition(o.Cluster.Status.Conditions, v1alpha1.ConditionRolesAndDatabasesReady)
		if string(got.Status) != test.status || got.Reason != test.reason || !strings.Contains(got.Message, test.says) || len(got.Message) > 1000 {
			t.Errorf("%s: %s %s %s", name, got.Status, got.Reason, got.Message)
		}
		delete(o.Agents, "shop-0")
		Write(o, flow.Next)
		if test.reason == v1alpha1.ReasonNotAsDeclared && meta.FindStatusCondition(o.Cluster.Status.Conditions, v1alpha1.ConditionRolesAndDatabasesReady).Reason != test.reason {
			t.Errorf("%s: an agent that doesn't respond for a moment changes it", name)
		}
		o.Cluster.Spec.Roles = nil
		Write(o, flow.Next)
		if meta.FindStatusCondition(o.Cluster.Status.Conditions, v1alpha1.ConditionRolesAndDatabasesReady) != nil {
			t.Errorf("%s: the condition stays when nothing is declared", name)
		}
	}
}

func TestAMissingPasswordForLdapIsReportedEvenIfNothingIsDeclared(t *testing.T) {
	o := observedtest.Running(func(o *observed.Cluster) {
		o.Cluster.Spec.PostgreSQL.LDAPPasswordSecret = &v1alpha1.PasswordSecret{Name: "directory", Key: "password"}
	})
	o.NoPasswords = []condition.Finding{condition.False(v1alpha1.ReasonSecretNotFound, "LDAP has no password: there is no Secret directory")}
	Write(o, flow.Next)
	if got := meta.FindStatusCondition(o.Cluster.Status.Conditions, v1alpha1.ConditionRolesAndDatabasesReady); got == nil || got.Reason != v1alpha1.ReasonSecretNotFound {
		t.Errorf("%+v", got)
	}
	o.NoPasswords = nil
	Write(o, flow.Next)
	if got := meta.FindStatusCondition(o.Cluster.Status.Conditions, v1alpha1.ConditionRolesAndDatabasesReady); got != nil {
		t.Errorf("the condition stays: %+v", got)
	}
}
