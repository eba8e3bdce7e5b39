//go:build integration

package upgrade

import (
	"context"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/workload"
	"howdah.dev/howdah/test/testkit/jobs"
)

// standIn does what the db-controller, the backup-controller, the Job controller and the agent would do now. What fails is tried
// again.
func (l *lab) standIn(ctx context.Context) {
	upgrades, all := &v1alpha1.UpgradeList{}, &batchv1.JobList{}
	if l.List(ctx, all, client.InNamespace(l.ns)) != nil || l.List(ctx, upgrades, client.InNamespace(l.ns)) != nil {
		return
	}
	l.asRestoreController(ctx)
	clusters := &v1alpha1.PostgresClusterList{}
	if l.List(ctx, clusters, client.InNamespace(l.ns)) != nil {
		return
	}
	for i := range clusters.Items {
		l.asDBController(ctx, &clusters.Items[i], upgrades.Items)
	}
	for i := range upgrades.Items {
		l.asBackupController(ctx, &upgrades.Items[i])
	}
	for i := range all.Items {
		l.judge(ctx, &all.Items[i])
		jobs.Run(ctx, l, &all.Items[i], l.outcome(&all.Items[i]))
	}
}

func (l *lab) asDBController(ctx context.Context, shop *v1alpha1.PostgresCluster, upgrades []v1alpha1.Upgrade) {
	status := &shop.Status
	before := shop.DeepCopy()
	status.ObservedGeneration = shop.Generation
	asks := protocol.LockRequests(shop, nil, upgrades)
	status.VolumeLocks = protocol.VolumeLocks(status.VolumeLocks, asks, protocol.LockFacts{
		Stopped: true, Now: time.Now(), Volumes: []v1alpha1.LockedVolume{{Instance: shop.Name + "-0", ClaimName: "data-" + shop.Name + "-0"}, {Instance: shop.Name + "-1", ClaimName: "data-" + shop.Name + "-1"}},
	})
	if ask := protocol.PendingHandover(status.VolumeLocks, asks); ask != nil {
		status.VolumeLocks = protocol.Adopt(status.VolumeLocks, ask)
		status.DataGeneration, status.MajorVersion, status.Image = ask.Handover.DataGeneration, ask.Handover.MajorVersion, ask.Handover.Image
		status.SystemIdentifier, status.DataInstance = ask.Handover.SystemIdentifier, ask.Handover.Instance
	}
	status.ReleasedDataGenerations = protocol.Release(shop, protocol.ReleaseRequests(shop, nil, upgrades), asks, protocol.Writers(shop, nil, upgrades))
	ready := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonRunning}
	l.set(func() {
		if status.DataGeneration == l.refuses || protocol.MustBeStopped(status.VolumeLocks, asks) {
			ready.Status, ready.Reason = metav1.ConditionFalse, v1alpha1.ReasonStarting
		}
	})
	meta.SetStatusCondition(&status.Conditions, ready)
	if ready.Status == metav1.ConditionTrue {
		status.VolumeLocks = protocol.Serve(status.VolumeLocks, status.DataGeneration, metav1.Now())
	}
	_ = l.Status().Patch(ctx, shop, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// asBackupController takes the backup that an Upgrade asks for.
func (l *lab) asBackupController(ctx context.Context, upgrade *v1alpha1.Upgrade) {
	ask, backsUp := protocol.BackupRequestOf(upgrade), false
	l.set(func() { backsUp = l.backsUp })
	if ask == nil || !backsUp {
		return
	}
	backup := protocol.NewBackup(ask)
	if client.IgnoreAlreadyExists(l.Create(ctx, backup)) != nil || l.Get(ctx, client.ObjectKeyFromObject(backup), backup) != nil {
		return
	}
	before := backup.DeepCopy()
	backup.Status.ObservedGeneration = backup.Generation
	backup.Status.Plan = &v1alpha1.BackupPlan{ID: backup.Name, Repository: "repo", Lineage: l.lineage(ctx), ClusterUID: ask.Request.ClusterUID}
	meta.SetStatusCondition(&backup.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionSucceeded, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonCompleted,
	})
	_ = l.Status().Patch(ctx, backup, client.MergeFrom(before))
}

// lineage that the cluster shop archives to now.
func (l *lab) lineage(ctx context.Context) string {
	shop := &v1alpha1.PostgresCluster{ObjectMeta: l.meta("shop")}
	if l.Get(ctx, client.ObjectKeyFromObject(shop), shop) != nil {
		return ""
	}
	return protocol.Lineage(shop.Status.SystemIdentifier, shop.Status.DataGeneration)
}

func (l *lab) outcome(job *batchv1.Job) (outcome *agentapi.Outcome) {
	l.set(func() {
		outcome = l.work
		switch {
		case strings.HasSuffix(job.Name, "-upgrade-check"):
			outcome = l.check
		case strings.HasSuffix(job.Name, "-check"):
			outcome = l.look
		case strings.HasSuffix(job.Name, "-data-0") && l.comparing:
			outcome = nil
		case strings.HasSuffix(job.Name, "-data-0"):
			outcome = result(ended("shut down", "0/5", 2))
		case strings.HasSuffix(job.Name, "-data-1") && l.lags:
			outcome = result(ended("shut down in recovery", "0/4", 2))
		case strings.HasSuffix(job.Name, "-data-1"):
			outcome = result(ended("shut down in recovery", "0/5", 2))
		}
	})
	return outcome
}

// judge says whether a Job may write to the volume: it is there before and after a look at the cluster, which is its Upgrade's.
func (l *lab) judge(ctx context.Context, job *batchv1.Job) {
	shop, after := &v1alpha1.PostgresCluster{ObjectMeta: l.meta(job.Labels[v1alpha1.LabelCluster])}, l.job(job.Name)
	if job.Labels[v1alpha1.LabelComponent] != workload.ComponentUpgrade || len(job.Status.Conditions) > 0 ||
		l.Get(ctx, client.ObjectKeyFromObject(shop), shop) != nil || l.Get(ctx, client.ObjectKeyFromObject(job), after) != nil || after.UID != job.UID {
		return
	}
	if holds := shop.Status.VolumeLocks; len(holds) != 1 || holds[0].State != v1alpha1.VolumeLockGranted {
		l.Errorf("Job %s may write, and nobody granted it the volume: %+v", job.Name, holds)
	}
}
