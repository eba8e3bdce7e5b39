package instances

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/availability"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/phrase"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/repostore/location"
	"howdah.dev/howdah/pkg/workload"
)

// Initialize brings the first data onto the volume: by the init Job, or by waiting for a Restore.
func (s *Steps) Initialize(ctx context.Context, o *observed.Cluster) flow.Outcome {
	if o.Initialized() {
		return flow.Next
	}
	if o.BootstrapsByRestore() {
		return Initializing(o)
	}
	state := o.InitJob
	if lost := sourceLost(o); lost != "" && !copying(o) {
		return s.stopClone(ctx, o, lost)
	}
	switch {
	case state.Deleting:
		return flow.Wait(v1alpha1.ReasonInitializing, "The init Job is being deleted, and will be created again.")
	case s.initJobOutdated(o):
		// A Job can't be changed. What it has half written counts for nothing, and is written anew.
		if err := workload.Delete(ctx, s.Client, o.Cluster, o.Names.InitJob(), state); err != nil {
			return flow.Retry(err)
		}
		return flow.Wait(v1alpha1.ReasonInitializing, "The init Job is being created again, as spec has changed.")
	case s.standbyOutdated(o):
		if err := workload.Delete(ctx, s.Client, o.Cluster, o.Names.InitJob(), state); err != nil {
			return flow.Retry(err)
		}
		return flow.Wait(v1alpha1.ReasonFollowingArchive, "The init Job is being created again, with the agent of this version of Howdah. It continues where it has ended.")
	case !state.Exists && lacksSource(o):
		return standingBy(o)
	case !state.Exists:
		if err := s.initJob(o).Ensure(ctx, s.Client); err != nil {
			return workload.NotEnsured(err)
		}
		o.Own.Remember(observed.Key("Job", o.Names.InitJob()), o.Cluster) // that it was created is all that counts
		return Initializing(o)
	case state.Failed && state.Ended():
		_, message := state.FailureReason()
		return flow.Stop(v1alpha1.ReasonInitFailed, fmt.Sprintf("Job %s has failed: %s Fix the cause and delete the Job, which is then created again.%s",
			o.Names.InitJob(), phrase.Sentence(message), retaining(o)))
	case state.PodRefused():
		return state.Await(v1alpha1.ReasonPodRefused, state.Message+retaining(o))
	case len(o.Workers) > 0:
		if reason, message := availability.Trouble(o, 0, &o.Workers[0]); reason != "" { // the init Job works on the volume of the first
			return flow.Wait(reason, message+retaining(o))
		}
	}
	return Initializing(o)
}

// Initializing is the outcome of a pass that has begun to bring the first data onto the volume.
func Initializing(o *observed.Cluster) flow.Outcome {
	if o.BootstrapsByRestore() {
		return flow.Wait(v1alpha1.ReasonAwaitingRestore, awaitedRestore(o))
	}
	if o.Imports() {
		if reason, message := following(o); reason != "" {
			return flow.Wait(reason, message)
		}
		return o.InitJob.Await(v1alpha1.ReasonImporting, importing(o))
	}
	if observed.Clones(o) {
		return o.InitJob.Await(v1alpha1.ReasonCopyingCluster, cloning(o))
	}
	if observed.StandsBy(o) {
		return standingBy(o)
	}
	return o.InitJob.Await(v1alpha1.ReasonInitializing, cmp.Or(o.InitJob.Trouble(), "The init Job creates the database."))
}

// initJobOutdated: spec was changed since the Job was created in what its pod depends on, mostly because it could not run.
func (s *Steps) initJobOutdated(o *observed.Cluster) bool {
	job, ok := o.Live[observed.Key("Job", o.Names.InitJob())].(*batchv1.Job)
	if !ok || !o.InitJob.Exists || o.InitJob.Complete {
		return false
	}
	if lacksSource(o) {
		return false // it isn't known what it would be told
	}
	wanted := s.initJob(o)
	return !wanted.Fits(job) || toldOtherwise(o, job, wanted)
}

func (s *Steps) initJob(o *observed.Cluster) workload.Job {
	resources := o.Cluster.Spec.Resources
	task := agentapi.InitJob{
		DataGeneration: o.Cluster.Status.DataGeneration, MajorVersion: int(o.Cluster.Status.MajorVersion),
		Initdb: initdb(o.Cluster.Spec.Bootstrap), SQL: postInitSQL(o.Cluster.Spec.Bootstrap),
	}
	if len(task.SQL) > 0 {
		task.Database, task.Owner = o.Cluster.Spec.Bootstrap.Initdb.Database, o.Cluster.Spec.Bootstrap.Initdb.Owner
	}
	job := workload.Job{
		Name: o.Names.InitJob(), Owner: o.Cluster, Cluster: o.Cluster.Name, Component: workload.ComponentInit,
		Image: o.Cluster.Status.Image, Agent: s.Agent, Args: []string{"init"},
		Spec:        task,
		SQL:         task.SQL,
		Inline:      true,
		ClusterSpec: &o.Cluster.Spec,
		DataClaim:   o.Names.Volume(0),
		Resources:   corev1.ResourceRequirements{Requests: resources.Requests, Limits: resources.Limits},
	}
	if o.Imports() {
		task.Import = importTask(o)
		job.Spec, job.Progress, job.Secrets = task, &task.Import.Object, importSecrets(task.Import.Source)
	}
	if observed.Clones(o) {
		task.Clone = cloneTask(o)
		job.Spec, job.Progress, job.Secrets = task, &task.Clone.Object, cloneSecrets(task.Clone)
	}
	if observed.StandsBy(o) {
		task.Standby = standbyTask(o)
		job.Spec, job.Progress, job.Enduring = task, &task.Standby.Object, true
		job.S3Secret, job.KeysSecret = location.SecretName(o.StandbyRepository), location.KeysSecretName(o.StandbyRepository)
	}
	return job
}

// initdb is what spec says about the data directory.
func initdb(bootstrap *v1alpha1.Bootstrap) agentapi.Initdb {
	if bootstrap == nil || bootstrap.Initdb == nil {
		return agentapi.Initdb{}
	}
	wanted := bootstrap.Initdb
	segment := resource.MustParse(cmp.Or(wanted.WALSegmentSize, "0")) // an enumeration of quantities
	return agentapi.Initdb{
		Encoding: wanted.Encoding, LocaleProvider: strings.ToLower(string(wanted.LocaleProvider)), Locale: wanted.Locale,
		ICURules: wanted.ICURules, WALSegmentMiB: segment.Value() >> 20,
	}
}

func postInitSQL(bootstrap *v1alpha1.Bootstrap) (files []agentapi.SQLFile) {
	if bootstrap == nil || bootstrap.Initdb == nil {
		return nil
	}
	for _, file := range bootstrap.Initdb.PostInitSQL {
		files = append(files, agentapi.SQLFile{ConfigMap: file.Name, Key: file.Key})
	}
	return files
}

func awaitedRestore(o *observed.Cluster) string {
	name := o.Cluster.Spec.Bootstrap.Restore.Name
	if o.Restore == nil {
		return fmt.Sprintf("The volume waits for the data of Restore %s, which doesn't exist. Delete this PostgresCluster and create a Restore, which creates its cluster itself.", name)
	}
	return fmt.Sprintf("The volume waits for the data of Restore %s.", name)
}

// ReleaseInitJob clears away what was left of the start, once there is no way back to it.
func (s *Steps) ReleaseInitJob(ctx context.Context, o *observed.Cluster) flow.Outcome {
	if !o.HasRun() {
		return flow.Next
	}
	return s.removeInitJob(ctx, o)
}

// StopInitialization ends the init Job of a cluster that is deleted before it began to run.
func (s *Steps) StopInitialization(ctx context.Context, o *observed.Cluster) flow.Outcome {
	return s.removeInitJob(ctx, o)
}

func (s *Steps) removeInitJob(ctx context.Context, o *observed.Cluster) flow.Outcome {
	job, ok := o.Live[observed.Key("Job", o.Names.InitJob())].(*batchv1.Job)
	if !ok || observed.Foreign(job, o.Cluster) || !job.DeletionTimestamp.IsZero() {
		return flow.Next
	}
	if err := s.Remove(ctx, job); err != nil {
		return flow.Retry(err)
	}
	return flow.Next
}
