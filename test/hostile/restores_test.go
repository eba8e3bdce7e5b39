package hostile

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/restore-controller/restorecontroller"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/test/testkit/fakeapi"
	"howdah.dev/howdah/test/testkit/hostiletest"
)

// slow answers to nothing. Its Restore waits for that for minutes, and no other one does.
const slow = "a-slow-answer"

// plannable are the places whose backup leads to a plan.
var plannable = []string{hostiletest.Peaceful}

func TestRestoresFromHostileStoresTakeLittleMemoryAndDelayNobodyElse(t *testing.T) {
	places, said := hostiletest.Places(t), map[string]string{}
	hostiletest.InChild(t, "TestChildOfRestores", places, &said)
	for name, about := range said {
		switch {
		case name == slow:
		case about == "":
			t.Errorf("%s: the Restore still looks", name)
		case strings.HasPrefix(about, "True") != slices.Contains(plannable, name), strings.Contains(about, "\n"), len(about) > 2<<10:
			t.Errorf("%s: %s", name, about)
		}
	}
	if len(said) != len(places) {
		t.Errorf("%d of %d places", len(said), len(places))
	}
}

type silent struct{}

func (silent) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}

// TestChildOfRestores is a restore-controller in a process of its own, which plans one Restore from each place.
func TestChildOfRestores(t *testing.T) {
	places := hostiletest.GivenPlaces(t)
	api := fakeapi.New(restores(places)...)
	open := func(ctx context.Context, _ client.Reader, repo *v1alpha1.BackupRepository) (objstore.Store, error) {
		return hostiletest.OpenPlace(ctx, places[repo.Namespace])
	}
	dependencies := manager.Dependencies{Client: api, Live: api, Events: silent{}, Now: time.Now, Images: map[int32]string{17: "postgres:17"}}
	controller := restorecontroller.New(t.Context(), dependencies, open, func(client.Object) {})
	said, tick := map[string]string{}, time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for end, left := time.Now().Add(time.Minute), 1; left > 0 && time.Now().Before(end); <-tick.C {
		left = 0
		for name := range places {
			key := types.NamespacedName{Namespace: name, Name: "back"}
			_, _ = controller.Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
			restore := &v1alpha1.Restore{}
			must(t, api.Get(t.Context(), key, restore))
			said[name] = ""
			if c := meta.FindStatusCondition(restore.Status.Conditions, v1alpha1.ConditionSucceeded); c != nil && c.Reason != v1alpha1.ReasonPlanning && c.Reason != v1alpha1.ReasonPlanned {
				said[name] = string(c.Status) + " " + c.Reason + ": " + c.Message
			} else if name != slow {
				left++
			}
		}
	}
	hostiletest.Say(t, said)
}

// restores are a BackupRepository and a Restore for each place.
func restores(places map[string]string) (objects []client.Object) {
	objects = []client.Object{&v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Name: "x"}}}
	for _, name := range slices.Sorted(maps.Keys(places)) {
		repo := &v1alpha1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "minio", UID: types.UID(name + "-minio")}}
		repo.Spec.S3.Bucket = name
		meta.SetStatusCondition(&repo.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAvailable})
		restore := &v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "back", UID: types.UID(name + "-back")}}
		restore.Spec = v1alpha1.RestoreSpec{
			Source: v1alpha1.RestoreSource{Repository: &v1alpha1.RepositorySource{Name: "minio"}}, Mode: v1alpha1.RestorePlanOnly,
			Destination: v1alpha1.RestoreDestination{NewCluster: &v1alpha1.NewCluster{Name: "shop", Storage: &v1alpha1.NewStorage{Size: "1Gi"}}},
		}
		objects = append(objects, repo, restore)
	}
	return objects
}
