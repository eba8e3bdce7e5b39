//go:build integration

package main

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/kubectl-howdah/internal/psql"
	"howdah.dev/howdah/pkg/workload"
	"howdah.dev/howdah/test/testkit/apiserver"
)

// newPod creates a pod of an instance, which no kubelet runs.
func newPod(t *testing.T, c client.Client, namespace, cluster, name string, role v1alpha1.InstanceRole, ready corev1.ConditionStatus) {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{
			v1alpha1.LabelCluster: cluster, v1alpha1.LabelComponent: workload.ComponentInstance, v1alpha1.LabelRole: string(role),
		}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "postgres", Image: "postgres", Env: []corev1.EnvVar{{Name: "TOKEN", Value: "hunter2"}}}}},
	}
	must(t, c.Create(t.Context(), pod))
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
	must(t, c.Status().Update(t.Context(), pod))
}

// leads writes where the Service of the primary leads.
func leads(t *testing.T, c client.Client, namespace, pod string, ready bool) {
	t.Helper()
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop-rw"}, AddressType: discoveryv1.AddressTypeIPv4}
	must(t, client.IgnoreNotFound(c.Delete(t.Context(), slice.DeepCopy())))
	slice.Endpoints = []discoveryv1.Endpoint{{
		Addresses: []string{"10.0.0.7"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(ready)},
		TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: pod},
	}}
	must(t, c.Create(t.Context(), slice))
}

// everything is a client that also reads EndpointSlices.
func everything(t *testing.T) client.Client {
	t.Helper()
	must(t, v1alpha1.AddToScheme(scheme.Scheme))
	c, err := client.New(apiserver.Config(), client.Options{Scheme: scheme.Scheme})
	must(t, err)
	return c
}

func TestPsqlStartsInThePodOfTheInstanceThatIsMeant(t *testing.T) {
	_, cluster := newCluster(t, nil)
	c, namespace := everything(t), cluster.Namespace
	newPod(t, c, namespace, "shop", "shop-0", v1alpha1.RoleReplica, corev1.ConditionFalse)
	newPod(t, c, namespace, "shop", "shop-1", v1alpha1.RolePrimary, corev1.ConditionTrue)
	newPod(t, c, namespace, "shop", "shop-2", v1alpha1.RoleReplica, corev1.ConditionTrue)
	newPod(t, c, namespace, "other", "other-0", v1alpha1.RolePrimary, corev1.ConditionTrue)
	leads(t, c, namespace, "shop-1", true)
	for want, request := range map[string]psql.Request{
		"--namespace " + namespace + " exec --stdin shop-1 --container postgres -- psql app -c SELECT 1":                      {},
		"--namespace " + namespace + " exec --stdin --tty shop-2 --container postgres -- psql app -c SELECT 1":                {Replica: true, Terminal: true},
		"--context production --namespace " + namespace + " exec --stdin shop-0 --container postgres -- psql app -c SELECT 1": {Instance: "shop-0", Kubectl: []string{"--context", "production"}},
		"error: PostgresCluster shop has no pod other-0; its pods are [shop-0 shop-1 shop-2]":                                 {Instance: "other-0"},
		"error: --instance and --replica can't be combined":                                                                   {Instance: "shop-0", Replica: true},
	} {
		command, err := request.Command(t.Context(), c, client.ObjectKeyFromObject(cluster), []string{"app", "-c", "SELECT 1"})
		got := strings.Join(command, " ")
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != want {
			t.Errorf("%+v:\n%s\nwant\n%s", request, got, want)
		}
	}
}

func TestPsqlTypesIntoNoPodWhileThereIsNoPrimary(t *testing.T) {
	_, cluster := newCluster(t, nil)
	c := everything(t)
	cluster.Status.Primary = "shop-0" // what the db-controller knew last
	must(t, c.Status().Update(t.Context(), cluster))
	newPod(t, c, cluster.Namespace, "shop", "shop-0", v1alpha1.RolePrimary, corev1.ConditionTrue)
	for what, arrange := range map[string]func(){"no slice": func() {}, "not ready": func() { leads(t, c, cluster.Namespace, "shop-0", false) }} {
		arrange()
		command, err := psql.Request{}.Command(t.Context(), c, client.ObjectKeyFromObject(cluster), nil)
		if err == nil || !strings.Contains(err.Error(), "no primary") {
			t.Errorf("%s: %v, %v", what, command, err)
		}
	}
	if _, err := (psql.Request{Replica: true}).Command(t.Context(), c, client.ObjectKeyFromObject(cluster), nil); err == nil || !strings.Contains(err.Error(), "no replica") {
		t.Errorf("%v", err)
	}
}

func TestKubectlIsToldWhereTheClusterIs(t *testing.T) {
	access := newAccess()
	if flags := access.kubectl(); len(flags) != 0 {
		t.Errorf("%v", flags)
	}
	access.rules.ExplicitPath, access.overrides.CurrentContext = "/tmp/config", "production"
	if flags := access.kubectl(); !slices.Equal(flags, []string{"--kubeconfig", "/tmp/config", "--context", "production"}) {
		t.Errorf("%v", flags)
	}
}
