package verify

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
)

// inventory says of all manifests that they are missing, or not.
func inventory(missing bool, hour int) func(_, _ types.UID) (bool, time.Time) {
	return func(_, _ types.UID) (bool, time.Time) { return missing, noon.Add(time.Duration(hour) * time.Hour) }
}

// passed is a Backup after one pass.
func passed(t *testing.T, r *Reconciler, b *v1alpha1.Backup, hour int) *metav1.Condition {
	t.Helper()
	o := &observed{backup: b, now: noon.Add(time.Duration(hour) * time.Hour), repo: &v1alpha1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Name: "minio", UID: "r"}}}
	o.news = r.news(o.repo, b)
	report(o, flow.Run(t.Context(), o, r.plan(o)...))
	return meta.FindStatusCondition(b.Status.Conditions, v1alpha1.ConditionVerified)
}

func TestABackupWhoseManifestWasDeletedSaysSo(t *testing.T) {
	for name, b := range map[string]*v1alpha1.Backup{"never verified": newBackup("a"), "verified before": newBackup("a", verified(1, 0, nil)), "damaged before": newBackup("a", verified(1, 2, nil))} {
		said := passed(t, &Reconciler{Manifest: inventory(true, 2)}, b, 3)
		if said == nil || said.Status != metav1.ConditionFalse || said.Reason != v1alpha1.ReasonManifestMissing ||
			!strings.HasPrefix(said.Message, "lineages/7-g1/backups/id/manifest.zst was deleted from BackupRepository minio") {
			t.Errorf("%s: %+v", name, said)
		}
		before := said.DeepCopy()
		if said = passed(t, &Reconciler{Manifest: inventory(true, 4)}, b, 5); *said != *before || !b.Status.VerifiedAt.Time.Equal(hours(3).Time) {
			t.Errorf("%s: at the next look %+v", name, said)
		}
		if got := count("minio", []v1alpha1.Backup{*b}); got.worst != "Backup a is damaged: lineages/7-g1/backups/id/manifest.zst: it is missing" {
			t.Errorf("%s: the repository says %q", name, got.worst)
		}
		said = passed(t, &Reconciler{Manifest: inventory(false, 6)}, b, 7)
		if said.Status != metav1.ConditionUnknown || said.Reason != v1alpha1.ReasonNotVerifiedYet {
			t.Errorf("%s: once it is there again %+v", name, said)
		}
	}
}

func TestAnInventoryFromBeforeAVerificationIsNoNews(t *testing.T) {
	for name, c := range map[string]struct {
		b       *v1alpha1.Backup
		missing bool
		hour    int
	}{
		"verified since":                {newBackup("a", verified(2, 0, nil)), true, 2},
		"being verified":                {newBackup("a", running), true, 5},
		"none":                          {newBackup("a"), true, 0},
		"there":                         {newBackup("a", verified(1, 0, nil)), false, 2},
		"there, and others are missing": {newBackup("a", verified(1, 1, nil)), false, 2},
	} {
		missing, looked := inventory(c.missing, c.hour)("", "")
		if name == "none" {
			looked = time.Time{}
		}
		if got := manifestNews(c.b, missing, looked); got != manifestKnown {
			t.Errorf("%s: %d", name, got)
		}
	}
}
