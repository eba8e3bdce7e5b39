// Package component names everything that a PostgresCluster consists of; each kind of object has a package below that
// builds it. Builders are pure: the same cluster and inputs give the same object.
package component

import (
	"fmt"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/protocol"
)

// Values of v1alpha1.LabelComponent besides those of pods.
const (
	// Access is on what leads to the database or lets somebody in.
	Access = "access"
	// Configuration is on what the agents read.
	Configuration = "configuration"
	// Data is on volumes.
	Data = "data"
)

// LabelClusterUID is on volumes, which outlive their owner and so carry no ownerReference: whose they are.
const LabelClusterUID = "howdah.dev/cluster-uid"

// LabelRetainedFrom is on a volume that was left behind by the deletion of the cluster that it names.
const LabelRetainedFrom = "howdah.dev/retained-from"

// AnnotationUsedFor on a volume is the state of the cluster in which an instance was last about to be started on it.
const AnnotationUsedFor = "howdah.dev/used-for"

// LabelRetainedReason is on a volume that was left behind: why, as a word that kubectl get can show; AnnotationRetainedMessage says it in a sentence.
const (
	LabelRetainedReason       = "howdah.dev/retained-reason"
	AnnotationRetainedMessage = "howdah.dev/retained-message"
)

// AnnotationRetainedData on a volume that was left behind says what the cluster had, as JSON of a volume.Record.
const AnnotationRetainedData = "howdah.dev/retained-data"

// Names of the objects of a cluster.
type Names struct{ cluster string }

// NamesOf a cluster.
func NamesOf(cluster *v1alpha1.PostgresCluster) Names { return Names{cluster.Name} }

// StatefulSet of the instances.
func (n Names) StatefulSet() string { return n.cluster }

// Instance is the name of a pod by its ordinal.
func (n Names) Instance(ordinal int) string { return protocol.InstanceName(n.cluster, ordinal) }

// Ordinal of an instance by its name; -1: it is none of this cluster.
func (n Names) Ordinal(instance string) int {
	ordinal, err := strconv.Atoi(strings.TrimPrefix(instance, n.cluster+"-"))
	if err != nil || ordinal < 0 || n.Instance(ordinal) != instance {
		return -1
	}
	return ordinal
}

// Volume is the name of an instance's claim by its ordinal.
func (n Names) Volume(ordinal int) string { return protocol.PVCName(n.Instance(ordinal)) }

// WALVolume is the name of the claim of an instance's WAL by its ordinal.
func (n Names) WALVolume(ordinal int) string { return protocol.WALClaimName(n.Instance(ordinal)) }

// InitJob creates the first data generation.
func (n Names) InitJob() string { return n.cluster + "-init" }

// ImportReleaseJob drops what an online import has created on its source.
func (n Names) ImportReleaseJob() string { return n.cluster + "-import-release" }

// InspectionJob reads the volume of an instance, by its ordinal, before anything is started on it.
func (n Names) InspectionJob(ordinal int) string {
	return fmt.Sprintf("%s-volume-%d", n.cluster, ordinal)
}

// ImageJob tries an image before an instance runs in it.
func (n Names) ImageJob() string { return n.cluster + "-image" }

// Primary is the Service, and its EndpointSlice, that leads to the primary.
func (n Names) Primary() string { return n.cluster + "-rw" }

// Replicas is the Service that leads to replicas.
func (n Names) Replicas() string { return n.cluster + "-ro" }

// Any is the Service that leads to every instance. It governs the StatefulSet, so that a DNS server may give names to
// instances that accept connections; nothing of ours asks for them.
func (n Names) Any() string { return n.cluster + "-r" }

// Additional is a Service that spec.services.additional declares.
func (n Names) Additional(name string) string { return n.cluster + "-" + name }

// Pods is the domain of the instances' names in certificates, and the headless Service that an earlier suite created for it.
func (n Names) Pods() string { return protocol.PodDomain(n.cluster) }

// Config is the ConfigMap for the agents.
func (n Names) Config() string { return n.cluster + "-config" }

// Released is the ConfigMap with the record of a database that was released.
func (n Names) Released() string { return n.cluster + "-released" }

// Connection is the ConfigMap that says how to connect.
func (n Names) Connection() string { return n.cluster + "-connection" }

// Authority is the Secret with the CA and its key.
func (n Names) Authority() string { return n.cluster + "-ca" }

// InstanceSecret is the Secret of database pods.
func (n Names) InstanceSecret() string { return n.cluster + "-instance" }

// App is the Secret with the application's password.
func (n Names) App() string { return protocol.AppSecret(n.cluster) }

// Superuser is the Secret with the password of postgres.
func (n Names) Superuser() string { return protocol.SuperuserSecret(n.cluster) }

// Backup is the Secret with the client certificate of the role howdah_backup.
func (n Names) Backup() string { return n.cluster + "-backup" }

// Upgrade is the Secret with the client certificate of the role howdah_upgrade.
func (n Names) Upgrade() string { return n.cluster + "-upgrade" }

// Pooler is the Secret with the certificate of the cluster's poolers.
func (n Names) Pooler() string { return protocol.PoolerSecret(n.cluster) }

// FailoverDrill is the Secret with the client certificate of the role howdah_failoverdrill.
func (n Names) FailoverDrill() string { return protocol.FailoverDrillSecret(n.cluster) }

// Metrics is the Secret with the client certificate of Prometheus.
func (n Names) Metrics() string { return n.cluster + "-metrics" }

// PodMonitor for Prometheus.
func (n Names) PodMonitor() string { return n.cluster }

// Secrets are the names of all of them.
func (n Names) Secrets() []string {
	return []string{n.Authority(), n.InstanceSecret(), n.App(), n.Superuser(), n.Backup(), n.Upgrade(), n.Pooler(), n.FailoverDrill(), n.Metrics()}
}

// Lease is what the agents elect over.
func (n Names) Lease() string { return n.cluster }

// Identity is the ServiceAccount, Role and RoleBinding of the instances.
func (n Names) Identity() string { return n.cluster + "-instance" }

// DisruptionBudget of the instances.
func (n Names) DisruptionBudget() string { return n.cluster }

// NetworkPolicy of the pods.
func (n Names) NetworkPolicy() string { return n.cluster + "-instance" }

// Host is the DNS name of a Service, good in the whole Kubernetes cluster.
func Host(cluster *v1alpha1.PostgresCluster, service string) string {
	return fmt.Sprintf("%s.%s.svc", service, cluster.Namespace)
}

// PodHost is the name of an instance's pod in the certificate of the instances.
func PodHost(cluster *v1alpha1.PostgresCluster, pod string) string {
	return protocol.InstanceHost(cluster.Namespace, cluster.Name, pod)
}

// Labels of an object of a cluster.
func Labels(cluster *v1alpha1.PostgresCluster, component string) map[string]string {
	return map[string]string{
		v1alpha1.LabelCluster:   cluster.Name,
		v1alpha1.LabelManagedBy: v1alpha1.ManagedBy,
		v1alpha1.LabelComponent: component,
	}
}

// Meta is the metadata of an object of a cluster.
func Meta(cluster *v1alpha1.PostgresCluster, name, component string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: cluster.Namespace, Name: name, Labels: Labels(cluster, component)}
}
