package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/apis/v1alpha1"
)

// finishedBackups measures what Backups cost that have ended long ago, all in one namespace and spread over a hundred.
func (b *bench) finishedBackups(ctx context.Context) error {
	for _, spread := range []int{1, 100} {
		if err := b.finishedIn(ctx, min(spread, b.settings.backups)); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) finishedIn(ctx context.Context, spread int) error {
	scenario, controller := fmt.Sprintf("%d Backups in %d namespaces", b.settings.backups, spread), b.controllers[1]
	namespaces := make([]string, spread)
	for i := range namespaces {
		namespaces[i] = fmt.Sprintf("finished-%d-%d", spread, i)
		if err := b.live.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespaces[i]}}); err != nil {
			return err
		}
	}
	if err := b.makeRepositories(ctx, namespaces); err != nil {
		return err
	}
	controller.kill() // so that none of them is looked at twice
	if err := each(ctx, b.settings.backups, func(ctx context.Context, i int) error {
		return b.finish(ctx, finished(namespaces[i%spread], i))
	}); err != nil {
		return err
	}
	for _, what := range []string{"first start", "kill -9"} {
		controller.kill()
		if err := controller.start(ctx); err != nil {
			return err
		}
		took, used, err := b.awaitSettled(ctx, controller)
		if err != nil {
			return err
		}
		b.note(scenario, what+": s until the backup-controller has looked at all and rests; processor seconds, MiB, API requests, passes", "%.0f; %.1f, %.0f, %.0f, %.0f",
			took.Seconds(), used.cpu.Seconds(), used.rssMiB, used.requests, used.passes)
	}
	both := []*process{controller, b.controllers[0]}
	used, err := watch(ctx, b.settings.idle, both...)
	if err != nil {
		return err
	}
	for i, p := range both {
		b.note(scenario, "idle, "+p.name+usage, "%s", used[i])
	}
	return each(ctx, b.settings.backups, func(ctx context.Context, i int) error {
		return b.live.Delete(ctx, finished(namespaces[i%spread], i))
	})
}

// finish creates a Backup, and writes the status that says how it ended.
func (b *bench) finish(ctx context.Context, backup *v1alpha1.Backup) error {
	status := backup.Status
	if err := b.live.Create(ctx, backup); err != nil {
		return err
	}
	backup.Status = status
	return b.live.Status().Update(ctx, backup)
}

// finished is a Backup as it is when it has succeeded, but for its finalizer: who deletes it has no data to delete before.
func finished(namespace string, i int) *v1alpha1.Backup {
	// Ten for each cluster.
	cluster, ended := fmt.Sprintf("shop-%d", i/10), metav1.NewTime(time.Now().Add(-24*time.Hour).Truncate(time.Second))
	name := fmt.Sprintf("nightly-%d", i)
	return &v1alpha1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{v1alpha1.LabelCluster: cluster, v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}},
		Spec:       v1alpha1.BackupSpec{Cluster: v1alpha1.LocalReference{Name: cluster}},
		Status: v1alpha1.BackupStatus{
			ObservedGeneration: 1,
			Plan: &v1alpha1.BackupPlan{
				ID: ended.UTC().Format("20060102T150405Z") + "-" + name, Type: v1alpha1.BackupFull, Repository: repository,
				Lineage: "7000000000000000001-" + cluster, ClusterUID: types.UID(cluster), Instance: cluster + "-0", Volume: "data-" + cluster + "-0", Node: "w0", Attempt: 1,
			},
			Type: v1alpha1.BackupFull, StartedAt: &ended, CompletedAt: &ended, StopTime: &ended, Version: release,
			StartLSN: "0/2000028", StopLSN: "0/2000100", LogicalBytes: logicalBytes, ChangedBytes: logicalBytes, StoredBytes: logicalBytes / 4,
			Conditions: []metav1.Condition{{
				Type: v1alpha1.ConditionSucceeded, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonCompleted, LastTransitionTime: ended, ObservedGeneration: 1,
				Message: "Backed up 256.0 MiB in 10s (25.6 MiB/s). It takes 64.0 MiB in the bucket, and can be restored to any time from " + ended.UTC().Format(time.RFC3339) + " on.",
			}},
		},
	}
}

const (
	// restingCores is less than a process uses that works through what it found at its start.
	restingCores = 0.1
	// restingFor is how long it has to rest until it counts as settled, which is not part of the time that it took.
	restingFor = 5
)

// awaitSettled waits until a controller that has just started has looked at all finished Backups, and uses next to nothing.
func (b *bench) awaitSettled(ctx context.Context, controller *process) (time.Duration, use, error) {
	begin, rested := time.Now(), 0
	var last, settled use
	for time.Since(begin) < b.settings.patience {
		if err := pause(ctx, time.Second); err != nil {
			return 0, use{}, err
		}
		now, err := controller.use()
		if err != nil {
			rested = 0 // it doesn't serve metrics yet
			continue
		}
		if !last.at.IsZero() && now.since(last).cores < restingCores && now.passes >= float64(b.settings.backups) {
			rested++
		} else {
			rested, settled = 0, now
		}
		if rested == restingFor {
			return settled.at.Sub(begin), settled, nil
		}
		last = now
	}
	return 0, use{}, fmt.Errorf("the %s does not come to rest within %s: it has made %.0f passes, and used %.1f processor seconds", controller.name, b.settings.patience, last.passes, last.cpu.Seconds())
}
