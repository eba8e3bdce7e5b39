package reading

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/howdah/cmd/db-controller/internal/availability"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/refusals"
	"howdah.dev/howdah/pkg/workload"
)

// missing pods, of which the API server is asked.
type missing struct {
	live   client.Reader
	memory *refusals.Memory
}

// read why pods are missing, if any are: a namespace may refuse them, by a quota or a policy.
func (m missing) read(ctx context.Context, o *observed.Cluster) error {
	jobs := podless(o)
	var owners []types.UID
	for _, job := range jobs {
		owners = append(owners, job.UID)
	}
	if lacksPods(o) {
		owners = append(owners, o.StatefulSet().UID)
	}
	o.Refusals = m.memory.Look(ctx, m.live, client.ObjectKeyFromObject(o.Cluster), owners, o.Now)
	for _, job := range jobs {
		why := o.Refusals[job.UID].Of("")
		job.Refuse(why, availability.Remedy(o, why))
	}
	return nil
}

// podless are the Jobs of the cluster that run and have no pod.
func podless(o *observed.Cluster) (jobs []*workload.State) {
	for _, job := range []*workload.State{&o.InitJob, &o.ImageJob, &o.SourceRelease} {
		if job.Podless() {
			jobs = append(jobs, job)
		}
	}
	for i := range o.Volumes {
		if job := &o.Volumes[i].Inspection; job.Podless() {
			jobs = append(jobs, job)
		}
	}
	return jobs
}

// lacksPods says whether an instance has no pod that is to have one.
func lacksPods(o *observed.Cluster) bool {
	set := o.StatefulSet()
	if set == nil || !set.DeletionTimestamp.IsZero() {
		return false
	}
	for ordinal := range int(ptr.Deref(set.Spec.Replicas, 1)) {
		if o.Pod(ordinal) == nil {
			return true
		}
	}
	return false
}
