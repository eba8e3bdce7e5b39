package restore

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/restore-controller/internal/planning"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/pitr"
	"howdah.dev/howdah/test/testkit/buckettest"
)

func TestARestoreEndsOnlyAtWhatWillBeNoOtherNextTime(t *testing.T) {
	for name, test := range map[string]struct {
		err    error
		kind   flow.Kind
		reason string
	}{
		"there is no such backup":     {planning.ErrNotThere, flow.KindStop, v1alpha1.ReasonBackupNotFound},
		"two lineages have the name":  {planning.ErrAmbiguous, flow.KindStop, v1alpha1.ReasonInvalidSpec},
		"its lineages are too many":   {fmt.Errorf("look: %w", backup.ErrTooLarge), flow.KindStop, v1alpha1.ReasonInvalidSpec},
		"a later version has written": {backup.ErrFormat, flow.KindStop, v1alpha1.ReasonInvalidSpec},
		"the store is away":           {&objstore.Error{Kind: objstore.ErrUnavailable, Err: errors.New("away")}, flow.KindWait, v1alpha1.ReasonRepositoryNotReady},
	} {
		if got := unreadable("repo", test.err); got.Kind != test.kind || got.Reason != test.reason {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestAPlanNamesTheDamagedPagesBeforeAnythingIsDone.
func TestAPlanNamesTheDamagedPagesBeforeAnythingIsDone(t *testing.T) {
	store := buckettest.WithDamagedPages(t, 4, 5, 6)
	report, err := planning.Read(t.Context(), store, planning.Question{Lineage: buckettest.Lineage, BackupID: "b"}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	header, err := backup.ReadHeader(t.Context(), store, buckettest.Lineage, "b")
	if err != nil {
		t.Fatal(err)
	}
	o := seen(func(o *observed) {
		o.repository = &v1alpha1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Name: "repo"}}
	})
	r := &Reconciler{Dependencies: manager.Dependencies{Images: manager.Images{17: "postgres:17"}}}
	outcome := r.pin(o, header, pitr.Decide(report.Candidates, pitr.Target{}, pitr.Facts{Now: time.Now(), Read: report.At, Asked: time.Now()}))
	plan := o.restore.Status.Plan
	if outcome.Reason != v1alpha1.ReasonPlanned || !strings.Contains(outcome.Message, " 2 pages of the backup, such as block 1 of base/5/16385, failed their checksum") {
		t.Errorf("it says %+v", outcome)
	}
	if plan == nil || plan.DamagedPages != 2 || len(plan.Damaged) != 2 || plan.Damaged[1] != (v1alpha1.DamagedPage{File: "base/5/16385", Block: 2}) {
		t.Errorf("the plan is %+v", plan)
	}
}
