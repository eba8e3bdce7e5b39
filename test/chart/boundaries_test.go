//go:build chart

package chart

import (
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

func TestPoliciesHoldTheAccountsOfThisReleaseToTheirWork(t *testing.T) {
	objects := render(t, "watchNamespaces={one,two}", "agent.image=registry.example:5000/mine/agent:v9@sha256:00")
	policies := ofKind(objects, "ValidatingAdmissionPolicy")
	want := []string{"howdah-access", "howdah-copies", "howdah-deletion", "howdah-drills", "howdah-instances", "howdah-namespaces", "howdah-objects", "howdah-progress", "howdah-secrets", "howdah-workloads"}
	if got := names(policies); !slices.Equal(got, want) || !slices.Equal(names(ofKind(objects, "ValidatingAdmissionPolicyBinding")), want) {
		t.Fatalf("the policies are %v", got)
	}
	for _, object := range policies {
		policy := as[admissionv1.ValidatingAdmissionPolicy](t, object)
		if *policy.Spec.FailurePolicy != admissionv1.Fail {
			t.Errorf("%s lets pass what it can't judge", policy.Name)
		}
		if slices.Contains([]string{"howdah-deletion", "howdah-instances", "howdah-progress"}, policy.Name) { // for people, and for the pods of databases and of Jobs
			if where := policy.Spec.MatchConditions[len(policy.Spec.MatchConditions)-1].Expression; !strings.Contains(where, "['one', 'two']") {
				t.Errorf("%s applies to namespaces of others: %s", policy.Name, where)
			}
			continue
		}
		for _, name := range controllers {
			if account := "'system:serviceaccount:howdah-system:" + name + "'"; !strings.Contains(policy.Spec.MatchConditions[0].Expression, account) {
				t.Errorf("%s doesn't apply to %s", policy.Name, account)
			}
		}
		variables := map[string]string{}
		for _, v := range policy.Spec.Variables {
			variables[v.Name] = v.Expression
		}
		if variables["namespaces"] != "['one', 'two']" || variables["agentRepository"] != "'registry.example:5000/mine/agent'" {
			t.Errorf("%s: namespaces %s, agent of %s", policy.Name, variables["namespaces"], variables["agentRepository"])
		}
	}
	for _, object := range ofKind(objects, "ValidatingAdmissionPolicyBinding") {
		if actions := as[admissionv1.ValidatingAdmissionPolicyBinding](t, object).Spec.ValidationActions; !slices.Equal(actions, []admissionv1.ValidationAction{admissionv1.Deny}) {
			t.Errorf("%s: %v", object.GetName(), actions)
		}
	}
	if off := ofKind(render(t, "admissionPolicies.enabled=false"), "ValidatingAdmissionPolicy"); len(off) > 0 {
		t.Errorf("they are installed all the same: %v", names(off))
	}
}

func TestNoControllerMayGiveItselfMore(t *testing.T) {
	for _, object := range ofKind(render(t), "ClusterRole") {
		for _, rule := range as[rbacv1.ClusterRole](t, object).Rules {
			for _, verb := range []string{"escalate", "bind", "impersonate", "*"} {
				if slices.Contains(rule.Verbs, verb) {
					t.Errorf("%s: %v of %v", object.GetName(), rule.Verbs, rule.Resources)
				}
			}
		}
	}
}
