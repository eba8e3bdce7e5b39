package memapi

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
)

// finalizerOfClaims keeps a claim for as long as a pod uses it.
const finalizerOfClaims = "kubernetes.io/pvc-protection"

// complete gives an object what the API server would: defaults that controllers go by.
func complete(object client.Object) {
	switch o := object.(type) {
	case *v1alpha1.PostgresCluster:
		completeCluster(o)
	case *v1alpha1.Restore, *v1alpha1.Upgrade:
		completeRequester(o)
	case *appsv1.StatefulSet:
		if o.Spec.Replicas == nil {
			o.Spec.Replicas = ptr.To[int32](1)
		}
	case *batchv1.Job:
		completeJob(o)
	case *corev1.PersistentVolumeClaim:
		if o.DeletionTimestamp == nil && o.ResourceVersion == "" {
			addFinalizer(o, finalizerOfClaims)
		}
		if o.Status.Phase == "" {
			o.Status.Phase = corev1.ClaimPending
		}
	case *corev1.Pod:
		if o.Status.Phase == "" {
			o.Status.Phase = corev1.PodPending
		}
	}
}

func completeCluster(o *v1alpha1.PostgresCluster) {
	if o.Spec.Instances == 0 {
		o.Spec.Instances = 1
	}
	if o.Spec.MaxLagOnFailover == nil {
		o.Spec.MaxLagOnFailover = ptr.To(resource.MustParse("16Mi"))
	}
	if o.Spec.StopTimeoutSeconds == 0 {
		o.Spec.StopTimeoutSeconds = 120
	}
	if o.ResourceVersion == "" {
		o.Status.ObservedGeneration = -1
	}
}

func completeRequester(object client.Object) {
	if object.GetResourceVersion() != "" {
		return
	}
	switch o := object.(type) {
	case *v1alpha1.Restore:
		o.Status.ObservedGeneration = -1
	case *v1alpha1.Upgrade:
		o.Status.ObservedGeneration = -1
	}
}

// completeJob gives a Job and its pods the labels by which its controller knows them.
func completeJob(job *batchv1.Job) {
	if job.Spec.Selector != nil {
		return
	}
	labels := map[string]string{batchv1.ControllerUidLabel: string(job.UID), batchv1.JobNameLabel: job.Name}
	job.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{batchv1.ControllerUidLabel: string(job.UID)}}
	if job.Spec.Template.Labels == nil {
		job.Spec.Template.Labels = map[string]string{}
	}
	for name, value := range labels {
		job.Spec.Template.Labels[name] = value
	}
}
