package pruning

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/backup/inventory"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/retention"
	"howdah.dev/howdah/pkg/objstore"
)

// Result is what a run has found and done.
type Result struct {
	Began time.Time
	Mark  string
	// Err says why it did not come to its end.
	Err     error
	Backups int32
	Stored  int64
	// Lineages are those for which the status has room, of all.
	Lineages, all []v1alpha1.LineageStatus
	Catalogue     string
	Kept          *v1alpha1.KeptStatus

	policy      string
	since       time.Time // when the policy was first seen
	wouldRemove []string
	wouldCount  int
	wouldWAL    int64
	waits       []string // sentences about what stays for now
	removed     removed
	losing      []string // lineages that nobody here writes and that lose something
	// awaited are the lineages that a Restore looks for in status.
	awaited map[string]bool
	// read says since when readers of whom only the bucket tells keep everything in a lineage.
	read map[string]time.Time
	// unreadable says of lineages what in them was found damaged when something was to be removed.
	unreadable map[string]string
	// Again: status has something now that the next run waits for.
	Again bool
}

// removed counts.
type removed struct {
	backups, wal, orphans int
	bytes                 int64
	// directly: something went without a Backup object.
	directly bool
}

func (r removed) any() bool { return r.backups+r.wal+r.orphans > 0 }

func (r removed) String() string {
	return fmt.Sprintf("Removed %d backups, %d WAL files and the remains of %d interrupted backups. That frees %d MiB at once.", r.backups, r.wal, r.orphans, r.bytes>>20)
}

const (
	maxLineages    = 50
	maxWouldRemove = 50
	maxDamaged     = 10
	maxWaits       = 3
)

// going notes what a plan removes.
func (r *Result) going(l *inventory.Lineage, plan retention.Plan) {
	r.wouldWAL += l.WALGoing(plan)
	for _, b := range plan.Going() {
		r.wouldCount++
		if len(r.wouldRemove) < maxWouldRemove {
			r.wouldRemove = append(r.wouldRemove, l.Lineage.Lineage+"/"+b.ID)
		}
	}
}

// damaged notes what in a lineage can't be read.
func (r *Result) damaged(lineage string, err error) {
	if r.unreadable == nil {
		r.unreadable = map[string]string{}
	}
	r.unreadable[lineage] = inventory.Shorten(err.Error())
}

// describeKept says what the bucket keeps.
func describeKept(kept objstore.Kept) *v1alpha1.KeptStatus {
	if !kept.Versions {
		return nil
	}
	status := &v1alpha1.KeptStatus{Objects: kept.Objects, Bytes: kept.Bytes}
	if kept.LockMode != "" {
		status.ObjectLock = fmt.Sprintf("%s for %d days", kept.LockMode, int(kept.LockFor.Hours()/24))
	}
	return status
}

// firstSecond is the first whole second in a window, which status can say. In a window that has none, it is the one before.
func firstSecond(w inventory.Window) *metav1.Time {
	if next := w.From.Truncate(time.Second).Add(time.Second); w.From.Nanosecond() > 0 && !next.After(w.To) {
		return stamp(next)
	}
	return stamp(w.From)
}

// stamp is a time as it stands in a status, to the second. One that a status can't have, from a bucket that says what it wants, is none.
func stamp(t time.Time) *metav1.Time {
	if t.IsZero() || layout.CheckTime(t) != nil {
		return nil
	}
	return &metav1.Time{Time: t.UTC().Truncate(time.Second)}
}

// Report writes the result into the status.
func (r Result) Report(repo *v1alpha1.BackupRepository, explain func(error) string) {
	status := &repo.Status
	if r.Err != nil {
		status.InventoryError = "The controller tries again. The last inventory ended with: " + explain(r.Err)
	} else {
		status.InventoryError = ""
		status.LastInventoryTime = stamp(r.Began)
		status.Backups, status.StoredBytes, status.Lineages, status.Catalogue = r.Backups, r.Stored, r.Lineages, r.Catalogue
		status.Kept = r.Kept
	}
	if repo.Spec.Retention == nil {
		status.Retention = nil
		return
	}
	if status.Retention == nil {
		status.Retention = &v1alpha1.RetentionStatus{}
	}
	r.reportRetention(status.Retention)
}

// message says why something stays for now. Each lineage can have its own reason, and there may be many lineages.
func (r Result) message() string {
	message := strings.Join(r.waits[:min(maxWaits, len(r.waits))], " ")
	if more := len(r.waits) - maxWaits; more > 0 {
		message += fmt.Sprintf(" And %d more.", more)
	}
	return message
}

func (r Result) reportRetention(status *v1alpha1.RetentionStatus) {
	status.NextRun = stamp(r.Began.Add(Interval))
	status.Message = r.message()
	if r.Err == nil {
		status.Policy, status.PolicySince = r.policy, stamp(r.since)
		status.LastRun = stamp(r.Began)
		status.WouldRemove, status.WouldRemoveCount, status.WouldRemoveWAL = r.wouldRemove, int32(r.wouldCount), r.wouldWAL
	}
	if r.removed.any() {
		status.LastRemoval = stamp(r.Began)
		status.RemovedBackups, status.RemovedWAL, status.RemovedBytes = int32(r.removed.backups), int32(r.removed.wal), r.removed.bytes
	}
}
