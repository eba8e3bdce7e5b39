package pruning

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/backup-controller/internal/ownership"
	"howdah.dev/howdah/pkg/backup/inventory"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/retention"
	"howdah.dev/howdah/pkg/objstore"
)

var now = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func TestPeriodsAreReadAndWhatCanNotBeReadRemovesNothing(t *testing.T) {
	for text, want := range map[v1alpha1.RetentionPeriod]time.Duration{
		"": 0, "36h": 36 * time.Hour, "7d": 7 * 24 * time.Hour, "12w": 12 * 7 * 24 * time.Hour,
	} {
		if got := period(text); got != want {
			t.Errorf("%q is %s", text, got)
		}
	}
	for _, text := range []v1alpha1.RetentionPeriod{"d", "7", "7m", "-1d", "99999w"} {
		if got := period(text); got < 100*365*24*time.Hour {
			t.Errorf("%q is %s", text, got)
		}
	}
}

func TestSinceWhenALineageIsKnownIsRemembered(t *testing.T) {
	repo := &v1alpha1.BackupRepository{}
	recorded := func(ago time.Duration) {
		repo.Status.Lineages = []v1alpha1.LineageStatus{{Name: "listed", FirstSeen: stamp(now.Add(-ago))}}
	}
	remembered := &memory{}
	look := func(at time.Time, want ...time.Duration) {
		t.Helper()
		r := &run{memory: remembered, repo: repo, now: at, facts: &facts{}}
		for i, name := range []string{"listed", "unlisted"}[:len(want)] {
			r.lineages = append(r.lineages, inventory.Lineage{Lineage: layout.Lineage{Lineage: name}})
			defer func() {
				if got := at.Sub(r.facts.seen[name]); got != want[i] {
					t.Errorf("%s is known for %s, and should be for %s", name, got, want[i])
				}
			}()
		}
		r.remember()
	}
	look(now, 0, 0)
	recorded(5 * time.Hour)
	look(now.Add(time.Hour), 6*time.Hour, time.Hour)
	repo.Status = v1alpha1.BackupRepositoryStatus{}
	look(now.Add(2*time.Hour), 7*time.Hour, 2*time.Hour)
	look(now.Add(3*time.Hour), 8*time.Hour)
	look(now.Add(4*time.Hour), 9*time.Hour, 0) // it was away meanwhile
	remembered = &memory{}
	look(now.Add(5*time.Hour), 0, 0)
	recorded(-99 * time.Hour)
	look(now.Add(6*time.Hour), time.Hour, time.Hour)
}

func TestALookThatFailsLeavesWhatIsKnownAndSaysWhy(t *testing.T) {
	repo := &v1alpha1.BackupRepository{ObjectMeta: metav1.ObjectMeta{UID: types.UID("r")}}
	last := int32(1)
	repo.Spec.Retention = &v1alpha1.RetentionSpec{KeepLast: &last}
	explain := func(err error) string { return err.Error() + "." }
	Result{Began: now, Backups: 3, wouldCount: 1, wouldRemove: []string{"a/b"}, removed: removed{backups: 1}}.Report(repo, explain)
	Result{Began: now.Add(time.Hour), Err: errors.New("it is away")}.Report(repo, explain)
	status := repo.Status
	if status.Backups != 3 || !status.LastInventoryTime.Time.Equal(now) || !strings.Contains(status.InventoryError, "it is away.") {
		t.Errorf("got %+v", status)
	}
	if r := status.Retention; r.RemovedBackups != 1 || !r.LastRun.Time.Equal(now) || len(r.WouldRemove) != 1 || !r.NextRun.Time.Equal(now.Add(time.Hour+Interval)) {
		t.Errorf("got %+v", r)
	}
	repo.Spec.Retention = nil
	if (Result{Began: now}).Report(repo, explain); repo.Status.Retention != nil || repo.Status.InventoryError != "" {
		t.Errorf("got %+v", repo.Status)
	}
}

func TestNothingIsRemovedWhileNobodyKnowsWhatIsNeeded(t *testing.T) {
	for _, test := range []struct {
		lineage inventory.Lineage
		want    string
	}{
		{inventory.Lineage{}, ""},
		{inventory.Lineage{Damaged: []string{"b1", "b2"}}, "backup b1 can't be read"},
		{inventory.Lineage{Unlinked: 3}, "00000003.history is missing"},
		{inventory.Lineage{Unreadable: "lineage.json is missing"}, "it can't be read: lineage.json is missing"},
	} {
		if got := unclear(&test.lineage); !strings.Contains(got, test.want) || (got == "") != (test.want == "") {
			t.Errorf("%+v: %q", test.lineage, got)
		}
	}
}

func TestWhatABucketKeepsIsSaid(t *testing.T) {
	for name, test := range map[string]struct {
		kept objstore.Kept
		want *v1alpha1.KeptStatus
	}{
		"nothing":  {objstore.Kept{}, nil},
		"versions": {objstore.Kept{Versions: true, Objects: 2, Bytes: 30}, &v1alpha1.KeptStatus{Objects: 2, Bytes: 30}},
		"a lock": {
			objstore.Kept{Versions: true, LockMode: "GOVERNANCE", LockFor: 365 * 24 * time.Hour}, &v1alpha1.KeptStatus{ObjectLock: "GOVERNANCE for 365 days"},
		},
	} {
		if got := describeKept(test.kept); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestADamagedBackupIsNoneWhateverIsDoneAboutIt: another verification has another reason, and may take hours or fail.
func TestADamagedBackupIsNoneWhateverIsDoneAboutIt(t *testing.T) {
	for _, test := range []struct {
		status  metav1.ConditionStatus
		reason  string
		damaged bool
	}{
		{metav1.ConditionFalse, v1alpha1.ReasonDataCorrupt, true},
		{metav1.ConditionFalse, v1alpha1.ReasonVerifying, true},
		{metav1.ConditionFalse, v1alpha1.ReasonJobFailed, true},
		{metav1.ConditionUnknown, v1alpha1.ReasonVerifying, false},
		{metav1.ConditionTrue, v1alpha1.ReasonVerifying, false},
	} {
		b := &v1alpha1.Backup{}
		b.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionVerified, Status: test.status, Reason: test.reason}}
		if damaged(b) != test.damaged {
			t.Errorf("%+v: %t", test, !test.damaged)
		}
	}
}

// TestABackupThatIsBeingDeletedKeepsNoOtherFromStaying: its deletion may wait for days, and it is not the last copy then.
func TestABackupThatIsBeingDeletedKeepsNoOtherFromStaying(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*v1alpha1.Backup)
		goes   bool
	}{
		"one that stays":                       {func(b *v1alpha1.Backup) { b.DeletionTimestamp = nil }, false},
		"one that is deleted with its data":    {func(b *v1alpha1.Backup) { b.Spec.DeletionPolicy = v1alpha1.BackupDelete }, true},
		"one that is deleted without its data": {func(b *v1alpha1.Backup) { b.Spec.DeletionPolicy = v1alpha1.BackupRetain }, false},
		"one that no rule keeps": {func(b *v1alpha1.Backup) {
			b.Spec.DeletionPolicy, b.Annotations = v1alpha1.BackupRetain, map[string]string{v1alpha1.AnnotationExpired: "minio"}
		}, true},
	} {
		object := v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: stamp(now)}}
		object.Status.Plan = &v1alpha1.BackupPlan{Repository: "minio", Lineage: "7-g1", ID: "newest"}
		test.change(&object)
		r := &run{repo: &v1alpha1.BackupRepository{}, facts: &facts{repo: "minio", backups: []v1alpha1.Backup{object}}}
		last := int32(1)
		r.repo.Spec.Retention = &v1alpha1.RetentionSpec{KeepLast: &last}
		l := inventory.Lineage{Lineage: layout.Lineage{Lineage: "7-g1"}, LastWritten: now}
		l.Backups = []inventory.Backup{
			{ID: "newest", Stopped: now, Timeline: 1, Stop: 0x5000000, First: 5}, {ID: "older", Stopped: now.Add(-48 * time.Hour), Timeline: 1, Stop: 0x3000000, First: 3},
		}
		plan := retention.Make(r.retained(&l, ownership.Living), policyOf(r.repo.Spec.Retention), now)
		if stays := !plan.Verdicts[1].Goes(); stays != test.goes {
			t.Errorf("%s: the older one stays: %t; %+v", name, stays, plan)
		}
	}
}
