package workload

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/fakeapi"
)

func TestOnlyTheJobThatWasSeenIsDeleted(t *testing.T) {
	owner := &v1alpha1.Upgrade{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "up", UID: "u"}}
	jobWith := func(uid types.UID) *batchv1.Job {
		return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
			Namespace: "demo", Name: "up-upgrade", UID: uid,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, v1alpha1.GroupVersion.WithKind(v1alpha1.KindUpgrade))},
		}}
	}
	for name, there := range map[string]types.UID{"the one that was seen": "seen", "another one of that name by now": "other"} {
		t.Run(name, func(t *testing.T) {
			seen, err := Observe(t.Context(), fakeapi.New(jobWith("seen")), fakeapi.New(), owner, "up-upgrade")
			if err != nil {
				t.Fatal(err)
			}
			c := fakeapi.New(jobWith(there))
			if err := Delete(t.Context(), c, owner, "up-upgrade", seen); err != nil {
				t.Fatal(err)
			}
			err = c.Get(t.Context(), client.ObjectKeyFromObject(jobWith("")), &batchv1.Job{})
			if deleted := client.IgnoreNotFound(err) == nil && err != nil; deleted != (there == "seen") {
				t.Errorf("deleted: %t (%v)", deleted, err)
			}
		})
	}
}
