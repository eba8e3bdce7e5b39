//go:build integration

package restore

import (
	"context"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/objstore/sealed"
	"howdah.dev/howdah/test/testkit/buckettest"
)

// TestWhatIsWrongInTheBucketIsNamedAndNothingIsTouched, wherever the data was to go.
func TestWhatIsWrongInTheBucketIsNamedAndNothingIsTouched(t *testing.T) {
	const ended, waits = metav1.ConditionFalse, metav1.ConditionUnknown
	manifest := layout.ManifestKey(buckettest.Lineage, "b")
	segment := func(number string) string {
		return layout.TimelinePrefix(buckettest.Lineage, 1) + "0000000100000000000000" + number
	}
	for name, test := range map[string]struct {
		harm   func(*lab)
		status metav1.ConditionStatus
		reason string
		parts  []string
	}{
		"a manifest that is cut off":     {func(l *lab) { l.cutOff(manifest, 2) }, ended, v1alpha1.ReasonDataCorrupt, []string{manifest}},
		"a manifest that is empty":       {func(l *lab) { l.cutOff(manifest, 0) }, ended, v1alpha1.ReasonDataCorrupt, []string{manifest}},
		"a lineage of a later format":    {func(l *lab) { l.makeLater(layout.LineageKey(buckettest.Lineage)) }, ended, v1alpha1.ReasonInvalidSpec, []string{"lineage.json", "it has format 9"}},
		"a manifest that is gone":        {func(l *lab) { l.remove(manifest) }, ended, v1alpha1.ReasonBackupNotFound, []string{"no backup b"}},
		"a lineage that is cut off":      {func(l *lab) { l.cutOff(layout.LineageKey(buckettest.Lineage), 2) }, ended, v1alpha1.ReasonInvalidSpec, []string{"lineage.json"}},
		"a hole in the WAL":              {func(l *lab) { l.remove(segment("05")) }, ended, v1alpha1.ReasonTargetUnreachable, []string{"000000010000000000000005 is missing", "restore a later backup"}},
		"no WAL of the backup":           {func(l *lab) { l.remove(segment("03")) }, ended, v1alpha1.ReasonTargetUnreachable, []string{"000000010000000000000003 is missing", "Restore another backup"}},
		"a last segment that is cut off": {func(l *lab) { l.cutOff(segment("06"), 10) }, ended, v1alpha1.ReasonDataCorrupt, []string{segment("06")}},
		"a key that is another":          {func(l *lab) { l.seal("k1", "02") }, waits, v1alpha1.ReasonWrongKey, []string{"k1", "BackupRepository repo"}},
		"a key that is not there":        {func(l *lab) { l.seal("k2", "02") }, waits, v1alpha1.ReasonKeyNotFound, []string{"k1", "BackupRepository repo"}},
	} {
		for _, inPlace := range []bool{false, true} {
			t.Run(name+map[bool]string{false: ", new", true: ", in place"}[inPlace], func(t *testing.T) {
				l := newLab(t)
				test.harm(l)
				shop, ask := l.running(), l.restore
				if inPlace {
					ask = l.inPlace
				}
				restore := ask(nil)
				message := l.await(restore, test.status, test.reason)
				for _, part := range test.parts {
					if !strings.Contains(message, part) {
						t.Errorf("it doesn't say %q: %s", part, message)
					}
				}
				if restore.Status.Plan != nil || restore.Status.VolumeLockRequest != nil || l.there(l.cluster("copy")) || l.there(&batchv1.Job{ObjectMeta: l.meta("r-restore")}) {
					t.Errorf("something is touched: %+v", restore.Status)
				}
				l.expectShop(string(shop.UID), "g0", "")
			})
		}
	}
}

// makeLater writes an object as a later version would.
func (l *lab) makeLater(key string) {
	l.Helper()
	l.put(key, []byte(strings.Replace(string(l.read(key)), `"format": 2`, `"format": 9`, 1)))
}

func (l *lab) read(key string) []byte {
	l.Helper()
	whole, err := l.store.Get(context.Background(), key, 1<<20)
	if err != nil {
		l.Fatal(err)
	}
	return whole
}

// put replaces an object, where a real writer would not.
func (l *lab) put(key string, content []byte) {
	l.Helper()
	l.remove(key)
	if err := l.store.Put(context.Background(), key, content, objstore.PutOptions{}); err != nil {
		l.Fatal(err)
	}
}

func (l *lab) remove(key string) {
	l.Helper()
	if err := l.store.Delete(context.Background(), key); err != nil {
		l.Fatal(err)
	}
}

// cutOff leaves the first bytes of an object.
func (l *lab) cutOff(key string, size int) {
	l.Helper()
	l.put(key, l.read(key)[:size])
}

// seal makes a bucket that is encrypted with k1, and opens it with another key.
func (l *lab) seal(name, key string) {
	inner := mem.New()
	buckettest.Fill(l.T, l.sealed(inner, "k1", "01"), 4, 5, 6)
	l.store = l.sealed(inner, name, key)
}

func (l *lab) sealed(inner objstore.Store, name, key string) objstore.Store {
	l.Helper()
	keys, err := sealed.ParseKeys(map[string][]byte{name: []byte(strings.Repeat(key, 32))}, "")
	if err != nil {
		l.Fatal(err)
	}
	return sealed.New(inner, sealed.Fixed(keys), sealed.Options{})
}

// TestAClusterThatIsDeletedMeanwhileEndsItsRestore, and lets the cluster go: one that is being made, one whose volumes the
// Restore has, and one that waits for its safety backup.
func TestAClusterThatIsDeletedMeanwhileEndsItsRestore(t *testing.T) {
	for name, test := range map[string]struct {
		inPlace bool
		change  func(*v1alpha1.RestoreSpec)
		at      string
	}{
		"one that is being made":               {false, nil, v1alpha1.ReasonRunning},
		"one that is restored in place":        {true, nil, v1alpha1.ReasonRunning},
		"one that waits for its safety backup": {true, func(s *v1alpha1.RestoreSpec) { s.Destination.InPlace.SafetyBackup = true }, v1alpha1.ReasonAwaitingBackup},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			var restore *v1alpha1.Restore
			cluster := l.cluster("copy")
			if test.inPlace {
				cluster, restore = l.running(), l.inPlace(test.change)
			} else {
				restore = l.restore(nil)
			}
			l.await(restore, metav1.ConditionUnknown, test.at)
			l.goes(cluster)
			if !test.inPlace { // it waits until nothing is left
				l.await(restore, metav1.ConditionUnknown, v1alpha1.ReasonDeleting)
				l.there(cluster)
				l.letGo(cluster)
			}
			message := l.await(restore, metav1.ConditionFalse, v1alpha1.ReasonClusterReplaced)
			if !strings.Contains(message, "PostgresCluster "+cluster.Name+" was deleted before it ran on the new data.") {
				t.Error(message)
			}
			if s := restore.Status; s.VolumeLockRequest != nil || s.Handover != nil || s.BackupRequest != nil || l.there(&batchv1.Job{ObjectMeta: l.meta("r-restore")}) {
				t.Errorf("something is left: %+v", s)
			}
		})
	}
}

// goes deletes a cluster that its db-controller does not let go at once.
func (l *lab) goes(cluster *v1alpha1.PostgresCluster) {
	l.Helper()
	ctx := context.Background()
	if !l.there(cluster) {
		l.Fatalf("there is no %s", cluster.Name)
	}
	before := cluster.DeepCopy()
	controllerutil.AddFinalizer(cluster, "howdah.dev/test")
	if err := l.Patch(ctx, cluster, client.MergeFrom(before)); err != nil {
		l.Fatal(err)
	}
	if err := l.Delete(ctx, cluster); err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() {
		if l.there(cluster) {
			l.letGo(cluster)
		}
	})
}

func (l *lab) letGo(cluster *v1alpha1.PostgresCluster) {
	l.Helper()
	before := cluster.DeepCopy()
	cluster.Finalizers = nil
	if err := l.Patch(context.Background(), cluster, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		l.Fatal(err)
	}
}
