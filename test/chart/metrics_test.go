//go:build chart

package chart

import (
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// metricsFlags are the flags of the controllers that differ with the values, all the same for each.
func metricsFlags(t *testing.T, objects []unstructured.Unstructured) (flags []string) {
	t.Helper()
	for i, object := range ofKind(objects, "Deployment") {
		var own []string
		for _, arg := range as[appsv1.Deployment](t, object).Spec.Template.Spec.Containers[0].Args {
			if slices.Contains([]string{"--metrics-for-all", "--metrics-cert-dir=/certificates/metrics"}, arg) {
				own = append(own, arg)
			}
		}
		if i > 0 && !slices.Equal(own, flags) {
			t.Errorf("%s has %v, another controller %v", object.GetName(), own, flags)
		}
		flags = own
	}
	return flags
}

func TestControllersMayAskWhoReadsTheirMetricsAndNothingElse(t *testing.T) {
	for _, sets := range [][]string{{}, {"watchNamespaces={one}", "rbac.aggregate=false"}} {
		objects := render(t, sets...)
		if flags := metricsFlags(t, objects); len(flags) > 0 {
			t.Errorf("%v: flags %v", sets, flags)
		}
		for _, object := range ofKind(objects, "ClusterRoleBinding") {
			if object.GetName() != "howdah-metrics-authentication" {
				continue
			}
			var bound []string
			for _, subject := range as[rbacv1.ClusterRoleBinding](t, object).Subjects {
				bound = append(bound, subject.Name)
			}
			if !slices.Equal(bound, controllers) {
				t.Errorf("%v: %v may ask", sets, bound)
			}
		}
		rights := map[string]string{}
		for _, object := range ofKind(objects, "ClusterRole") {
			rights[object.GetName()] = fmt.Sprint(as[rbacv1.ClusterRole](t, object).Rules)
		}
		want := fmt.Sprint([]rbacv1.PolicyRule{
			{Verbs: []string{"create"}, APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}},
			{Verbs: []string{"create"}, APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}},
		})
		if got := rights["howdah-metrics-authentication"]; got != want {
			t.Errorf("%v: %s", sets, got)
		}
	}
}

func TestReadersOfMetricsAreBoundByTheRelease(t *testing.T) {
	objects := render(t, "metrics.readers[0].name=prometheus-k8s", "metrics.readers[0].namespace=monitoring")
	found := false
	for _, object := range ofKind(objects, "ClusterRoleBinding") {
		binding := as[rbacv1.ClusterRoleBinding](t, object)
		if binding.Name == "howdah-metrics-reader" && len(binding.Subjects) == 1 {
			found = binding.RoleRef.Name == "howdah-metrics-reader" && binding.Subjects[0].Name == "prometheus-k8s" && binding.Subjects[0].Namespace == "monitoring"
		}
	}
	if !found {
		t.Error("the account is not bound")
	}
}

func TestWithoutAuthenticationNoClusterRoleIsLeftForIt(t *testing.T) {
	objects := render(t, "metrics.authentication=false", "watchNamespaces={one}", "rbac.aggregate=false")
	if flags := metricsFlags(t, objects); !slices.Equal(flags, []string{"--metrics-for-all"}) {
		t.Errorf("flags %v", flags)
	}
	for _, object := range ofKind(objects, "ClusterRole") {
		if object.GetName() == "howdah-metrics-authentication" || object.GetName() == "howdah-metrics-reader" {
			t.Errorf("%s is created", object.GetName())
		}
	}
}

func TestACertificateForMetricsIsMountedAndTrusted(t *testing.T) {
	objects := render(t, "metrics.certificateSecret=metrics-tls", "monitoring.controllers.enabled=true", "monitoring.controllers.tokenSecret=prometheus-token")
	if flags := metricsFlags(t, objects); !slices.Equal(flags, []string{"--metrics-cert-dir=/certificates/metrics"}) {
		t.Errorf("flags %v", flags)
	}
	for _, object := range ofKind(objects, "Deployment") {
		pod := as[appsv1.Deployment](t, object).Spec.Template.Spec
		if len(pod.Volumes) != 1 || pod.Volumes[0].Secret.SecretName != "metrics-tls" || *pod.SecurityContext.FSGroup != 65532 ||
			pod.Containers[0].VolumeMounts[0].MountPath != "/certificates/metrics" {
			t.Errorf("%s: volumes %+v", object.GetName(), pod.Volumes)
		}
	}
	endpoints, _, err := unstructured.NestedSlice(only(t, objects, "ServiceMonitor").Object, "spec", "endpoints")
	if err != nil || len(endpoints) != 1 {
		t.Fatalf("%v: %v", endpoints, err)
	}
	endpoint := endpoints[0].(map[string]any)
	want := "map[ca:map[secret:map[key:ca.crt name:metrics-tls]] serverName:howdah-metrics.howdah-system.svc]"
	if got := fmt.Sprint(endpoint["tlsConfig"]); got != want || endpoint["scheme"] != "https" {
		t.Errorf("%s over %v", got, endpoint["scheme"])
	}
	if got := fmt.Sprint(endpoint["authorization"]); got != "map[credentials:map[key:token name:prometheus-token]]" || endpoint["bearerTokenFile"] != nil {
		t.Errorf("Prometheus sends %s", got)
	}
}
