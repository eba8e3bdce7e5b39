package main

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/workload"
)

// rollOut names another image in the spec of all clusters, and waits until all run in it.
func (b *bench) rollOut(ctx context.Context) error {
	const scenario, image = "rollout", "postgres:17-other"
	rolling, stopRolling, err := b.countPeak(ctx, &v1alpha1.PostgresCluster{}, inRollout)
	if err != nil {
		return err
	}
	defer stopRolling()
	trials, stopTrials, err := b.countPeak(ctx, &batchv1.Job{}, b.running(workload.ComponentImage))
	if err != nil {
		return err
	}
	defer stopTrials()
	begin := time.Now()
	if err := b.patchAll(ctx, fmt.Sprintf(`{"spec":{"image":%q}}`, image)); err != nil {
		return err
	}
	b.note(scenario, "s until all specs name another image", "%.1f", time.Since(begin).Seconds())
	_, err = b.changeUntil(ctx, scenario, "all clusters run in another image", b.all(ctx, func(cluster *v1alpha1.PostgresCluster) bool {
		return cluster.Status.Image == image && cluster.Status.Rollout == nil && isReady(cluster)
	}))
	if err != nil {
		return err
	}
	b.note(scenario, "s until all run in it", "%.0f", time.Since(begin).Seconds())
	clusters, _ := rolling.read()
	jobs, _ := trials.read()
	b.note(scenario, "most clusters in transition, most Jobs that try the image; limit", "%d, %d; %d", clusters, jobs, mostRollouts)
	return nil
}

// inRollout puts the clusters into one group to which something is rolled out.
func inRollout(object client.Object) string {
	if object.(*v1alpha1.PostgresCluster).Status.Rollout == nil {
		return ""
	}
	return "all"
}

// running groups Jobs that have not ended by node.
func (b *bench) running(component string) func(client.Object) string {
	return func(object client.Object) string {
		job := object.(*batchv1.Job)
		if job.Labels[v1alpha1.LabelComponent] != component || len(job.Status.Conditions) > 0 {
			return ""
		}
		return b.kubelet.node(client.ObjectKey{Namespace: job.Namespace, Name: job.Labels[v1alpha1.LabelCluster]}, 0)
	}
}
