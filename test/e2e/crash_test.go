//go:build e2e

package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/place"
)

// TestDeletingControllersAtEachStepChangesNothingButTheTime deletes the pods of the owning controller and of the
// db-controller whenever a Backup, a Restore and an Upgrade say that they have come a step further.
func TestDeletingControllersAtEachStepChangesNothingButTheTime(t *testing.T) {
	onlyInFull(t, "test/integration/together and test/worlds end the controllers at each write")
	// Not parallel: other tests' patience is not what is tested here.
	b := newBed(t, "minio")
	shop := b.Cluster("shop", 15)
	b.SQL("shop", "CREATE TABLE t AS SELECT n, md5(n::text) FROM generate_series(1, 50000) AS n")
	want := b.SQL("shop", sum)

	backup := &v1alpha1.Backup{ObjectMeta: b.Meta("base"), Spec: v1alpha1.BackupSpec{Cluster: v1alpha1.LocalReference{Name: "shop"}}}
	b.underFire(backup, "backup-controller", "db-controller")

	restore := b.restoreOf("again", nil)
	restore.Spec.Source = v1alpha1.RestoreSource{Backup: &v1alpha1.LocalReference{Name: "base"}}
	b.underFire(restore, "restore-controller", "db-controller")
	if got := b.SQL("again", sum); got != want {
		t.Errorf("the restored table has %s, not %s", got, want)
	}

	upgrade := &v1alpha1.Upgrade{ObjectMeta: b.Meta("up"), Spec: v1alpha1.UpgradeSpec{Cluster: v1alpha1.LocalReference{Name: "shop"}, Version: 18}}
	b.underFire(upgrade, "upgrade-controller", "db-controller")
	b.AwaitTrue(shop, v1alpha1.ConditionReady)
	if got := b.SQL("shop", sum); got != want || shop.Status.MajorVersion != 18 {
		t.Errorf("the upgraded table has %s on %s, not %s on 18", got, shop.Status.Version, want)
	}
}

// underFire makes the object and deletes controllers' pods at each of its steps, until it has succeeded.
func (b *bed) underFire(object client.Object, controllers ...string) {
	b.Helper()
	b.Must(b.Create(b.Context(), object))
	last, kills := "", 0
	b.Await(object, "to succeed", func() bool {
		c := place.Condition(object, v1alpha1.ConditionSucceeded)
		if c == nil {
			return false
		}
		if c.Status == metav1.ConditionFalse {
			b.Fatalf("%s ended with %s: %s", object.GetName(), c.Reason, c.Message)
		}
		if step := c.Reason + " " + phase(object); step != last && c.Status != metav1.ConditionTrue {
			last, kills = step, kills+1
			for _, controller := range controllers {
				b.Must(b.DeleteAllOf(b.Context(), &corev1.Pod{}, client.InNamespace("howdah-system"),
					client.MatchingLabels{"app.kubernetes.io/name": controller}, client.GracePeriodSeconds(0)))
			}
			b.Logf("%s: %s: deleted the pods of %v", object.GetName(), step, controllers)
		}
		return c.Status == metav1.ConditionTrue
	})
	if kills < 2 {
		b.Errorf("%s went through %d steps only", object.GetName(), kills)
	}
}

func phase(object client.Object) string {
	var progress *v1alpha1.Progress
	switch o := object.(type) {
	case *v1alpha1.Backup:
		progress = o.Status.Progress
	case *v1alpha1.Restore:
		progress = o.Status.Progress
	case *v1alpha1.Upgrade:
		progress = o.Status.Progress
	}
	if progress == nil {
		return ""
	}
	return progress.Phase
}
