package hostilestores

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/backup-controller/internal/backup"
	"howdah.dev/howdah/cmd/backup-controller/internal/deletionlock"
	"howdah.dev/howdah/cmd/backup-controller/internal/pruning"
	"howdah.dev/howdah/cmd/backup-controller/internal/queue"
	"howdah.dev/howdah/cmd/backup-controller/internal/repository"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/repostore"
	"howdah.dev/howdah/test/testkit/fakeapi"
	"howdah.dev/howdah/test/testkit/hostiletest"
	"howdah.dev/howdah/test/testkit/subset"
)

// said is what the controllers say about one place.
type said struct {
	// Ready is that of the BackupRepository, Inventory when it was looked through or why not.
	Ready, Inventory string
	// Found is of a Backup that names what is in the bucket, and Deleted of one that is being deleted.
	Found, Deleted string
}

// over says that nothing is under way any more.
func (s said) over() bool {
	return s.Ready != "" && s.Found != "" && s.Deleted != "" && (s.Inventory != "" || !strings.HasPrefix(s.Ready, "True"))
}

// taken are the places whose backup can be read: what means harm there is not in its header.
var taken = []string{
	hostiletest.Peaceful, "a-claim-of-packs", "a-claim-of-noise", "a-history-that-expands", "a-segment-of-another-name", "a-segment-that-expands",
}

// slow answers to nothing. Its namespace waits for that for minutes, and nobody else does.
const slow = "a-slow-answer"

func TestHostileStoresTakeLittleMemoryAndDelayNobodyElse(t *testing.T) {
	subset.OneIn(t, 3)
	if raceDetector {
		t.Skip("what a controller's memory is can only be measured without the detector")
	}
	places, all := hostiletest.Places(t), map[string]said{}
	hostiletest.InChild(t, "TestChildOfHostileStores", places, &all)
	for name, about := range all {
		switch {
		case name == slow:
			continue
		case !about.over():
			t.Errorf("%s: not everything has ended: %+v", name, about)
		case name == hostiletest.Peaceful:
			if !strings.HasPrefix(about.Ready, "True") || about.Inventory != "looked through: 1 backups" || !strings.HasPrefix(about.Found, "True") || about.Deleted != "gone" {
				t.Errorf("what means no harm: %+v", about)
			}
		case strings.HasPrefix(places[name], "http") && strings.HasPrefix(about.Ready, "True"):
			t.Errorf("%s: a server that is no object store is believed: %+v", name, about)
		case strings.HasPrefix(about.Found, "True") != slices.Contains(taken, name), strings.Contains(name, "claim") && about.Deleted == "gone":
			t.Errorf("%s: %+v", name, about)
		}
		if text := about.Ready + about.Inventory + about.Found + about.Deleted; strings.Contains(text, "\n") || len(text) > 4<<10 {
			t.Errorf("%s: status has lines, or far more than sentences: %q", name, text)
		}
	}
	if len(all) != len(places) {
		t.Errorf("%d of %d places", len(all), len(places))
	}
}

// TestChildOfHostileStores is a backup-controller in a process of its own.
func TestChildOfHostileStores(t *testing.T) {
	l := newLab(t, hostiletest.GivenPlaces(t))
	all, tick := map[string]said{}, time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for end, left := time.Now().Add(time.Minute), 1; left > 0 && time.Now().Before(end); <-tick.C {
		left = 0
		for name := range l.places {
			if all[name].over() {
				continue
			}
			if all[name] = l.pass(name); name != slow && !all[name].over() {
				left++
			}
		}
	}
	hostiletest.Say(t, all)
}

// lab has a namespace for each place.
type lab struct {
	*testing.T
	places       map[string]string
	api          client.Client
	repositories *repository.Reconciler
	backups      *backup.Reconciler
}

type silent struct{}

func (silent) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}

func newLab(t *testing.T, places map[string]string) *lab {
	last, objects := int32(1), []client.Object{&v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Name: "x"}}}
	for _, name := range slices.Sorted(maps.Keys(places)) {
		at := func(object string) metav1.ObjectMeta {
			return metav1.ObjectMeta{Namespace: name, Name: object, UID: types.UID(name + object)}
		}
		repo := &v1alpha1.BackupRepository{ObjectMeta: at("minio")}
		repo.Spec.S3.Bucket = name
		repo.Spec.Retention = &v1alpha1.RetentionSpec{KeepLast: &last, NoticePeriod: &metav1.Duration{}}
		found, deleted := &v1alpha1.Backup{ObjectMeta: at("found")}, &v1alpha1.Backup{ObjectMeta: at("deleted")}
		found.Spec.Found = &v1alpha1.FoundBackup{Repository: "minio", Lineage: hostiletest.Lineage, ID: hostiletest.ID}
		deleted.Spec.DeletionPolicy, deleted.Finalizers, deleted.DeletionTimestamp = v1alpha1.BackupDelete, []string{"howdah.dev/backup-data"}, &metav1.Time{Time: time.Now()}
		deleted.Status.Plan = &v1alpha1.BackupPlan{ID: "another", Repository: "minio", Lineage: hostiletest.Lineage, ClusterUID: "u"}
		deleted.Status.CompletedAt = &metav1.Time{Time: time.Now()}
		meta.SetStatusCondition(&deleted.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionSucceeded, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonCompleted})
		objects = append(objects, repo, found, deleted, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	api := fakeapi.New(objects...)
	l := newLabOf(t, api, api, func(ctx context.Context, _ client.Reader, repo *v1alpha1.BackupRepository) (objstore.Store, error) {
		return hostiletest.OpenPlace(ctx, places[repo.Namespace])
	})
	l.places = places
	return l
}

// newLabOf has the reconcilers with an API server, as they read it with and without a cache.
func newLabOf(t *testing.T, api, live client.Client, open repostore.Opener) *lab {
	l := &lab{T: t, api: api}
	dependencies := manager.Dependencies{Client: api, Live: live, Events: silent{}, Now: time.Now}
	locks := &deletionlock.Locks{}
	l.repositories = repository.New(t.Context(), dependencies, open, &pruning.Pruner{Dependencies: dependencies, Open: open, Deletions: locks})
	l.backups = backup.New(t.Context(), dependencies, open, locks, queue.New(queue.Limits{All: 1}, time.Now))
	return l
}

// pass reconciles all of a namespace once, and says what is there then.
func (l *lab) pass(name string) (about said) {
	key := func(object string) ctrl.Request {
		return ctrl.Request{NamespacedName: types.NamespacedName{Namespace: name, Name: object}}
	}
	repo, found, deleted := &v1alpha1.BackupRepository{}, &v1alpha1.Backup{}, &v1alpha1.Backup{}
	_, _ = l.repositories.Reconcile(l.Context(), key("minio"))
	if err := l.api.Get(l.Context(), key("minio").NamespacedName, repo); err != nil {
		l.Fatal(err)
	}
	about.Ready = text(repo.Status.Conditions, v1alpha1.ConditionReady)
	if about.Inventory = repo.Status.InventoryError; about.Inventory == "" && repo.Status.LastInventoryTime != nil {
		about.Inventory = "looked through: " + count(repo)
	}
	for object, into := range map[string]struct {
		*v1alpha1.Backup
		say *string
	}{"found": {found, &about.Found}, "deleted": {deleted, &about.Deleted}} {
		_, _ = l.backups.Reconcile(l.Context(), key(object))
		if l.api.Get(l.Context(), key(object).NamespacedName, into.Backup) != nil {
			*into.say = "gone"
		} else {
			*into.say = text(into.Status.Conditions, v1alpha1.ConditionSucceeded)
		}
	}
	return about
}

// text is what a condition says in the end; empty: it is not known yet.
func text(conditions []metav1.Condition, kind string) string {
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil || slices.Contains([]string{v1alpha1.ReasonRunning, v1alpha1.ReasonDeleting, v1alpha1.ReasonChecking}, c.Reason) || c.Message == "" {
		return ""
	}
	return string(c.Status) + " " + c.Reason + ": " + c.Message
}

func count(repo *v1alpha1.BackupRepository) string {
	backups := 0
	for _, lineage := range repo.Status.Lineages {
		backups += int(lineage.Backups)
	}
	return fmt.Sprint(backups, " backups")
}
