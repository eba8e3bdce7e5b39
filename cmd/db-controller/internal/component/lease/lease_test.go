package lease

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestTheLastHolderOutlivesItsHold(t *testing.T) {
	for name, c := range map[string]struct {
		holder   *string
		election string
		want     string
	}{
		"nobody yet":            {nil, "", ""},
		"somebody holds it":     {ptr.To("shop-1"), `{"generation":"g1","lastHolder":"shop-1"}`, "shop-1"},
		"it was given up":       {ptr.To(""), `{"generation":"g1","lastHolder":"shop-1"}`, "shop-1"},
		"it is of other data":   {ptr.To("shop-1"), `{"generation":"g0","lastHolder":"shop-1"}`, ""},
		"it can't be read":      {ptr.To("shop-1"), `{`, ""},
		"it knows of no holder": {nil, `{"generation":"g1"}`, ""},
	} {
		lease := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: c.holder}}
		lease.ObjectMeta = metav1.ObjectMeta{Annotations: map[string]string{AnnotationElection: c.election}}
		if got := LastHolder(lease, "g1"); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
	if LastHolder(nil, "g1") != "" {
		t.Error("without a Lease")
	}
}

func TestALeaseThatTheAgentsHeldTellsWhoWasPrimaryOrIsDamaged(t *testing.T) {
	for name, c := range map[string]struct {
		spec    coordinationv1.LeaseSpec
		text    string
		damaged bool
	}{
		"nobody has held it":   {coordinationv1.LeaseSpec{}, "", false},
		"it tells":             {coordinationv1.LeaseSpec{LeaseTransitions: ptr.To[int32](3)}, `{"generation":"g1","lastHolder":"shop-1"}`, false},
		"it is of other data":  {coordinationv1.LeaseSpec{}, `{"generation":"g0","lastHolder":"shop-1"}`, false},
		"it can't be parsed":   {coordinationv1.LeaseSpec{}, `{"generation":`, true},
		"it is another type":   {coordinationv1.LeaseSpec{}, `{"lastHolder":7}`, true},
		"it was taken off":     {coordinationv1.LeaseSpec{LeaseTransitions: ptr.To[int32](3)}, "", true},
		"it is held all alone": {coordinationv1.LeaseSpec{HolderIdentity: ptr.To("shop-0")}, "", true},
	} {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "shop", Annotations: map[string]string{AnnotationElection: c.text}}, Spec: c.spec}
		if got := Damaged(lease); (got != "") != c.damaged {
			t.Errorf("%s: %q", name, got)
		}
	}
	if Damaged(nil) != "" {
		t.Error("without a Lease")
	}
}
