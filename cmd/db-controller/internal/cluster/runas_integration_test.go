//go:build integration

package cluster

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/apiserver"
)

// TestTheAdmissionPoliciesLetInstancesRunAsAUserOfTheNamespace: what the policies refuse never starts.
func TestTheAdmissionPoliciesLetInstancesRunAsAUserOfTheNamespace(t *testing.T) {
	l := newLab(t)
	l.stop()
	l.account = apiserver.As(t, "db-controller")
	l.agent.Image = "registry.local/howdah/agent:1"
	l.startController()
	shop := l.shop(func(c *v1alpha1.PostgresCluster) { c.Spec.RunAs = &v1alpha1.RunAs{FromNamespace: true} })
	l.awaitRunning(shop)
	set := &appsv1.StatefulSet{}
	l.there(set, "shop")
	pod := set.Spec.Template.Spec
	if s := pod.SecurityContext; s.RunAsUser != nil || s.FSGroup != nil || !*s.RunAsNonRoot {
		t.Errorf("%+v", s)
	}
	if !slices.ContainsFunc(pod.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == "/etc/passwd" }) {
		t.Error("the user has no name")
	}
}
