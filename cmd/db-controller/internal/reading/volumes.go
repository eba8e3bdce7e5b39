package reading

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/workload"
)

// readVolumes reads from the API server itself what spec.bootstrap.volumes speaks of, until it is decided with what the cluster begins. Pods of
// everybody count: one that a person has created may write as well.
func (r *Reader) readVolumes(ctx context.Context, o *observed.Cluster) error {
	switch {
	case !o.BeginsWithVolumes() || o.Deleting():
		return nil
	case o.Begun():
		return r.readInspectionsLeft(ctx, o)
	}
	claims, pods, inNamespace := &corev1.PersistentVolumeClaimList{}, &corev1.PodList{}, client.InNamespace(o.Cluster.Namespace)
	if err := r.Live.List(ctx, claims, inNamespace); err != nil {
		return fmt.Errorf("list PersistentVolumeClaims: %w", err)
	}
	if err := r.Live.List(ctx, pods, inNamespace); err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	for ordinal := range observed.MaxInstances {
		i := slices.IndexFunc(claims.Items, func(claim corev1.PersistentVolumeClaim) bool { return claim.Name == o.Names.Volume(ordinal) })
		if i < 0 {
			continue
		}
		volume := observed.Volume{Ordinal: ordinal, Claim: &claims.Items[i]}
		if err := r.readInspection(ctx, o, &volume); err != nil {
			return err
		}
		if at := slices.IndexFunc(claims.Items, func(claim corev1.PersistentVolumeClaim) bool { return claim.Name == o.Names.WALVolume(ordinal) }); at >= 0 {
			volume.WAL = &claims.Items[at]
		}
		volume.UsedBy = cmp.Or(userOf(volume.Claim.Name, pods.Items, volume.Job), userOf(o.Names.WALVolume(ordinal), pods.Items, volume.Job))
		o.Volumes = append(o.Volumes, volume)
	}
	return nil
}

// readInspectionsLeft looks in the cache for Jobs that have said what they were to say.
func (r *Reader) readInspectionsLeft(ctx context.Context, o *observed.Cluster) error {
	for ordinal := range observed.MaxInstances {
		job := &batchv1.Job{}
		found, err := observed.Read(ctx, r.Client, o.Cluster.Namespace, o.Names.InspectionJob(ordinal), job)
		if err != nil {
			return err
		}
		if found && !observed.Foreign(job, o.Cluster) {
			o.Volumes = append(o.Volumes, observed.Volume{Ordinal: ordinal, Job: job})
		}
	}
	return nil
}

func (r *Reader) readInspection(ctx context.Context, o *observed.Cluster, volume *observed.Volume) error {
	name, job := o.Names.InspectionJob(volume.Ordinal), &batchv1.Job{}
	found, err := observed.Read(ctx, r.Live, o.Cluster.Namespace, name, job)
	if err != nil {
		return err
	}
	if found && !observed.Foreign(job, o.Cluster) {
		volume.Job = job
	}
	volume.Inspection, err = workload.Observe(ctx, r.Live, r.Live, o.Cluster, name)
	return err
}

// userOf a claim is a pod that mounts it and may write; empty: there is none.
func userOf(claim string, pods []corev1.Pod, inspection *batchv1.Job) string {
	for i := range pods {
		pod := &pods[i]
		if observed.PodEnded(pod) || inspection != nil && metav1.IsControlledBy(pod, inspection) {
			continue
		}
		if slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim
		}) {
			return pod.Name
		}
	}
	return ""
}
