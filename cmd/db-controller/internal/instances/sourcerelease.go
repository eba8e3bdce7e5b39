package instances

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/apply"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/phrase"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/workload"
)

// TellImport writes what is wanted of an online import where its Job reports to: the answer to a report has it. What the Job had said when a
// request was taken back is shown from the answer, and not from a cache: if it follows then, it has not acted on the request, and won't.
func (s *Steps) TellImport(ctx context.Context, o *observed.Cluster) flow.Outcome {
	online := observed.OnlineImport(o)
	if online == nil || o.HasRun() || o.ImportReport == nil || !o.ImportReport.DeletionTimestamp.IsZero() {
		return flow.Next
	}
	wanted := agentapi.ImportWanted{Cutover: online.Cutover, Generation: o.Cluster.Generation}
	if online.MaxRetainedWAL != nil {
		wanted.MaxRetainedBytes = online.MaxRetainedWAL.Value()
	}
	return s.tell(ctx, o, agentapi.ImportWantedKey, wanted)
}

// tell writes what is wanted of a Job that lives long where it reports to.
func (s *Steps) tell(ctx context.Context, o *observed.Cluster, key string, wanted any) flow.Outcome {
	content, err := json.Marshal(wanted)
	if err != nil {
		return flow.Retry(err)
	}
	if o.ImportReport.Data[key] == string(content) {
		return flow.Next
	}
	told := o.ImportReport.DeepCopy()
	if told.Data == nil {
		told.Data = map[string]string{}
	}
	told.Data[key] = string(content)
	err = s.Client.Patch(ctx, told, client.MergeFrom(o.ImportReport), client.FieldOwner(apply.FieldManager))
	if apierrors.IsNotFound(err) {
		return flow.Next // it is created again with the Job
	}
	if err != nil {
		return flow.Retry(err)
	}
	o.ImportReport = told
	return flow.Next
}

// ReleaseSource has what an online import has created on its source dropped, before nobody knows of it any more: the slots retain WAL
// there. No init Job is left by then that could create it again. That it was done is recorded before the Job is deleted.
func (s *Steps) ReleaseSource(ctx context.Context, o *observed.Cluster) flow.Outcome {
	online := observed.OnlineImport(o)
	if online == nil || o.HasRun() || !begunOnSource(o) || sourceReleased(o) {
		return s.removeSourceRelease(ctx, o)
	}
	state, name := o.SourceRelease, o.Names.ImportReleaseJob()
	const giveUp = "If the source no longer exists, set spec.bootstrap.import.online.abandonSource: true."
	switch {
	case online.AbandonSource:
		return recordSourceReleased(o)
	case state.Lost(o.Now): // dropping may be repeated, so nobody waits until the pod on a lost node is known to have ended
		if err := workload.Abandon(ctx, s.Client, o.Cluster, name, state); err != nil {
			return flow.Retry(err)
		}
		return flow.Wait(v1alpha1.ReasonReleasingSource, "The node of the Job that releases the source doesn't respond, so the Job is being created again elsewhere.")
	case state.Deleting:
		return flow.Wait(v1alpha1.ReasonReleasingSource, "The Job that releases the source is being deleted, and will be created again.")
	case state.Complete || state.Done:
		return recordSourceReleased(o)
	case state.Failed && state.Ended():
		_, message := state.FailureReason()
		return flow.Wait(v1alpha1.ReasonReleasingSource, fmt.Sprintf("What the import has created on the source could not be dropped: %s Fix the cause and delete Job %s, which is then created again. %s",
			phrase.Sentence(message), name, giveUp))
	case !state.Exists:
		err := s.sourceRelease(o).Ensure(ctx, s.Client)
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return flow.Wait(v1alpha1.ReasonReleasingSource, "The namespace is being deleted, so no Job can drop what the import has created on the source. Drop the publications and replication slots there "+
				"whose names begin with "+agentapi.OnlineImportPrefix+", and set spec.bootstrap.import.online.abandonSource: true.")
		}
		if err != nil {
			return workload.NotEnsured(err)
		}
	}
	text := "Publications and replication slots of the import are being dropped on the source. "
	if trouble := state.Trouble(); trouble != "" {
		text += trouble + " "
	}
	return state.Await(v1alpha1.ReasonReleasingSource, text+giveUp)
}

// begunOnSource: the Job has recorded what it has found before it creates anything on the source, and ends if it can't record it.
func begunOnSource(o *observed.Cluster) bool {
	status := o.Cluster.Status.Import
	return o.ImportPreflight() != nil || status != nil && (status.SourceVersion != "" || status.Online != nil)
}

func sourceReleased(o *observed.Cluster) bool {
	status := o.Cluster.Status.Import
	return status != nil && status.Online != nil && status.Online.State == v1alpha1.OnlineImportReleased
}

func recordSourceReleased(o *observed.Cluster) flow.Outcome {
	status := &o.Cluster.Status
	if status.Import == nil {
		status.Import = &v1alpha1.ImportStatus{}
	}
	status.Import.Online = &v1alpha1.OnlineImportStatus{State: v1alpha1.OnlineImportReleased}
	return flow.Save(v1alpha1.ReasonReleasingSource, "Nothing of the import is left on the source, as far as is known.")
}

func (s *Steps) removeSourceRelease(ctx context.Context, o *observed.Cluster) flow.Outcome {
	if err := workload.Delete(ctx, s.Client, o.Cluster, o.Names.ImportReleaseJob(), o.SourceRelease); err != nil {
		return flow.Retry(err)
	}
	return flow.Next
}

// sourceRelease has no volume, and no access to the API server.
func (s *Steps) sourceRelease(o *observed.Cluster) workload.Job {
	task := agentapi.InitJob{Import: importTask(o)}
	task.Import.Online.Release = true
	resources := o.Cluster.Spec.Resources
	return workload.Job{
		Name: o.Names.ImportReleaseJob(), Owner: o.Cluster, Cluster: o.Cluster.Name, Component: workload.ComponentImportRelease,
		Image: o.Cluster.Status.Image, Agent: s.Agent, Args: []string{"init"}, Spec: task, Inline: true, ClusterSpec: &o.Cluster.Spec,
		Secrets: importSecrets(task.Import.Source), Replaceable: true,
		Resources: corev1.ResourceRequirements{Requests: resources.Requests, Limits: resources.Limits},
	}
}
