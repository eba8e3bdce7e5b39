//go:build integration

package boundaries

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/apiserver"
)

// database is a cluster of two, seen by the API server, with the rights that its instances have.
func database(namespace string) []client.Object {
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: ours()}
	}
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: meta(name), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "postgres", Image: "postgres:17"}}}}
	}
	other := pod("cart-0")
	other.Labels[v1alpha1.LabelCluster] = "cart"
	rights := func(group, resource string, names ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: names, Verbs: []string{"get", "patch", "update"}}
	}
	const account = "shop-instance"
	return []client.Object{
		pod("shop-0"), pod("shop-1"), other,
		&discoveryv1.EndpointSlice{ObjectMeta: meta("shop-rw"), AddressType: discoveryv1.AddressTypeIPv4},
		// More than they have: what roles leave open is what the policy is for.
		&rbacv1.Role{ObjectMeta: meta(account), Rules: []rbacv1.PolicyRule{rights("", "pods", "shop-0", "shop-1", "cart-0"), rights("discovery.k8s.io", "endpointslices", "shop-rw")}},
		&rbacv1.RoleBinding{
			ObjectMeta: meta(account), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: account, Namespace: namespace}},
		},
	}
}

// leads is a slice that leads to a pod.
func leads(namespace, pod string) func(*discoveryv1.EndpointSlice) {
	return func(slice *discoveryv1.EndpointSlice) {
		slice.Annotations = map[string]string{"howdah.dev/data-generation": "g1", "howdah.dev/shutdown": "{}"}
		slice.Endpoints = []discoveryv1.Endpoint{{
			Addresses: []string{"10.0.0.7"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)},
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: pod, UID: "u"},
		}}
		slice.Ports = []discoveryv1.EndpointPort{{Name: ptr.To("postgres"), Port: ptr.To[int32](5432)}}
	}
}

func TestAnInstanceWritesItsOwnRoleAndItselfAsThePrimary(t *testing.T) {
	apiserver.InstallBoundaries(t)
	admin := apiserver.Client(t)
	namespace := apiserver.Namespace(t, admin)
	for _, object := range database(namespace) {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	as := apiserver.ClientInPod(t, namespace, "shop-instance", "shop-0")
	patch := func(name, patch string) func() error {
		return func() error {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
			return client.NewDryRunClient(as).Patch(t.Context(), pod, client.RawPatch("application/strategic-merge-patch+json", []byte(patch)))
		}
	}
	slice := func(change func(*discoveryv1.EndpointSlice)) func() error {
		return func() error {
			found := &discoveryv1.EndpointSlice{}
			if err := admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "shop-rw"}, found); err != nil {
				t.Fatal(err)
			}
			change(found)
			return client.NewDryRunClient(as).Update(t.Context(), found)
		}
	}
	anImage := patch("shop-0", `{"spec":{"containers":[{"name":"postgres","image":"evil"}]}}`)
	awaitRefusal(t, anImage)
	for what, do := range map[string]func() error{
		"another image":              anImage,
		"another image of a sibling": patch("shop-1", `{"spec":{"containers":[{"name":"postgres","image":"evil"}]}}`),
		"the role of a sibling":      patch("shop-1", `{"metadata":{"labels":{"howdah.dev/role":"primary"}}}`),
		"a pod of another cluster":   patch("cart-0", `{"metadata":{"labels":{"howdah.dev/role":"primary"}}}`),
		"another label":              patch("shop-0", `{"metadata":{"labels":{"app":"theirs"}}}`),
		"the end of a label":         patch("shop-0", `{"metadata":{"labels":{"howdah.dev/cluster":null}}}`),
		"an annotation":              patch("shop-0", `{"metadata":{"annotations":{"a":"b"}}}`),
		"a finalizer":                patch("shop-0", `{"metadata":{"finalizers":["example.com/keep"]}}`),
		"clients to a sibling":       slice(leads(namespace, "shop-1")),
		"clients to another cluster": slice(leads(namespace, "cart-0")),
		"clients to nobody's address": slice(func(s *discoveryv1.EndpointSlice) {
			leads(namespace, "shop-0")(s)
			s.Endpoints[0].TargetRef = nil
		}),
		"the clients of another Service": slice(func(s *discoveryv1.EndpointSlice) {
			leads(namespace, "shop-0")(s)
			s.Labels[discoveryv1.LabelServiceName] = "theirs"
		}),
	} {
		t.Run(what, func(t *testing.T) { refused(t, do()) })
	}
	for what, do := range map[string]func() error{
		"its role":        patch("shop-0", `{"metadata":{"labels":{"howdah.dev/role":"primary","howdah.dev/delayed":"false"}}}`),
		"its own address": slice(leads(namespace, "shop-0")),
	} {
		if err := do(); err != nil {
			t.Errorf("%s is refused: %v", what, err)
		}
	}
}

// awaitRefusal waits until the API server has compiled the policy.
func awaitRefusal(t *testing.T, do func() error) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		err := do()
		if err != nil && strings.Contains(err.Error(), "ValidatingAdmissionPolicy") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the policy isn't enforced: %v", err)
		}
	}
}
