// Package volume builds the PersistentVolumeClaims of a cluster. They carry no ownerReference: data never goes because
// Kubernetes collects garbage, only because the db-controller deletes it.
package volume

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component"
)

// Names of the claims in the StatefulSet.
const (
	TemplateName    = "data"
	WALTemplateName = "wal"
)

// Claim of the instance with this ordinal. It is created ahead of the StatefulSet, because the first data is written
// before there is one.
func Claim(cluster *v1alpha1.PostgresCluster, ordinal int) *corev1.PersistentVolumeClaim {
	claim := template(cluster, TemplateName, Class(cluster), Size(cluster))
	claim.Namespace, claim.Name = cluster.Namespace, component.NamesOf(cluster).Volume(ordinal)
	return &claim
}

// WALClaim of the instance with this ordinal; nil: WAL is on the volume of the data.
func WALClaim(cluster *v1alpha1.PostgresCluster, ordinal int) *corev1.PersistentVolumeClaim {
	wal := cluster.Spec.Storage.WAL
	if wal == nil {
		return nil
	}
	claim := template(cluster, WALTemplateName, wal.StorageClassName, WALSize(cluster))
	claim.Namespace, claim.Name = cluster.Namespace, component.NamesOf(cluster).WALVolume(ordinal)
	return &claim
}

// Claims of the instance with this ordinal.
func Claims(cluster *v1alpha1.PostgresCluster, ordinal int) []*corev1.PersistentVolumeClaim {
	claims := []*corev1.PersistentVolumeClaim{Claim(cluster, ordinal)}
	if wal := WALClaim(cluster, ordinal); wal != nil {
		claims = append(claims, wal)
	}
	return claims
}

// Templates of the claims in the StatefulSet.
func Templates(cluster *v1alpha1.PostgresCluster) []corev1.PersistentVolumeClaim {
	templates := []corev1.PersistentVolumeClaim{template(cluster, TemplateName, Class(cluster), Size(cluster))}
	if wal := cluster.Spec.Storage.WAL; wal != nil {
		templates = append(templates, template(cluster, WALTemplateName, wal.StorageClassName, WALSize(cluster)))
	}
	return templates
}

func template(cluster *v1alpha1.PostgresCluster, name string, class *string, size resource.Quantity) corev1.PersistentVolumeClaim {
	labels := component.Labels(cluster, component.Data)
	labels[component.LabelClusterUID] = string(cluster.Identity())
	return corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: class,
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: size},
			},
		},
	}
}

// Belongs says whether a claim is this very cluster's.
func Belongs(claim *corev1.PersistentVolumeClaim, cluster *v1alpha1.PostgresCluster) bool {
	return claim.Labels[component.LabelClusterUID] == string(cluster.Identity())
}

// IsRetained says that a claim was left behind.
func IsRetained(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Labels[component.LabelRetainedFrom] != ""
}

// Reclaimed is a claim that was left behind, as a part of its cluster again.
func Reclaimed(claim *corev1.PersistentVolumeClaim, cluster *v1alpha1.PostgresCluster) *corev1.PersistentVolumeClaim {
	reclaimed := claim.DeepCopy()
	for _, label := range []string{component.LabelRetainedFrom, component.LabelRetainedReason} {
		delete(reclaimed.Labels, label)
	}
	for _, annotation := range []string{component.AnnotationRetainedData, component.AnnotationRetainedMessage} {
		delete(reclaimed.Annotations, annotation)
	}
	reclaimed.Labels[v1alpha1.LabelCluster] = cluster.Name
	return reclaimed
}

// Reasons in the label of a volume that was left behind.
const (
	ByPolicy      = "DeletionPolicy" // spec.deletionPolicy keeps it
	NoFinalBackup = "NoFinalBackup"
	NotArchived   = "NotArchived"  // its last WAL may not be archived
	PreviousData  = "PreviousData" // of a Restore or an Upgrade that nobody has decided on
)

// Why a volume is left behind: one of the reasons, and a sentence for a person.
type Why struct{ Reason, Message string }

// Retained is the claim as it is left behind: no longer a part of the cluster, and labelled with whose it was and why it stays. The record is that
// of a cluster that is deleted; nil: it continues without this volume, or a person has to say who was primary last.
func Retained(claim *corev1.PersistentVolumeClaim, why Why, record *Record) *corev1.PersistentVolumeClaim {
	retained := claim.DeepCopy()
	retained.Labels[component.LabelRetainedReason] = why.Reason
	metav1.SetMetaDataAnnotation(&retained.ObjectMeta, component.AnnotationRetainedMessage, why.Message)
	retained.Labels[component.LabelRetainedFrom] = retained.Labels[v1alpha1.LabelCluster]
	delete(retained.Labels, v1alpha1.LabelCluster)
	if record != nil {
		metav1.SetMetaDataAnnotation(&retained.ObjectMeta, component.AnnotationRetainedData, record.String())
	}
	return retained
}
