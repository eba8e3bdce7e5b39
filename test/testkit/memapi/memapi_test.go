package memapi_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/test/testkit/memapi"
)

func newServer() *memapi.Server { return memapi.New(manager.Scheme(), time.Now) }

func upgrade(t *testing.T, c client.Client) *v1alpha1.Upgrade {
	t.Helper()
	u := &v1alpha1.Upgrade{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "up"}, Spec: v1alpha1.UpgradeSpec{Version: 18}}
	must(t, c.Create(t.Context(), u))
	return u
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestWhoHasSeenAnOlderVersionWritesNothing(t *testing.T) {
	c := newServer().Client(nil, nil)
	first := upgrade(t, c)
	second := first.DeepCopy()
	first.Spec.Cancel = true
	must(t, c.Update(t.Context(), first))
	if first.Generation != 2 {
		t.Errorf("generation %d", first.Generation)
	}
	second.Spec.Version = 17
	if err := c.Update(t.Context(), second); !apierrors.IsConflict(err) {
		t.Errorf("update: %v", err)
	}
	before := second.DeepCopy()
	second.Status.SafetyBackup = "b"
	if err := c.Status().Patch(t.Context(), second, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); !apierrors.IsConflict(err) {
		t.Errorf("patch: %v", err)
	}
}

func TestTheStatusIsWrittenApartFromTheRest(t *testing.T) {
	c := newServer().Client(nil, nil)
	u := upgrade(t, c)
	u.Spec.Cancel, u.Status.SafetyBackup = true, "b"
	must(t, c.Status().Update(t.Context(), u))
	if u.Spec.Cancel || u.Status.SafetyBackup != "b" || u.Generation != 1 {
		t.Errorf("%+v, %+v, generation %d", u.Spec, u.Status, u.Generation)
	}
	u.Spec.Cancel, u.Status.SafetyBackup = true, ""
	must(t, c.Update(t.Context(), u))
	if !u.Spec.Cancel || u.Status.SafetyBackup != "b" || u.Generation != 2 {
		t.Errorf("%+v, %+v, generation %d", u.Spec, u.Status, u.Generation)
	}
}

func TestADeletionWaitsForFinalizersAndKeepsToItsPreconditions(t *testing.T) {
	c := newServer().Client(nil, nil)
	u := upgrade(t, c)
	controllerutil.AddFinalizer(u, "example.com/x")
	must(t, c.Update(t.Context(), u))
	if err := c.Delete(t.Context(), u, client.Preconditions{UID: ptr.To[types.UID]("other")}); !apierrors.IsConflict(err) {
		t.Errorf("delete another: %v", err)
	}
	must(t, c.Delete(t.Context(), u))
	must(t, c.Get(t.Context(), client.ObjectKeyFromObject(u), u))
	if u.DeletionTimestamp == nil {
		t.Error("it is not being deleted")
	}
	before := u.DeepCopy()
	u.Finalizers = nil
	must(t, c.Patch(t.Context(), u, client.MergeFrom(before)))
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(u), u); !apierrors.IsNotFound(err) {
		t.Errorf("after the last finalizer: %v", err)
	}
}

// configMap as a manager applies it.
func configMap(data map[string]any, version string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "demo", "name": "c"}, "data": data,
	}}
	u.SetResourceVersion(version)
	return u
}

func TestWhatIsAppliedNoMoreIsRemovedAndWhatOthersWroteStays(t *testing.T) {
	c := newServer().Client(nil, nil)
	apply := func(u *unstructured.Unstructured) error {
		return c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("m"), client.ForceOwnership)
	}
	must(t, apply(configMap(map[string]any{"a": "1", "b": "2"}, "1")))
	if err := apply(configMap(map[string]any{"a": "3"}, "1")); !apierrors.IsAlreadyExists(err) {
		t.Errorf("create what exists: %v", err)
	}
	stored := &corev1.ConfigMap{}
	must(t, c.Get(t.Context(), client.ObjectKey{Namespace: "demo", Name: "c"}, stored))
	stored.Data["x"] = "theirs"
	must(t, c.Update(t.Context(), stored))
	if err := apply(configMap(map[string]any{"a": "3"}, "2")); !apierrors.IsConflict(err) {
		t.Errorf("of an older version: %v", err)
	}
	applied := configMap(map[string]any{"a": "3"}, stored.ResourceVersion)
	must(t, apply(applied))
	must(t, c.Get(t.Context(), client.ObjectKey{Namespace: "demo", Name: "c"}, stored))
	if len(stored.Data) != 2 || stored.Data["a"] != "3" || stored.Data["x"] != "theirs" || applied.GetUID() != stored.UID {
		t.Errorf("%v, %s", stored.Data, applied.GetUID())
	}
}

func TestDependentsGoWithTheirOwner(t *testing.T) {
	server := newServer()
	c := server.Client(nil, nil)
	u := upgrade(t, c)
	owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "c"}}
	must(t, controllerutil.SetControllerReference(u, owned, c.Scheme()))
	must(t, c.Create(t.Context(), owned))
	if server.CollectGarbage() {
		t.Error("something was collected beside its owner")
	}
	must(t, c.Delete(t.Context(), u, client.PropagationPolicy(metav1.DeletePropagationForeground)))
	must(t, c.Get(t.Context(), client.ObjectKeyFromObject(u), u)) // until its dependents are deleted
	for server.CollectGarbage() {
	}
	if left := server.All(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestACacheShowsOlderObjectsUntilItCatchesUp(t *testing.T) {
	server := newServer()
	direct := server.Client(nil, nil)
	cache := server.NewCache()
	cached := server.Client(cache, nil)
	u := upgrade(t, direct)
	name := client.ObjectKeyFromObject(u)
	if err := cached.Get(t.Context(), name, u); !apierrors.IsNotFound(err) || !cache.Lags() {
		t.Errorf("before: %v", err)
	}
	if changes := cache.CatchUp(); len(changes) != 1 || cached.Get(t.Context(), name, u) != nil {
		t.Errorf("%v", changes)
	}
	must(t, direct.Delete(t.Context(), u))
	for random := rand.New(rand.NewPCG(1, 1)); cache.Lags(); {
		cache.Advance(random)
	}
	list := &v1alpha1.UpgradeList{}
	must(t, cached.List(t.Context(), list))
	if len(list.Items) != 0 {
		t.Errorf("%v", list.Items)
	}
}

func TestAProcessMayDieBeforeOrAfterItsWrite(t *testing.T) {
	server := newServer()
	dead := errors.New("dead")
	dying := server.Client(nil, func(call memapi.Call, do func() error) error {
		if call.String() == "create Upgrade up" {
			_ = do()
		}
		return dead
	})
	u := &v1alpha1.Upgrade{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "up"}}
	if err := dying.Create(context.Background(), u); !errors.Is(err, dead) || len(server.All()) != 1 {
		t.Errorf("%v, %v", err, server.All())
	}
}

func TestARestoredServerHasWhatItHadUnderVersionsThatNobodyHasSeen(t *testing.T) {
	server := newServer()
	c := server.Client(nil, nil)
	u := upgrade(t, c)
	cache := server.NewCache()
	backup := server.Backup()
	u.Spec.Cancel = true
	must(t, c.Update(t.Context(), u))
	later := &v1alpha1.Upgrade{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "later"}}
	must(t, c.Create(t.Context(), later))
	stays := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "stays"}}
	must(t, c.Create(t.Context(), stays))

	server.Restore(backup, func(object client.Object) bool { return object.GetName() == "stays" })
	seen := &v1alpha1.Upgrade{}
	cache.CatchUp()
	for _, reader := range []client.Client{c, server.Client(cache, nil)} {
		must(t, reader.Get(t.Context(), client.ObjectKeyFromObject(u), seen))
		if seen.Spec.Cancel || seen.ResourceVersion == u.ResourceVersion {
			t.Errorf("it has %+v, version %s", seen.Spec, seen.ResourceVersion)
		}
		if err := reader.Get(t.Context(), client.ObjectKeyFromObject(later), seen); !apierrors.IsNotFound(err) {
			t.Errorf("what was created later: %v", err)
		}
		must(t, reader.Get(t.Context(), client.ObjectKeyFromObject(stays), stays))
	}
	u.Spec.Version = 17
	if err := c.Update(t.Context(), u); !apierrors.IsConflict(err) {
		t.Errorf("update of what was there before: %v", err)
	}
}
