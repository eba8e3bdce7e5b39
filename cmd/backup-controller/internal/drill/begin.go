package drill

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/clustercopy"
	"howdah.dev/howdah/pkg/flow"
)

// begin records a drill before anything is made of it.
func (r *Reconciler) begin(_ context.Context, o *observed) flow.Outcome {
	spec, status := o.repo.Spec.Drill, o.repo.Status.Drill
	started := o.now.Truncate(time.Second)
	if last := status.Last; last != nil && !started.After(last.StartedAt.Time) {
		started = last.StartedAt.Add(time.Second) // names come from it
	}
	run := &v1alpha1.DrillRun{Name: runName(o.repo, started), StartedAt: metav1.Time{Time: started}}
	status.UnderWay, status.Token = run, spec.Token
	if spec.Target != v1alpha1.DrillRandomTime {
		return flow.Save(v1alpha1.ReasonRunning, "The drill begins.")
	}
	from, to, found := window(o.repo)
	if !found {
		o.end(v1alpha1.DrillFailed, v1alpha1.ReasonBackupNotFound, fmt.Sprintf(
			"Cluster %s can't be restored to any time: the repository has no backup of it with the WAL that the backup needs.", spec.Cluster.Name))
		return flow.Save(v1alpha1.ReasonBackupNotFound, run.Message)
	}
	at, found := pick(from, to, r.Random)
	if !found {
		return flow.Save(v1alpha1.ReasonRunning, "The drill begins. It restores to the end of the archive, because there is no earlier time to choose.")
	}
	run.TargetTime = at.UTC().Format("2006-01-02T15:04:05.000000Z07:00")
	return flow.Save(v1alpha1.ReasonRunning, "The drill begins. It restores to "+run.TargetTime+".")
}

// runName is the name of a drill's Restore and cluster. It belongs to no other drill.
func runName(repo *v1alpha1.BackupRepository, started time.Time) string {
	return clustercopy.Name(repo.Spec.Drill.Cluster.Name, "drill", repo.UID, started)
}

func jobName(run *v1alpha1.DrillRun) string { return run.Name + "-check" }

// window is what can be restored of the cluster, as of the last look into the bucket: the lineage that was written last
// counts.
func window(repo *v1alpha1.BackupRepository) (from, to time.Time, found bool) {
	cluster := repo.Namespace + "/" + repo.Spec.Drill.Cluster.Name
	for _, lineage := range repo.Status.Lineages {
		if lineage.Cluster == cluster && lineage.RecoverableFrom != nil && lineage.RecoverableTo != nil {
			return lineage.RecoverableFrom.Time, lineage.RecoverableTo.Time, true
		}
	}
	return time.Time{}, time.Time{}, false
}

// pick is a time between two, to the microsecond, if there is one.
func pick(from, to time.Time, random func(int64) int64) (time.Time, bool) {
	// A status has times by the second, cut off: a second later than that is surely not before the beginning.
	from = from.Add(time.Second)
	span := to.Sub(from).Microseconds()
	if span <= 0 {
		return time.Time{}, false
	}
	return from.Add(time.Duration(random(span+1)) * time.Microsecond), true
}
