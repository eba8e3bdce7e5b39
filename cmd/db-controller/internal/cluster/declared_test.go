package cluster

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
)

func TestTheConditionSaysWhatIsNotAsDeclared(t *testing.T) {
	for name, test := range map[string]struct {
		change               func(*world)
		status, reason, says string
	}{
		"all is":                               {func(*world) {}, "True", v1alpha1.ReasonCurrent, "as spec declares"},
		"an agent that doesn't know of it yet": {func(w *world) { w.agents["shop-0"].Declared.Hash = "old" }, "False", v1alpha1.ReasonApplying, "has yet to"},
		"an agent that has said nothing":       {func(w *world) { w.agents["shop-0"].Declared = nil }, "False", v1alpha1.ReasonApplying, "has yet to"},
		"no agent":                             {func(w *world) { delete(w.agents, "shop-0") }, "False", v1alpha1.ReasonApplying, "has yet to"},
		"problems": {func(w *world) {
			w.agents["shop-0"].Declared.Problems = []string{"role a: no", "role b: no", strings.Repeat("long ", 1000), "role c: no"}
		}, "False", v1alpha1.ReasonNotAsDeclared, "role a: no; role b: no; long"},
		"a Secret that is missing": {func(w *world) {
			w.noPasswords = []string{"role web has no password: there is no Secret web"}
			w.agents["shop-0"].Declared.Problems = []string{"role web: its password has not arrived"}
		}, "False", v1alpha1.ReasonSecretNotFound, "there is no Secret web."},
		"a certificate's Secret that is another's": {func(w *world) {
			w.noCertificates = []string{"role web has no certificate: Secret web-tls is there and belongs to somebody else"}
		}, "False", v1alpha1.ReasonNameConflict, "Secret web-tls is there"},
	} {
		w := running(func(w *world) { w.cluster.Spec.Roles = []v1alpha1.Role{{Name: "web"}} })
		w.agents["shop-0"].Declared = &agentapi.DeclaredStatus{Hash: w.agentConfig().Declared.Hash()}
		test.change(w)
		report(w, flow.Next)
		got := meta.FindStatusCondition(w.cluster.Status.Conditions, v1alpha1.ConditionRolesAndDatabasesReady)
		if string(got.Status) != test.status || got.Reason != test.reason || !strings.Contains(got.Message, test.says) || len(got.Message) > 1000 {
			t.Errorf("%s: %s %s %s", name, got.Status, got.Reason, got.Message)
		}
		delete(w.agents, "shop-0")
		report(w, flow.Next)
		if test.reason == v1alpha1.ReasonNotAsDeclared && meta.FindStatusCondition(w.cluster.Status.Conditions, v1alpha1.ConditionRolesAndDatabasesReady).Reason != test.reason {
			t.Errorf("%s: an agent that doesn't answer for a moment changes it", name)
		}
		w.cluster.Spec.Roles = nil
		report(w, flow.Next)
		if meta.FindStatusCondition(w.cluster.Status.Conditions, v1alpha1.ConditionRolesAndDatabasesReady) != nil {
			t.Errorf("%s: the condition stays when nothing is declared", name)
		}
	}
}

func TestAPasswordIsTakenAsAPersonWouldWriteIt(t *testing.T) {
	where := &v1alpha1.PasswordSecret{Name: "web", Key: "password"}
	for name, test := range map[string]struct {
		secret         *corev1.Secret
		password, says string
	}{
		"as it is":             {&corev1.Secret{Data: map[string][]byte{"password": []byte(" a b ")}}, " a b ", ""},
		"with a line's end":    {&corev1.Secret{Data: map[string][]byte{"password": []byte("x\r\n")}}, "x", ""},
		"an empty one":         {&corev1.Secret{Data: map[string][]byte{"password": []byte("\n")}}, "", "nothing under the key password"},
		"under another key":    {&corev1.Secret{Data: map[string][]byte{"pass": []byte("x")}}, "", "nothing under the key password"},
		"one that isn't there": {nil, "", "there is no Secret web"},
	} {
		password, missing := passwordIn(test.secret, where)
		if string(password) != test.password || !strings.Contains(missing, test.says) || (missing == "") != (test.says == "") {
			t.Errorf("%s: %q", name, missing)
		}
	}
}
