//go:build integration

package cluster

import (
	"fmt"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/howdah/test/testkit/apiserver"
)

// The agent of a holder creates its Lease by server-side apply without force, which the API server allows for that name alone, and refuses
// where anybody else has written another value.
func TestAPodMayCreateItsLeaseAndOverwritesNobodysElse(t *testing.T) {
	l := newLab(t)
	shop := l.shop(three)
	l.awaitReplicated(shop)
	l.stop() // nobody else creates one
	config := apiserver.Config()
	config.Impersonate.UserName = fmt.Sprintf("system:serviceaccount:%s:shop-instance", l.ns)
	pod, err := client.New(config, client.Options{Scheme: l.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	apply := func(name, manager, holder string) error {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: name}}
		text := fmt.Sprintf(`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":%q,"namespace":%q},"spec":{"holderIdentity":%q}}`, name, l.ns, holder)
		return pod.Patch(t.Context(), lease, client.RawPatch(types.ApplyPatchType, []byte(text)), client.FieldOwner(manager))
	}
	lease := &coordinationv1.Lease{}
	if l.there(lease, "shop"); l.Delete(t.Context(), lease) != nil {
		t.Fatal("the Lease can't be deleted")
	}
	if err := apply("other", "howdah-agent-0", "shop-0"); !apierrors.IsForbidden(err) {
		t.Errorf("another Lease is created: %v", err)
	}
	if err := apply("shop", "howdah-agent-0", "shop-0"); err != nil {
		t.Errorf("it is not created: %v", err)
	}
	if err := apply("shop", "howdah-agent-1", "shop-1"); !apierrors.IsConflict(err) {
		t.Errorf("another agent writes over it: %v", err)
	}
	if !l.there(lease, "shop") {
		t.Fatal("there is no Lease")
	}
	merge := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"holderIdentity":"shop-2"}}`))
	if err := pod.Patch(t.Context(), lease, merge, client.FieldOwner("howdah-agent")); err != nil {
		t.Fatal(err)
	}
	if err := apply("shop", "howdah-agent-0", "shop-0"); !apierrors.IsConflict(err) {
		t.Errorf("a creation that is late writes over what came after it: %v", err)
	}
}
