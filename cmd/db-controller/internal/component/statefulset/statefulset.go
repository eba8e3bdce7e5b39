// Package statefulset builds the StatefulSet of the instances.
package statefulset

import (
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component"
	"howdah.dev/howdah/cmd/db-controller/internal/component/volume"
	"howdah.dev/howdah/pkg/workload"
)

// Inputs that aren't in the cluster itself.
type Inputs struct {
	// Replicas is 0 while somebody else has the volumes.
	Replicas int32
	// Electing: the agents are told of more than one instance.
	Electing bool
	// Agent of pods that are created from now on.
	Agent workload.Agent
	// ConfigHash of agent.json.
	ConfigHash string
	// PasswordRevision is that of the passwords in the Secret of database pods.
	PasswordRevision string
	// Declaring: the agents are told of roles, databases or rules of pg_hba.conf.
	Declaring bool
	// LockToken is that of the volume lock for which the instances are stopped; empty: of none.
	LockToken string
	// S3Secret has the credentials of the repository, KeysSecret its keys; empty: none is needed.
	S3Secret, KeysSecret string
}

// AnnotationVolumeLock on the StatefulSet is the token of the volume lock for which it is scaled to nothing. It is written before the
// lock is granted, and every write of the StatefulSet names the version that it is based on, so whoever has not seen it starts nothing.
const AnnotationVolumeLock = "howdah.dev/volume-lock"

// Build the StatefulSet. Its pods change only when they are deleted (OnDelete): the db-controller decides when, by
// Changes, so that a newer suite with another template restarts nothing.
func Build(cluster *v1alpha1.PostgresCluster, in Inputs) *appsv1.StatefulSet {
	names := component.NamesOf(cluster)
	meta := component.Meta(cluster, names.StatefulSet(), workload.ComponentInstance)
	if in.LockToken != "" {
		meta.Annotations = map[string]string{AnnotationVolumeLock: in.LockToken}
	}
	return &appsv1.StatefulSet{
		ObjectMeta: meta,
		Spec: appsv1.StatefulSetSpec{
			Replicas:            ptr.To(in.Replicas),
			ServiceName:         names.Any(),
			PodManagementPolicy: appsv1.ParallelPodManagement,
			UpdateStrategy:      appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
			// Volumes outlive the StatefulSet; who deletes them is deletionPolicy.
			PersistentVolumeClaimRetentionPolicy: &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
				WhenDeleted: appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
				WhenScaled:  appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
			},
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{
				v1alpha1.LabelCluster:   cluster.Name,
				v1alpha1.LabelComponent: workload.ComponentInstance,
			}},
			Template:             template(cluster, in),
			VolumeClaimTemplates: volume.Templates(cluster),
		},
	}
}
