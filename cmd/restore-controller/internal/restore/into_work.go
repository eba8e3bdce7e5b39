package restore

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/workload"
)

// intoBounds of a limit of CPU, where the cluster has one: servers do most of the work.
var intoBounds = workload.Bounds{Most: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}

// tablesJob is the Job that looks at the running cluster, or copies into it. It runs in the image of that cluster, and has no volume.
func (r intoRestorer) tablesJob(o *observed, check bool) workload.Job {
	wanted, access := o.intoCluster(), protocol.AppSecret(o.cluster.Name)
	spec := agentapi.TablesJob{
		Object: agentapi.Object{
			Kind: v1alpha1.KindRestore, Resource: "restores", Namespace: o.restore.Namespace, Name: o.restore.Name, UID: string(o.restore.UID),
		},
		CheckOnly: check, MajorVersion: int(o.cluster.Status.MajorVersion), AccessSecret: access, CredentialsSecret: credentialsOf(o),
		Database: wanted.Database, IntoDatabase: wanted.IntoDatabase, Tables: texts(wanted.Tables), Schemas: texts(wanted.Schemas), IntoSchema: string(wanted.IntoSchema),
		OmitPrivileges: wanted.Privileges == v1alpha1.InclusionOmit, OmitForeignKeys: wanted.ForeignKeys == v1alpha1.InclusionOmit,
	}
	secrets := map[string][]string{access: {"host", "port", "dbname", "ca.crt"}}
	secrets[spec.CredentialsSecret] = append(secrets[spec.CredentialsSecret], "username", "password")
	job := workload.Job{
		Name: checkJobName(o.intoStatus()), Owner: o.restore, Cluster: o.cluster.Name, Component: workload.ComponentTableRestore,
		Image: o.cluster.Status.Image, Agent: r.Agent, Args: []string{"tables"}, ClusterSpec: &o.cluster.Spec, Replaceable: true, Secrets: secrets,
		Resources: intoBounds.Limit(corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")},
		}, &o.cluster.Spec),
	}
	if !check {
		superuser := o.into.copy.Cluster.Status.Connection.SuperuserSecret
		spec.Copy = &agentapi.TablesCopy{MajorVersion: int(o.restore.Status.Plan.MajorVersion), SuperuserSecret: superuser}
		secrets[superuser] = []string{"host", "port", "ca.crt", "username", "password"}
		job.Name, job.Progress = jobName(o.restore), &spec.Object
	}
	job.Spec = spec
	return job
}

func texts[T ~string](names []T) (all []string) {
	for _, name := range names {
		all = append(all, string(name))
	}
	return all
}

// ensureCheck creates the Job that looks at the running cluster, and creates it again if its node is lost.
func (r intoRestorer) ensureCheck(ctx context.Context, o *observed) flow.Outcome {
	switch {
	case o.intoStatus().CheckedAt != nil:
		return flow.Next
	case o.into.check.Lost(o.now) || o.into.check.Deleting:
		return r.removeCheck(ctx, o)
	case o.into.check.Exists:
		return flow.Next
	}
	return r.ifWanted(ctx, o, func() flow.Outcome {
		if err := r.tablesJob(o, true).Ensure(ctx, r.Client); err != nil {
			return workload.NotEnsured(err)
		}
		return flow.Poll(lookAgain, v1alpha1.ReasonCheckingTarget, checking(o))
	})
}

func checking(o *observed) string {
	return strings.TrimSpace(fmt.Sprintf("Job %s looks whether PostgresCluster %s can take %s. %s", checkJobName(o.intoStatus()), o.cluster.Name, whatOf(o), o.into.check.Trouble()))
}

func (r intoRestorer) awaitCheck(_ context.Context, o *observed) flow.Outcome {
	if o.intoStatus().CheckedAt != nil || o.into.check.Ended() {
		return flow.Next
	}
	return flow.Poll(lookAgain, o.into.check.Reason(v1alpha1.ReasonCheckingTarget), checking(o))
}

// takeCheck takes what the first Job has found. Its failure is plan's.
func (r intoRestorer) takeCheck(ctx context.Context, o *observed) flow.Outcome {
	into, result := o.intoStatus(), agentapi.TablesResult{}
	switch {
	case into.CheckedAt != nil:
		return flow.Next
	case !o.into.check.Result(&result) || !result.Checked:
		return r.removeCheck(ctx, o) // its result can't be read any more, so it runs again
	}
	into.Role, into.Database, into.CheckedAt = result.Role, result.Database, &metav1.Time{Time: o.now}
	return flow.Save(v1alpha1.ReasonCheckingTarget, fmt.Sprintf("PostgresCluster %s can take %s, as far as is known yet.", o.cluster.Name, whatOf(o)))
}

// removeCheck deletes the first Job. It writes nothing, so nobody waits for a pod on a lost node.
func (r intoRestorer) removeCheck(ctx context.Context, o *observed) flow.Outcome {
	into := o.intoStatus()
	if into == nil || !o.into.check.Exists {
		return flow.Next
	}
	remove := workload.Delete
	if o.into.check.Lost(o.now) {
		remove = workload.Abandon
	}
	if err := remove(ctx, r.Client, o.restore, checkJobName(into), o.into.check); err != nil {
		return flow.Retry(err)
	}
	return flow.Poll(2*time.Second, v1alpha1.ReasonDeleting, fmt.Sprintf("Deleting Job %s.", checkJobName(into)))
}

// pinCopying records that the Job may have written, before it can.
func pinCopying(_ context.Context, o *observed) flow.Outcome {
	if o.intoStatus().CopyingAt != nil {
		return flow.Next
	}
	o.intoStatus().CopyingAt = &metav1.Time{Time: o.now}
	return flow.Save(v1alpha1.ReasonCopyingTables, "The copying begins.")
}

// ensureCopying creates the Job that copies. Two of its pods at once do no harm: what one of them has created, the other can't.
func (r intoRestorer) ensureCopying(ctx context.Context, o *observed) flow.Outcome {
	switch {
	case o.job.Lost(o.now):
		if err := workload.Abandon(ctx, r.Client, o.restore, jobName(o.restore), o.job); err != nil {
			return flow.Retry(err)
		}
		return flow.Poll(2*time.Second, v1alpha1.ReasonCopyingTables, "The node of the Job is lost. It is created again.")
	case o.job.Deleting:
		return flow.Poll(2*time.Second, v1alpha1.ReasonCopyingTables, "A former Job is being deleted.")
	case o.job.Exists:
		return flow.Next
	}
	return r.ifWanted(ctx, o, func() flow.Outcome {
		if err := r.tablesJob(o, false).Ensure(ctx, r.Client); err != nil {
			return workload.NotEnsured(err)
		}
		return flow.Poll(lookAgain, v1alpha1.ReasonCopyingTables, copying(o))
	})
}

func copying(o *observed) string {
	return strings.TrimSpace(fmt.Sprintf("Job %s copies %s from the temporary copy, in one transaction. status.progress says how far that is. %s", jobName(o.restore), whatOf(o), o.job.Trouble()))
}

func (r intoRestorer) awaitCopying(_ context.Context, o *observed) flow.Outcome {
	if o.job.Ended() {
		return flow.Next
	}
	return flow.Poll(lookAgain, o.job.Reason(v1alpha1.ReasonCopyingTables), copying(o))
}

// takeCopied records that everything is restored. A Job whose result can't be read any more runs again: it finds what was committed.
func (r intoRestorer) takeCopied(ctx context.Context, o *observed) flow.Outcome {
	into, result := o.intoStatus(), agentapi.TablesResult{}
	if !o.job.Result(&result) {
		return r.deleteJob(ctx, o, "The result of the Job can't be read any more, so it runs again.")
	}
	into.Role, into.Database, into.CommittedAt = result.Role, result.Database, &metav1.Time{Time: o.now}
	into.Restored, into.RestoredCount = result.Restored[:min(len(result.Restored), 20)], int64(result.RestoredCount)
	into.Rows, into.Bytes, into.Seconds = result.Rows, result.Bytes, result.Seconds
	into.NotRestored = result.NotRestored[:min(len(result.NotRestored), 10)]
	return flow.Save(v1alpha1.ReasonCopyingTables, fmt.Sprintf("%s: %d tables, views and sequences are restored. The temporary copy is being deleted.", whatOf(o), into.RestoredCount))
}
