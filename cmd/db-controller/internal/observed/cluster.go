package observed

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/agentclient"
	"howdah.dev/howdah/cmd/db-controller/internal/component"
	"howdah.dev/howdah/cmd/db-controller/internal/component/certificate"
	"howdah.dev/howdah/cmd/db-controller/internal/component/orphan"
	"howdah.dev/howdah/cmd/db-controller/internal/condition"
	"howdah.dev/howdah/cmd/db-controller/internal/ownwrites"
	"howdah.dev/howdah/cmd/db-controller/internal/servertls"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/customqueries"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/workload"
)

// Finalizer keeps a PostgresCluster until its last backup is taken and its volumes are dealt with.
const Finalizer = "howdah.dev/db-controller"

// Cluster is everything that one pass has seen of a cluster. Steps read it; only package reading and the
// steps that create something write it.
type Cluster struct {
	Now     time.Time
	Cluster *v1alpha1.PostgresCluster
	Names   component.Names
	// Record writes the status now, ahead of what follows in the pass.
	Record func(context.Context) flow.Outcome
	// Own is what this process has written of the cluster.
	Own *ownwrites.View
	// Seen: all was read.
	Seen bool
	// Fresh: who uses the volumes was read from the API server itself. untouched: there is no volume, so nobody can have used one.
	Fresh, Untouched bool

	// Repository that spec.archive names; nil: there is none of that name.
	Repository *v1alpha1.BackupRepository
	// MissingSecret is one of the repository's that pods would have to mount and that isn't there: they would never start.
	MissingSecret string
	// Live objects of the cluster by kind and name, whoever they belong to. Secrets are among them.
	Live map[string]client.Object
	// Authority is set once its Secret is there.
	Authority *certificate.Authority

	// Orphan is the record of a database that was released under the name of the cluster; nil: there is none. OrphanDamage says why one
	// can't be read. OrphanMap is the ConfigMap of that name, whoever it belongs to.
	Orphan       *orphan.Record
	OrphanDamage string
	OrphanMap    *corev1.ConfigMap
	// Parts are the objects that Kubernetes would delete with the cluster, as the API server has them. They are read only while a
	// database is released or taken over.
	Parts []*metav1.PartialObjectMetadata

	// Pods of the instances, workers that write to a volume and have not ended.
	Pods    []corev1.Pod
	Workers []corev1.Pod
	// BackingUp is a pod that takes a backup of the cluster; empty: there is none.
	BackingUp string
	// Refusals are what Kubernetes has said of pods that it does not create, by the UID of the StatefulSet or the Job.
	Refusals map[types.UID]workload.Refusals
	// Agents that answered, by pod. Passes share their answers.
	Agents map[string]*agentapi.Status
	// Silent are the agents that were asked and have not answered, by pod.
	Silent map[string]agentclient.Silence
	// AgentsOld: not all agents were asked for this pass. It goes by older answers, and writes nothing.
	AgentsOld bool
	// Lease that the agents elect over. It is read only where no agent says that there is one.
	Lease     *coordinationv1.Lease
	LeaseRead bool
	// InitJob is looked at until the cluster is initialized. initializing: it runs, as far as the cache shows.
	InitJob      workload.State
	Initializing bool
	// ImportReport is the ConfigMap in which an init Job that imports says how far it is; nil: there is none.
	ImportReport *corev1.ConfigMap
	// SourceRelease is the Job that drops what an online import has created on its source. It is looked at while the cluster is deleted.
	SourceRelease workload.State
	// Volumes that spec.bootstrap.volumes may speak of, by ordinal. They are read until the cluster has begun.
	Volumes []Volume
	// ImageJob tries the image that is wanted.
	ImageJob workload.State

	// Classes of the volumes that are to grow, or to be moved to, by name; nil: there is none of that name.
	Classes map[string]*storagev1.StorageClass
	// Refused is why Kubernetes did not let a claim be created or grow in this pass, by the claim's name.
	Refused map[string]string

	// UndeclaredServices are those that spec no longer has, by name.
	UndeclaredServices []string
	// Poolers of the cluster that need its certificate, by name.
	Poolers []string
	// FailoverDrill that is responded to; nil: none requests anything.
	FailoverDrill *v1alpha1.FailoverDrill
	// Queries for metrics that spec.monitoring names, and a sentence for each that is not served.
	Queries        []customqueries.Query
	RefusedQueries []string
	// NoPodMonitors: the API server has no such kind.
	NoPodMonitors bool
	// Passwords of declared roles, by role, what is wrong with each that isn't available, and a sentence for each certificate.
	Passwords      map[string][]byte
	NoPasswords    []condition.Finding
	NoCertificates []string

	// ServerTLS is what database pods are to have of a person's own for TLS, and CertificatesReady whether that is what spec wants.
	ServerTLS         servertls.Kept
	CertificatesReady condition.Finding

	// Images of the suite by major version.
	Images map[int32]string
	// Operation is a Restore or an Upgrade of the cluster that has not ended, such as "Upgrade to-18"; empty: there is none.
	Operation string
	// Undoable is a Restore or an Upgrade of the cluster whose previous data is kept until a person decides; empty: there is none.
	Undoable string
	// PreviousOn says by the instance whose volume has such data, or some that could not be brought back, of whom it is.
	PreviousOn map[string]string
	// MajorUpdate is what the upgrade-controller does about a spec.version that is higher than what runs; empty: it is left to a person.
	MajorUpdate string

	// RolloutWait is what the rollout of a change waits for, in sentences; empty: nothing.
	RolloutWait string

	// Requests for the volumes, oldest first.
	Requests []protocol.LockRequest
	// Released are the data generations that nobody needs any longer.
	Released []string
	// Restore that spec.bootstrap.restore names; nil: there is none.
	Restore *v1alpha1.Restore
	// CloneSource is the PostgresCluster that spec.bootstrap.clone names, until its data was copied; nil: there is none.
	CloneSource *v1alpha1.PostgresCluster
	// StandbyRepository is the BackupRepository that a standby follows, until it is promoted; nil: there is none of that name. StandbyMissing is a
	// Secret of it that isn't there, and that the pod would have to mount.
	StandbyRepository *v1alpha1.BackupRepository
	StandbyMissing    string
	// FinalBackup or FirstBackup that responds to status.backupRequest; nil: it is not there, or the request is for the other one.
	FinalBackup, FirstBackup *v1alpha1.Backup

	// AgentOfPods that are made from now on.
	AgentOfPods workload.Agent
}

// Deleting says whether the PostgresCluster is being deleted.
func (o *Cluster) Deleting() bool { return !o.Cluster.DeletionTimestamp.IsZero() }

// Begun says whether what the cluster is was decided and recorded, so objects of it may exist.
func (o *Cluster) Begun() bool { return o.Cluster.Status.DataGeneration != "" }

// HasRun says whether there was data at some time. It is recorded with the first word of an agent, or with an adoption.
func (o *Cluster) HasRun() bool { return o.Cluster.Status.SystemIdentifier != "" }

// BootstrapsByRestore says whether the first data comes from a Restore.
func (o *Cluster) BootstrapsByRestore() bool {
	return o.Cluster.Spec.Bootstrap != nil && o.Cluster.Spec.Bootstrap.Restore != nil
}

// Imports says whether the first data comes from a server that runs elsewhere.
func (o *Cluster) Imports() bool {
	return o.Cluster.Spec.Bootstrap != nil && o.Cluster.Spec.Bootstrap.Import != nil
}

// Clones says whether the first data is that of another PostgresCluster.
func Clones(o *Cluster) bool {
	return o.Cluster.Spec.Bootstrap != nil && o.Cluster.Spec.Bootstrap.Clone != nil
}

// BeginsWithVolumes says whether the first data is on volumes that are there already.
func (o *Cluster) BeginsWithVolumes() bool {
	return o.Cluster.Spec.Bootstrap != nil && o.Cluster.Spec.Bootstrap.Volumes != nil
}

// Initialized says whether there is data to start on.
func (o *Cluster) Initialized() bool {
	switch {
	case o.HasRun():
		return true
	case o.BootstrapsByRestore():
		return false
	}
	return o.StatefulSet() != nil || o.InitJob.Done && !o.InitJob.Deleting || o.InitJob.Complete && o.InitJob.Ended()
}

// AwaitsInit says whether the init Job has yet to create the first data.
func (o *Cluster) AwaitsInit() bool { return !o.BootstrapsByRestore() && !o.Initialized() }
