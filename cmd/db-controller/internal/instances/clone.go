package instances

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component"
	"howdah.dev/howdah/cmd/db-controller/internal/component/secret"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/pace"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/workload"
)

// AwaitCloneSource waits for the cluster that is to be cloned, before anything of this one is created.
func AwaitCloneSource(_ context.Context, o *observed.Cluster) flow.Outcome {
	if !observed.Clones(o) || o.Begun() {
		return flow.Next
	}
	if why := unreadable(o.CloneSource, o.Cluster.Spec.Bootstrap.Clone.Cluster.Name); why != "" {
		return flow.Poll(pace.UnknownInterval, v1alpha1.ReasonAwaitingSource, why) // the other cluster is not watched
	}
	return flow.Next
}

// unreadable says why a cluster can't be cloned now; empty: it can.
func unreadable(source *v1alpha1.PostgresCluster, name string) string {
	switch {
	case source == nil:
		return fmt.Sprintf("PostgresCluster %s, which spec.bootstrap.clone names, doesn't exist in this namespace. Create it, or delete this PostgresCluster.", name)
	case !source.DeletionTimestamp.IsZero():
		return fmt.Sprintf("PostgresCluster %s is being deleted and can't be cloned. Delete this PostgresCluster, and restore a backup of that one instead.", name)
	case len(source.Status.VolumeLocks) > 0:
		return fmt.Sprintf("PostgresCluster %s is in a Restore or an Upgrade. It is cloned afterwards.", name)
	case source.Status.SystemIdentifier == "" || source.Status.ReadyInstances == 0:
		return fmt.Sprintf("PostgresCluster %s has no instance that is ready. It is cloned as soon as there is one.", name)
	}
	return ""
}

// PinClone records whose data is copied.
func PinClone(o *observed.Cluster) {
	if observed.Clones(o) && o.CloneSource != nil {
		o.Cluster.Status.Clone = &v1alpha1.CloneStatus{ClusterUID: o.CloneSource.UID, SystemIdentifier: o.CloneSource.Status.SystemIdentifier}
	}
}

// SourceMismatch says what of a cluster's data this one couldn't run on; empty: nothing is known that it lacks.
func SourceMismatch(o *observed.Cluster) string {
	source, spec := o.CloneSource, o.Cluster.Spec
	if !observed.Clones(o) || o.Begun() || source == nil || source.Status.SystemIdentifier == "" {
		return ""
	}
	switch {
	case source.Status.MajorVersion != spec.Version:
		return fmt.Sprintf("PostgresCluster %s runs PostgreSQL %d, and spec.version is %d. Set spec.version to %d; an Upgrade can follow.",
			source.Name, source.Status.MajorVersion, spec.Version, source.Status.MajorVersion)
	case source.Spec.Image != "" && spec.Image == "":
		return fmt.Sprintf("PostgresCluster %s has an image of its own, and the suite's image may lack its extensions and locales. Set spec.image, for example to %s.", source.Name, source.Spec.Image)
	}
	for _, wanted := range source.Spec.PostgreSQL.ExtensionImages {
		if !slices.ContainsFunc(spec.PostgreSQL.ExtensionImages, func(have v1alpha1.ExtensionImage) bool { return have.Name == wanted.Name }) {
			return fmt.Sprintf("PostgresCluster %s has the extension image %s. Add it to spec.postgresql.extensionImages.", source.Name, wanted.Name)
		}
	}
	return ""
}

// sourceLost says that the cluster whose data is being copied doesn't exist any more; empty: it does, or its data was copied.
func sourceLost(o *observed.Cluster) string {
	pinned := o.Cluster.Status.Clone
	if !observed.Clones(o) || pinned == nil || o.CloneSource != nil && o.CloneSource.UID == pinned.ClusterUID {
		return ""
	}
	return fmt.Sprintf("PostgresCluster %s was deleted before its data was copied, as far as is recorded. Delete this PostgresCluster, and restore a backup of that one instead. "+
		"If there is no backup, set spec.deletionPolicy.volumes: Retain first: after a restore of etcd, the volume may already have the whole copy.", o.Cluster.Spec.Bootstrap.Clone.Cluster.Name)
}

// copying says whether the init Job has the data, or has a pod that may still get it. A pod that has begun knows the CA of the source that was
// pinned, and so connects to no other.
func copying(o *observed.Cluster) bool {
	state := o.InitJob
	begun := slices.ContainsFunc(o.Workers, func(pod corev1.Pod) bool { return pod.Status.Phase != corev1.PodPending })
	return state.Exists && (begun || state.LivePods > len(o.Workers) || state.Done || state.Complete)
}

// stopClone ends an init Job whose next pod would meet another cluster under the name of the source.
func (s *Steps) stopClone(ctx context.Context, o *observed.Cluster, lost string) flow.Outcome {
	if !o.InitJob.Failed {
		if err := workload.Delete(ctx, s.Client, o.Cluster, o.Names.InitJob(), o.InitJob); err != nil {
			return flow.Retry(err)
		}
	}
	return flow.Stop(v1alpha1.ReasonSourceLost, lost)
}

// cloneTask is what the init Job is told. It stays the same whatever becomes of the other cluster's instances: the Job asks by the Services, first
// for a replica. It begins anew whenever it ends early, on an empty data generation.
func cloneTask(o *observed.Cluster) *agentapi.CloneJob {
	clone := o.Cluster.Spec.Bootstrap.Clone
	name := clone.Cluster.Name
	other := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: o.Cluster.Namespace, Name: name}}
	names := component.NamesOf(other)
	task := &agentapi.CloneJob{
		Object:  agentapi.Object{Kind: agentapi.KindConfigMap, Resource: "configmaps", Namespace: o.Cluster.Namespace, Name: o.Names.InitJob()},
		Cluster: name, Database: clone.Database, Owner: clone.Owner,
		Hosts:  []string{component.Host(other, names.Replicas()), component.Host(other, names.Primary())},
		Secret: names.InstanceSecret(), CA: secret.KeyServerAuthority, Certificate: secret.KeyReplicationCertificate, Key: secret.KeyReplicationPrivate,
		PreloadLibraries: string(o.Cluster.Spec.PostgreSQL.Parameters["shared_preload_libraries"]),
	}
	if pinned := o.Cluster.Status.Clone; pinned != nil {
		task.SystemIdentifier = pinned.SystemIdentifier
	}
	return task
}

// cloneSecrets are the keys that the pod mounts: those with which a replica logs in, and nothing else of that Secret.
func cloneSecrets(task *agentapi.CloneJob) map[string][]string {
	return map[string][]string{task.Secret: {task.CA, task.Certificate, task.Key}}
}

func cloning(o *observed.Cluster) string {
	source := o.Cluster.Spec.Bootstrap.Clone.Cluster.Name
	return howFar(o, fmt.Sprintf("The data of PostgresCluster %s is to be copied.", source), fmt.Sprintf("The data of PostgresCluster %s is copied", source))
}

// RecordClone writes down that the copy is complete, before PostgreSQL is started on it for anybody.
func RecordClone(_ context.Context, o *observed.Cluster) flow.Outcome {
	status := o.Cluster.Status.Clone
	if !observed.Clones(o) || o.HasRun() || !o.Initialized() || status == nil || status.CompletedAt != nil {
		return flow.Next
	}
	at := metav1.NewTime(o.Now.Truncate(time.Second))
	status.Progress, status.CompletedAt = nil, &at
	return flow.Save(v1alpha1.ReasonCopyingCluster, "The copy is complete, and PostgreSQL is being started.")
}
