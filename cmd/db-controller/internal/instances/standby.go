package instances

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/pace"
	"howdah.dev/howdah/cmd/db-controller/internal/report"
	"howdah.dev/howdah/cmd/db-controller/internal/restartwindow"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/repostore/location"
	"howdah.dev/howdah/pkg/workload"
)

// StandbySourceMissing says why the archive that a standby is to follow can't be read by a pod; empty: nothing is known to be missing.
func StandbySourceMissing(o *observed.Cluster) (reason, message string) {
	if !observed.StandsBy(o) {
		return "", ""
	}
	name := o.Cluster.Spec.Standby.Source.Repository.Name
	switch {
	case o.StandbyRepository == nil:
		return v1alpha1.ReasonRepositoryNotFound, fmt.Sprintf("BackupRepository %s, which spec.standby.source.repository names, does not exist in namespace %s. Create it; it may be read-only.", name, o.Cluster.Namespace)
	case o.StandbyMissing != "":
		return v1alpha1.ReasonSecretNotFound, fmt.Sprintf("Secret %s of BackupRepository %s does not exist in namespace %s. Create it.", o.StandbyMissing, name, o.Cluster.Namespace)
	}
	return "", ""
}

// DecidePromotion records that a standby is to be promoted, before its Job is told. A recorded promotion stays, whatever spec says later.
func DecidePromotion(_ context.Context, o *observed.Cluster) flow.Outcome {
	if !observed.StandsBy(o) || o.Initialized() {
		return flow.Next
	}
	wanted, status := o.Cluster.Spec.Standby.Promote, standbyStatus(o)
	if !later(status.Promotion, wanted) {
		return flow.Next
	}
	status.Promotion = &v1alpha1.StandbyPromotionRequest{Mode: wanted, RequestedAt: metav1.NewTime(o.Now.Truncate(time.Second)), Generation: o.Cluster.Generation}
	return flow.Save(v1alpha1.ReasonPromoting, "The promotion is recorded. It can't be undone.")
}

// later says whether a request goes beyond what is recorded.
func later(recorded *v1alpha1.StandbyPromotionRequest, wanted v1alpha1.StandbyPromotion) bool {
	switch {
	case wanted == "":
		return false
	case recorded == nil:
		return true
	}
	return recorded.Mode == v1alpha1.PromoteAtEndOfArchive && wanted == v1alpha1.PromoteImmediately
}

func standbyStatus(o *observed.Cluster) *v1alpha1.StandbyStatus {
	if o.Cluster.Status.Standby == nil {
		o.Cluster.Status.Standby = &v1alpha1.StandbyStatus{}
	}
	return o.Cluster.Status.Standby
}

// TellStandby writes the recorded promotion where the Job reports to: the answer to a report has it.
func (s *Steps) TellStandby(ctx context.Context, o *observed.Cluster) flow.Outcome {
	if !observed.StandsBy(o) {
		return flow.Next
	}
	if o.ImportReport == nil {
		return s.restoreReport(ctx, o)
	}
	if !o.ImportReport.DeletionTimestamp.IsZero() {
		return flow.Next
	}
	return s.tell(ctx, o, agentapi.StandbyWantedKey, standbyWanted(o))
}

// standbyWanted is what the Job is told while it runs.
func standbyWanted(o *observed.Cluster) agentapi.StandbyWanted {
	wanted := agentapi.StandbyWanted{Cluster: string(o.Cluster.Identity())}
	if status := o.Cluster.Status.Standby; status != nil && status.Promotion != nil {
		wanted.Promote = agentapi.StandbyPromotion(status.Promotion.Mode)
	}
	if o.Cluster.Spec.Standby.Reinit == v1alpha1.StandbyReinitFromNewerBackup {
		wanted.Reinit = agentapi.StandbyReinitFromNewer
	}
	return wanted
}

// restoreReport creates what a Job reports to again, if somebody has deleted that: a promotion would never reach it.
func (s *Steps) restoreReport(ctx context.Context, o *observed.Cluster) flow.Outcome {
	if !o.InitJob.Exists || o.InitJob.Deleting || o.Initialized() || lacksSource(o) {
		return flow.Next
	}
	if err := s.initJob(o).Ensure(ctx, s.Client); err != nil {
		return workload.NotEnsured(err)
	}
	return flow.Next
}

// standbyTask is what the init Job is told.
func standbyTask(o *observed.Cluster) *agentapi.StandbyJob {
	task := &agentapi.StandbyJob{
		Object:           agentapi.Object{Kind: agentapi.KindConfigMap, Resource: "configmaps", Namespace: o.Cluster.Namespace, Name: o.Names.InitJob()},
		Cluster:          string(o.Cluster.Identity()),
		Repository:       location.PodConfig(o.StandbyRepository),
		Lineage:          o.Cluster.Spec.Standby.Source.Repository.Lineage,
		PreloadLibraries: string(o.Cluster.Spec.PostgreSQL.Parameters["shared_preload_libraries"]),
		MemoryLimit:      bufferLimit,
	}
	task.Repository.ReadOnly = true
	for i := range o.Cluster.Spec.ReplicationSlots {
		if slot := &o.Cluster.Spec.ReplicationSlots[i]; slot.Ensure != v1alpha1.Absent {
			task.LostSlots = append(task.LostSlots, slot.Name)
		}
	}
	return task
}

// bufferLimit is what the Job may take for its buffers while it restores, in bytes.
const bufferLimit = 96 << 20

// toldOtherwise says whether a Job that follows was told something else than it would be now, such as where the repository is. What it has done
// is on the volume, so another one continues.
func toldOtherwise(o *observed.Cluster, job *batchv1.Job, wanted workload.Job) bool {
	if !observed.StandsBy(o) {
		return false
	}
	content, err := json.Marshal(wanted.Spec)
	return err == nil && !bytes.Equal(content, workload.InlineSpec(job))
}

// standbyOutdated says whether the Job of a standby is to be replaced because it has the agent of another version of the suite. It serves nobody,
// and continues where it has ended; but a backup that is being restored would begin again, and nobody ends a promotion for that.
func (s *Steps) standbyOutdated(o *observed.Cluster) bool {
	job, ok := o.Live[observed.Key("Job", o.Names.InitJob())].(*batchv1.Job)
	if !ok || !observed.StandsBy(o) || !o.InitJob.Exists || o.InitJob.Ended() || o.InitJob.Done || lacksSource(o) || !restartwindow.Open(o) {
		return false
	}
	said, status := observed.StandbyReport(o), o.Cluster.Status.Standby
	if said == nil || said.Stage != agentapi.StandbyFollowing || status != nil && status.Promotion != nil {
		return false
	}
	makesCopy := said.Reinit != nil && said.Reinit.Stage != agentapi.StandbyReinitPlanned
	return !makesCopy && !s.initJob(o).HasAgent(job)
}

// standingBy is the outcome of a pass over a standby.
func standingBy(o *observed.Cluster) flow.Outcome {
	if reason, message := StandbySourceMissing(o); reason != "" && !o.InitJob.Exists {
		return flow.Poll(pace.UnknownInterval, reason, message)
	}
	report.Standby(o) // with what the Job has said since
	return flow.Wait(report.StandbyState(o))
}

// RecordPromotion writes down that the promotion is complete, before PostgreSQL is started on the data for anybody. That the data is whole is what
// counts, and not what status says: that may be of an earlier time. A database that was taken over may have run before.
func RecordPromotion(_ context.Context, o *observed.Cluster) flow.Outcome {
	if o.Cluster.Spec.Standby == nil || !o.Initialized() || standbyStatus(o).PromotedAt != nil {
		return flow.Next
	}
	report.Standby(o)
	status, at := standbyStatus(o), metav1.NewTime(o.Now.Truncate(time.Second))
	status.PromotedAt, status.Progress, status.Problems, status.Reinit, status.Stage, status.LagBytes = &at, nil, nil, nil, "", 0
	return flow.Save(v1alpha1.ReasonPromoting, "The promotion is complete, and PostgreSQL is being started.")
}

// lacksSource: no Job can be created for a standby.
func lacksSource(o *observed.Cluster) bool {
	reason, _ := StandbySourceMissing(o)
	return reason != ""
}
