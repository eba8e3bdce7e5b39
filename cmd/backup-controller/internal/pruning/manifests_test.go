package pruning

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/fault"
)

// A look that doesn't show a manifest is no evidence that there is none.
func TestTheInventoryFindsBackupsWhoseManifestsWereDeleted(t *testing.T) {
	b := newBucket(t, v1alpha1.RetentionSpec{})
	b.fill("7-g1", 4, 6, 8)
	for _, id := range []string{"b4", "b6", "b8", "never"} {
		object := b.object(id)
		object.UID = types.UID(id)
		meta.SetStatusCondition(&object.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionSucceeded, Status: metav1.ConditionTrue, Reason: "Completed"})
		b.must(b.api.Create(t.Context(), object))
	}
	elsewhere := b.object("elsewhere")
	elsewhere.UID, elsewhere.Status.Plan.Lineage = "elsewhere", "8-g1"
	meta.SetStatusCondition(&elsewhere.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionSucceeded, Status: metav1.ConditionTrue, Reason: "Completed"})
	b.must(b.api.Create(t.Context(), elsewhere))
	b.must(b.Delete(t.Context(), layout.ManifestKey("7-g1", "b6")))
	b.must(b.Put(t.Context(), layout.ManifestKey("7-g1", "b8"), []byte("garbage"), objstore.PutOptions{}))
	pruner := b.pruner()
	if _, looked := pruner.Manifest("r", "b6"); !looked.IsZero() {
		t.Error("it is known before a look")
	}
	b.must(pruner.Run(t.Context(), b.repo, "").Err)
	for id, want := range map[types.UID]bool{"b4": false, "b6": true, "b8": false, "never": true} {
		if missing, looked := pruner.Manifest("r", id); missing != want || !looked.Equal(now) {
			t.Errorf("%s: %t, %s", id, missing, looked)
		}
	}
	for _, id := range []types.UID{"another", "elsewhere"} {
		if _, looked := pruner.Manifest("r", id); !looked.IsZero() {
			t.Errorf("%s, which wasn't looked for, is known", id)
		}
	}
	failing := b.pruner()
	failing.Open = func(context.Context, client.Reader, *v1alpha1.BackupRepository) (objstore.Store, error) {
		return fault.New(b, fault.Plan{Before: func(call fault.Call) error {
			if call.Op == "stat" {
				return &objstore.Error{Op: call.Op, Key: call.Key, Kind: objstore.ErrDenied}
			}
			return nil
		}}), nil
	}
	if result := failing.Run(t.Context(), b.repo, ""); !errors.Is(result.Err, objstore.ErrDenied) {
		t.Errorf("the run ended with %v", result.Err)
	}
	if _, looked := failing.Manifest("r", "b6"); !looked.IsZero() {
		t.Error("what the store didn't say is known")
	}
}
