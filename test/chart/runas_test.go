//go:build chart

package chart

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
)

func TestControllersRunAsAUserOfTheirOwnUnlessTheNamespaceDecides(t *testing.T) {
	for what, values := range map[string][]string{
		"by default":            nil,
		"where OpenShift rules": {"runAs.fromNamespace=true", "metrics.certificateSecret=metrics"},
	} {
		for _, object := range ofKind(render(t, values...), "Deployment") {
			deployment := as[appsv1.Deployment](t, object)
			s := deployment.Spec.Template.Spec.SecurityContext
			if fixed := s.RunAsUser != nil && *s.RunAsUser == 65532 && s.RunAsGroup != nil; fixed != (values == nil) {
				t.Errorf("%s, %s has %+v", what, deployment.Name, s)
			}
			if values != nil && s.FSGroup != nil || !*s.RunAsNonRoot {
				t.Errorf("%s, %s has %+v", what, deployment.Name, s)
			}
		}
	}
}
