package backup

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/test/testkit/fakeapi"
)

// TestAFoundBackupIsNotDeletedBeforeItIsKnownThatNobodyWritesItsLineage: a lineage of which the status says nothing may have been written a
// moment ago.
func TestAFoundBackupIsNotDeletedBeforeItIsKnownThatNobodyWritesItsLineage(t *testing.T) {
	const days = 24 * time.Hour
	listed := func(name string, ago time.Duration) v1alpha1.LineageStatus {
		return v1alpha1.LineageStatus{Name: name, LastWritten: &metav1.Time{Time: noon.Add(-ago)}}
	}
	var full []v1alpha1.LineageStatus
	for i := range 50 {
		full = append(full, listed(fmt.Sprintf("8-g%d", i), 0))
	}
	for name, test := range map[string]struct {
		written   time.Duration // ago, as the bucket says
		lineages  []v1alpha1.LineageStatus
		inventory time.Duration // ago; 0: never
		unclaimed bool
		otherwise string // why it isn't deleted
	}{
		"as the status says, silent for long":          {9 * days, []v1alpha1.LineageStatus{listed("7-g1", 9*days)}, time.Minute, false, ""},
		"as the status says, written today":            {time.Hour, []v1alpha1.LineageStatus{listed("7-g1", time.Hour)}, time.Minute, false, "may still write"},
		"not in the status, silent for long":           {9 * days, full, time.Minute, false, ""},
		"not in the status, written a minute ago":      {time.Minute, full, time.Minute, false, "may still write"},
		"written since an inventory of two days ago":   {time.Minute, []v1alpha1.LineageStatus{listed("7-g1", 9*days)}, 2 * days, false, "may still write"},
		"written a minute ago, and no inventory yet":   {time.Minute, nil, 0, false, "may still write"},
		"nobody knows whose it is":                     {9 * days, nil, time.Minute, true, "lineages/7-g1/lineage.json is missing"},
		"an inventory of the future counts for little": {time.Minute, []v1alpha1.LineageStatus{listed("7-g1", 9*days)}, -2 * days, false, "may still write"},
	} {
		t.Run(name, func(t *testing.T) {
			clock := noon.Add(-30 * days)
			store := mem.NewAt(func() time.Time { return clock })
			claim := layout.Lineage{Lineage: "7-g1", Writer: layout.Writer{UID: "u", Namespace: "demo", Name: "lost"}, SegmentSize: 1 << 20, Created: clock}
			if _, err := layout.Claim(t.Context(), store, claim); err != nil {
				t.Fatal(err)
			}
			clock = noon.Add(-test.written)
			err := store.Put(t.Context(), layout.TimelinePrefix("7-g1", 1)+"000000010000000000000001", []byte("x"), objstore.PutOptions{})
			if err == nil && test.unclaimed {
				err = store.Delete(t.Context(), layout.LineageKey("7-g1"))
			}
			if err != nil {
				t.Fatal(err)
			}
			repo := &v1alpha1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "minio"}}
			repo.Status.Lineages = test.lineages
			if test.inventory != 0 {
				repo.Status.LastInventoryTime = &metav1.Time{Time: noon.Add(-test.inventory)}
			}
			b := newBackup("found", planned)
			b.Spec.Found = &v1alpha1.FoundBackup{Repository: "minio", Lineage: "7-g1", ID: "x"}
			r := &Reconciler{Dependencies: manager.Dependencies{Live: fakeapi.New(repo), Now: func() time.Time { return noon }}}
			err = r.requireOurs(t.Context(), store, &observed{backup: b, planned: repo})
			var foreign *foreignError
			switch {
			case test.otherwise == "" && err != nil:
				t.Errorf("it is not deleted: %v", err)
			case test.otherwise != "" && (!errors.As(err, &foreign) || !strings.Contains(foreign.why, test.otherwise)):
				t.Errorf("got %v", err)
			}
		})
	}
}
