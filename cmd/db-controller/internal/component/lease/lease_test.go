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
