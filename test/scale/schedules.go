package main

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/workload"
)

// schedules has a backup of every cluster come due in the same minute.
func (b *bench) schedules(ctx context.Context) error {
	if err := b.archive(ctx); err != nil {
		return err
	}
	due, err := b.schedule(ctx)
	if err != nil {
		return err
	}
	jobs, stop, err := b.countPeak(ctx, &batchv1.Job{}, b.running(workload.ComponentBackup))
	if err != nil {
		return err
	}
	defer stop()
	if err := pause(ctx, time.Until(due)); err != nil {
		return err
	}
	scenario, exist, succeeded := fmt.Sprintf("%d schedules in one minute", b.n), time.Duration(0), 0
	_, err = b.changeUntil(ctx, scenario, "all Backups have ended", func() bool {
		created, ended, well := b.countBackups(ctx)
		if created == b.n && exist == 0 {
			exist = time.Since(due)
		}
		succeeded = well
		return ended == b.n
	})
	if err != nil {
		return err
	}
	b.note(scenario, "s until all Backups exist, until all have ended; how many have succeeded", "%.0f, %.0f; %d", exist.Seconds(), time.Since(due).Seconds(), succeeded)
	all, ofNode := jobs.read()
	b.note(scenario, "most Jobs at a time, most on one node; limits", "%d, %d; %d, %d", all, ofNode, mostBackups, mostBackupsOfNode)
	return nil
}

// archive has all clusters archive to a repository, and waits until they do. That replaces their pods.
func (b *bench) archive(ctx context.Context) error {
	if err := b.makeRepositories(ctx, b.namespaces()); err != nil {
		return err
	}
	begin := time.Now()
	if err := b.patchAll(ctx, fmt.Sprintf(`{"spec":{"archive":{"repository":{"name":%q}}}}`, repository)); err != nil {
		return err
	}
	_, err := b.await(ctx, "all clusters archive", b.all(ctx, func(cluster *v1alpha1.PostgresCluster) bool {
		return cluster.Status.ObservedGeneration == cluster.Generation && cluster.Status.Archive != nil && cluster.Status.Rollout == nil &&
			isReady(cluster) && meta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.ConditionUpToDate)
	}))
	b.note("schedules", "s until all clusters archive, which replaces their pods", "%.0f", time.Since(begin).Seconds())
	return err
}

// schedule creates a BackupSchedule for each cluster, and says when all of them are due.
func (b *bench) schedule(ctx context.Context) (time.Time, error) {
	// Time to create them, and for the controller to plan them.
	due := time.Now().UTC().Add(15*time.Second + time.Duration(b.n)*40*time.Millisecond).Truncate(time.Minute).Add(time.Minute)
	err := each(ctx, b.n, func(ctx context.Context, i int) error {
		key := b.key(i)
		return b.live.Create(ctx, &v1alpha1.BackupSchedule{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
			Spec: v1alpha1.BackupScheduleSpec{
				Cluster: v1alpha1.LocalReference{Name: key.Name}, Schedule: fmt.Sprintf("%d %d * * *", due.Minute(), due.Hour()),
			},
		})
	})
	if err != nil {
		return due, err
	}
	_, err = b.await(ctx, "all schedules are planned", func() bool {
		schedules := &v1alpha1.BackupScheduleList{}
		if b.client.List(ctx, schedules, client.UnsafeDisableDeepCopy) != nil || len(schedules.Items) != b.n {
			return false
		}
		for i := range schedules.Items {
			if next := schedules.Items[i].Status.NextScheduleTime; next == nil || !next.Time.Equal(due) {
				return false
			}
		}
		return true
	})
	if err == nil && time.Until(due) < 0 {
		err = fmt.Errorf("the schedules were planned %s after they were due", time.Since(due).Round(time.Second))
	}
	return due, err
}

// countBackups of the schedules.
func (b *bench) countBackups(ctx context.Context) (created, ended, succeeded int) {
	backups := &v1alpha1.BackupList{}
	if b.client.List(ctx, backups, client.UnsafeDisableDeepCopy, client.HasLabels{v1alpha1.LabelSchedule}) != nil {
		return 0, 0, 0
	}
	for i := range backups.Items {
		status := &backups.Items[i].Status
		if status.CompletedAt != nil {
			ended++
		}
		if meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionSucceeded) {
			succeeded++
		}
	}
	return len(backups.Items), ended, succeeded
}
