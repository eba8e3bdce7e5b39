package identity

import (
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
)

// What the admission policies ask about: a right that lets nobody read.
func TestTheRoleNamesTheSecretsOfVariablesAndLetsNobodyReadThem(t *testing.T) {
	cluster := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "shop"}}
	secrets := func() (all []rbacv1.PolicyRule) {
		for _, rule := range Role(cluster, 1).Rules {
			if slices.Contains(rule.Resources, "secrets") {
				all = append(all, rule)
			}
		}
		return all
	}
	if got := secrets(); len(got) > 0 {
		t.Errorf("a cluster without variables has %v", got)
	}
	for _, name := range []string{"license", "proxy", "license"} {
		cluster.Spec.Pods.Env = append(cluster.Spec.Pods.Env, v1alpha1.EnvVar{
			Name: "A", ValueFrom: &v1alpha1.EnvSource{SecretKeyRef: &v1alpha1.KeyReference{Name: name, Key: "a"}},
		})
	}
	cluster.Spec.Pods.Env = append(cluster.Spec.Pods.Env, v1alpha1.EnvVar{Name: "B", Value: "b"})
	got := secrets()
	if len(got) != 1 || !slices.Equal(got[0].ResourceNames, []string{"license,proxy,license"}) || !slices.Equal(got[0].Verbs, []string{"use"}) {
		t.Errorf("the Role has %v", got)
	}
}
