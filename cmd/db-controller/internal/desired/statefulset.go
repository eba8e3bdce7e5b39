package desired

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/statefulset"
	"howdah.dev/howdah/cmd/db-controller/internal/component/volume"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
)

// ClaimsShaped says whether new claims of a StatefulSet would have the size and the class that are wanted.
func ClaimsShaped(o *observed.Cluster, set *appsv1.StatefulSet) bool {
	for i := range set.Spec.VolumeClaimTemplates {
		template := &set.Spec.VolumeClaimTemplates[i]
		size := volume.Requested(template)
		if size.Cmp(volume.SizeOf(o.Cluster, template)) != 0 {
			return false
		}
		if volume.IsWAL(template) {
			continue // its class can't be changed
		}
		if volume.ClassSettled(o.Cluster) && ptr.Deref(template.Spec.StorageClassName, "") != ptr.Deref(volume.Class(o.Cluster), "") {
			return false
		}
	}
	return true
}

// StatefulSet is the StatefulSet as it is wanted, but for what can't be changed in one that is there.
func StatefulSet(o *observed.Cluster, replicas int) *appsv1.StatefulSet {
	wanted := statefulset.Build(o.Cluster, Inputs(o, replicas))
	live := o.StatefulSet()
	if live == nil || len(live.Spec.VolumeClaimTemplates) != len(wanted.Spec.VolumeClaimTemplates) {
		return wanted
	}
	for i := range live.Spec.VolumeClaimTemplates {
		template := &wanted.Spec.VolumeClaimTemplates[i].Spec
		template.Resources.Requests[corev1.ResourceStorage] = volume.Requested(&live.Spec.VolumeClaimTemplates[i])
		template.StorageClassName = live.Spec.VolumeClaimTemplates[i].Spec.StorageClassName
	}
	wanted.Spec.ServiceName = live.Spec.ServiceName
	return wanted
}

// TemplateKnown says whether the StatefulSet's controller has seen the template that was applied last.
func TemplateKnown(o *observed.Cluster, set *appsv1.StatefulSet) bool {
	return set != nil && set.Status.ObservedGeneration >= set.Generation &&
		set.Spec.Template.Annotations[v1alpha1.AnnotationTemplateHash] == TemplateHash(o)
}

// Inputs are what the StatefulSet depends on besides the spec.
func Inputs(o *observed.Cluster, replicas int) statefulset.Inputs {
	return statefulset.Inputs{
		Replicas: int32(replicas), LockToken: o.LockToken(), Electing: o.Electing(), Declaring: declaring(o), Agent: o.AgentOfPods,
		ConfigHash: AgentConfig(o).Hash(), PasswordRevision: passwordRevision(o), S3Secret: S3Secret(o), KeysSecret: KeysSecret(o),
	}
}

// TemplateHash identifies the pod template that the cluster should have.
func TemplateHash(o *observed.Cluster) string { return statefulset.Hash(o.Cluster, Inputs(o, 1)) }
