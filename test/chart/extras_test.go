//go:build chart

package chart

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

func TestAControllerHasTheArgumentsVolumesAndAccountThatItsValuesAdd(t *testing.T) {
	const of = "controllers.backup-controller."
	values := []string{
		of + "extraArgs={--log-level=debug}", of + "serviceAccount.create=false", of + "podSecurityContext.supplementalGroups={2000}",
		of + "volumes[0].name=trust", of + "volumes[0].configMap.name=trust", of + "volumeMounts[0].name=trust", of + "volumeMounts[0].mountPath=/trust",
	}
	for what, more := range map[string][]string{"alone": nil, "beside a certificate": {"metrics.certificateSecret=metrics"}} {
		objects := render(t, append(more, values...)...)
		if accounts := names(ofKind(objects, "ServiceAccount")); slices.Contains(accounts, "backup-controller") || len(accounts) != len(controllers)-1 {
			t.Errorf("%s, the chart creates the accounts %v", what, accounts)
		}
		for _, object := range ofKind(objects, "Deployment") {
			deployment := as[appsv1.Deployment](t, object)
			pod := deployment.Spec.Template.Spec
			container := pod.Containers[0]
			meant := deployment.Name == "backup-controller"
			last := container.Args[len(container.Args)-1]
			if (last == "--log-level=debug") != meant || (len(pod.SecurityContext.SupplementalGroups) == 1) != meant || pod.ServiceAccountName != deployment.Name {
				t.Errorf("%s, %s has %v and %+v", what, deployment.Name, container.Args, pod.SecurityContext)
			}
			want := len(more)
			if meant {
				want++
			}
			if len(pod.Volumes) != want || len(container.VolumeMounts) != want {
				t.Errorf("%s, %s has %v and %v", what, deployment.Name, pod.Volumes, container.VolumeMounts)
			}
		}
	}
	out, err := try("crds.install=false", "metrics.certificateSecret=metrics", of+"podSecurityContext.fsGroup=2000", of+"podSecurityContext.runAsUser=2001", of+"podSecurityContext.seccompProfile.type=Unconfined")
	if err != nil || strings.Count(string(out), "fsGroup:") != len(controllers) {
		t.Errorf("%v: %s", err, out)
	}
	for _, object := range ofKind(parse(t, out), "Deployment") {
		deployment := as[appsv1.Deployment](t, object)
		s := deployment.Spec.Template.Spec.SecurityContext
		group, user, profile := int64(65532), int64(65532), corev1.SeccompProfileTypeRuntimeDefault
		if deployment.Name == "backup-controller" {
			group, user, profile = 2000, 2001, corev1.SeccompProfileTypeUnconfined
		}
		if *s.FSGroup != group || *s.RunAsUser != user || *s.RunAsGroup != 65532 || s.SeccompProfile.Type != profile || !*s.RunAsNonRoot {
			t.Errorf("%s has %+v", deployment.Name, s)
		}
	}
	out, err = try(of + "extraArgs={debug}")
	if err == nil || !strings.Contains(string(out), "extraArgs") {
		t.Errorf("an argument that is none is accepted: %s", out)
	}
}
