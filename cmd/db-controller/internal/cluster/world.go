package cluster

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component"
	"howdah.dev/howdah/cmd/db-controller/internal/component/certificate"
	"howdah.dev/howdah/cmd/db-controller/internal/component/config"
	"howdah.dev/howdah/cmd/db-controller/internal/component/statefulset"
	"howdah.dev/howdah/cmd/db-controller/internal/ownwrites"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/repository/location"
	"howdah.dev/howdah/pkg/workload"
)

// world is everything that one pass has seen of a cluster. Steps read it; only observe and the steps that make
// something write it.
type world struct {
	now     time.Time
	cluster *v1alpha1.PostgresCluster
	names   component.Names
	// record writes the status now, ahead of what follows in the pass.
	record func(context.Context) flow.Outcome
	// own is what this process has written of the cluster.
	own *ownwrites.View
	// seen: all was read.
	seen bool
	// fresh: who uses the volumes was read from the API server itself. untouched: there is no volume, so nobody can have used one.
	fresh, untouched bool

	// repository that spec.archive names; nil: there is none of that name.
	repository *v1alpha1.BackupRepository
	// missingSecret is one of the repository's that pods would have to mount and that isn't there: they would never start.
	missingSecret string
	// live objects of the cluster by kind and name, whoever they belong to. Secrets are among them.
	live map[string]client.Object
	// authority is set once its Secret is there.
	authority *certificate.Authority

	// pods of the instances, workers that write to a volume and have not ended.
	pods    []corev1.Pod
	workers []corev1.Pod
	// agents that answered, by pod.
	agents map[string]*agentapi.Status
	// lease that the agents elect over. It is read only where no agent says that there is one.
	lease     *coordinationv1.Lease
	leaseRead bool
	// initJob is looked at until the cluster is initialized. initializing: it runs, as far as the cache shows.
	initJob      workload.State
	initializing bool

	// classes of the volumes that are to grow, by name; nil: there is none of that name.
	classes map[string]*storagev1.StorageClass
	// refused is why Kubernetes did not let a claim grow in this pass, by the claim's name.
	refused map[string]string

	// passwords of declared roles, by role, and a sentence for each that can't be had, and for each certificate.
	passwords      map[string][]byte
	noPasswords    []string
	noCertificates []string

	// asks for the volumes, oldest first.
	asks []protocol.LockRequest
	// released are the data generations that nobody wants any more.
	released []string
	// restore that spec.bootstrap.restore names; nil: there is none.
	restore *v1alpha1.Restore
	// finalBackup that answers status.backupRequest; nil: it is not there.
	finalBackup *v1alpha1.Backup

	// agentOfPods that are made from now on.
	agentOfPods workload.Agent
}

func (w *world) deleting() bool { return !w.cluster.DeletionTimestamp.IsZero() }

// begun: what the cluster is was decided and recorded, so objects of it may exist.
func (w *world) begun() bool { return w.cluster.Status.DataGeneration != "" }

// hasRun: there was data at some time. It is recorded with the first word of an agent, or with an adoption.
func (w *world) hasRun() bool { return w.cluster.Status.SystemIdentifier != "" }

// bootstrapsByRestore: the first data comes from a Restore.
func (w *world) bootstrapsByRestore() bool {
	return w.cluster.Spec.Bootstrap != nil && w.cluster.Spec.Bootstrap.Restore != nil
}

// initialized: there is data to start on.
func (w *world) initialized() bool {
	switch {
	case w.hasRun():
		return true
	case w.bootstrapsByRestore():
		return false
	}
	return w.statefulSet() != nil || w.initJob.Done && !w.initJob.Deleting || w.initJob.Complete && w.initJob.Ended()
}

// awaitsInit: the init Job has yet to make the first data.
func (w *world) awaitsInit() bool { return !w.bootstrapsByRestore() && !w.initialized() }

// statefulSet of this very cluster; nil: there is none.
func (w *world) statefulSet() *appsv1.StatefulSet {
	set, ok := w.live[key("StatefulSet", w.names.StatefulSet())].(*appsv1.StatefulSet)
	if !ok || foreign(set, w.cluster) {
		return nil
	}
	return set
}

func (w *world) secret(name string) *corev1.Secret {
	secret, _ := w.live[key("Secret", name)].(*corev1.Secret)
	return secret
}

func (w *world) claim(ordinal int) *corev1.PersistentVolumeClaim {
	claim, _ := w.live[key("PersistentVolumeClaim", w.names.Volume(ordinal))].(*corev1.PersistentVolumeClaim)
	return claim
}

// pod of the instance with this ordinal; nil: there is none.
func (w *world) pod(ordinal int) *corev1.Pod {
	for i := range w.pods {
		if w.pods[i].Name == w.names.Instance(ordinal) {
			return &w.pods[i]
		}
	}
	return nil
}

// stopped: no pod of the cluster is there, and none will be started.
func (w *world) stopped() bool { return len(w.pods) == 0 && w.vacated() }

// vacated: no pod of the cluster writes to a volume, and none will be started. Who waits for the volumes needs no more: until a
// pod whose containers have ended for good is gone takes kubelet a while. The StatefulSet's own controller has seen that it
// is scaled to nothing, so it starts none that we can't see yet.
func (w *world) vacated() bool {
	writes := func(pod corev1.Pod) bool { return pod.DeletionTimestamp.IsZero() || !ended(&pod) }
	if slices.ContainsFunc(w.pods, writes) || len(w.workers) > 0 {
		return false
	}
	set := w.statefulSet()
	return set == nil || (*set.Spec.Replicas == 0 && set.Status.ObservedGeneration >= set.Generation && int(set.Status.Replicas) <= len(w.pods))
}

// idleSet: the StatefulSet has no pod and is to have none; bringing one up is a decision that takes fresh reads.
func (w *world) idleSet() bool {
	set := w.statefulSet()
	return set == nil || set.Spec.Replicas == nil || *set.Spec.Replicas == 0
}

// store is where the cluster archives to; nil: nowhere. Of a repository that is gone the last that was known stays: the
// database goes on, and WAL waits on the volume instead of being thrown away.
func (w *world) store() *objstore.Config {
	switch {
	case w.cluster.Spec.Archive == nil:
		return nil
	case !w.repositoryUsable():
		return w.lastStore()
	}
	store := location.PodConfig(w.repository)
	return &store
}

// repositoryUsable: pods can be told of it.
func (w *world) repositoryUsable() bool { return w.repository != nil && w.missingSecret == "" }

// lastStore is where the agents were told last to archive to.
func (w *world) lastStore() *objstore.Config {
	if last := w.lastConfig(); last.Archive != nil {
		return &last.Archive.Repository
	}
	return nil
}

// lastConfig is what the agents were told last; empty: nothing that can be read.
func (w *world) lastConfig() agentapi.Config {
	last := agentapi.Config{}
	configMap, ok := w.live[key("ConfigMap", w.names.Config())].(*corev1.ConfigMap)
	if !ok || json.Unmarshal([]byte(configMap.Data[filepath.Base(agentapi.ConfigFile)]), &last) != nil {
		return agentapi.Config{}
	}
	return last
}

func (w *world) s3Secret() string {
	switch {
	case w.cluster.Spec.Archive == nil:
		return ""
	case !w.repositoryUsable():
		return statefulset.S3Secret(w.statefulSet())
	}
	return location.SecretName(w.repository)
}

func (w *world) keysSecret() string {
	switch {
	case w.cluster.Spec.Archive == nil:
		return ""
	case !w.repositoryUsable():
		return statefulset.KeysSecret(w.statefulSet())
	}
	return location.KeysSecretName(w.repository)
}

func (w *world) agentConfig() agentapi.Config {
	return config.Agent(w.cluster, w.toldInstances(), w.store())
}

func (w *world) inputs(replicas int) statefulset.Inputs {
	return statefulset.Inputs{
		Replicas: int32(replicas), Electing: w.electing(), Declaring: w.declaring(), Agent: w.agentOfPods,
		ConfigHash: w.agentConfig().Hash(), PasswordRevision: w.passwordRevision(), S3Secret: w.s3Secret(), KeysSecret: w.keysSecret(),
	}
}

// agent is the state of an instance's agent, if it answered for the data generation that the cluster runs on.
func (w *world) agent(ordinal int) *agentapi.Status {
	status := w.agents[w.names.Instance(ordinal)]
	switch {
	case status == nil:
		return nil
	case status.DataGeneration == "" && w.electing():
		return status // there is nothing on its volume yet
	case status.DataGeneration != w.cluster.Status.DataGeneration:
		return nil
	}
	return status
}

// serving: the instance takes connections, on the data generation that the cluster runs on. There is none with a negative
// ordinal.
func (w *world) serving(ordinal int) bool {
	pod := w.pod(ordinal)
	if pod == nil || !pod.DeletionTimestamp.IsZero() ||
		pod.Annotations[statefulset.AnnotationDataGeneration] != w.cluster.Status.DataGeneration {
		return false
	}
	return podReady(pod)
}

func podReady(pod *corev1.Pod) bool {
	condition := readyCondition(pod)
	return condition != nil && condition.Status == corev1.ConditionTrue
}

// readyCondition of a pod; nil until kubelet has written one.
func readyCondition(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.PodReady {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

func key(kind, name string) string { return kind + "/" + name }

func (w *world) templateHash() string { return statefulset.Hash(w.cluster, w.inputs(1)) }
