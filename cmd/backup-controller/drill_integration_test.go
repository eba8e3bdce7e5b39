//go:build integration

package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
)

// drilled is a repository that drills when its token changes.
func (b *bed) drilled(change ...func(*v1alpha1.RepositoryDrill)) *v1alpha1.BackupRepository {
	b.Helper()
	repo := b.repository("minio")
	repo.Spec.Drill = &v1alpha1.RepositoryDrill{
		Schedule: "@yearly", Token: "first", Cluster: v1alpha1.LocalReference{Name: "shop"},
		Assertions: []v1alpha1.DrillAssertion{{Name: "orders", Query: "SELECT count(*) > 0 FROM orders"}},
	}
	for _, c := range change {
		c(repo.Spec.Drill)
	}
	b.make(repo)
	return repo
}

// drillRestore waits for the Restore of a drill.
func (b *bed) drillRestore(repo *v1alpha1.BackupRepository) *v1alpha1.Restore {
	b.Helper()
	b.eventually(repo, "a Restore", func() bool {
		return repo.Status.Drill != nil && repo.Status.Drill.UnderWay != nil && repo.Status.Drill.UnderWay.RestoreUID != ""
	})
	restore := &v1alpha1.Restore{}
	if err := b.Get(b.Context(), client.ObjectKey{Namespace: b.namespace, Name: repo.Status.Drill.UnderWay.Name}, restore); err != nil {
		b.Fatal(err)
	}
	return restore
}

// restored has the Restore succeed, as the restore-controller and the db-controller do.
func (b *bed) restored(restore *v1alpha1.Restore) *v1alpha1.PostgresCluster {
	b.Helper()
	cluster := b.cluster(restore.Name, func(cluster *v1alpha1.PostgresCluster) {
		cluster.Annotations = map[string]string{v1alpha1.AnnotationRestoredBy: string(restore.UID)}
		cluster.Spec.Archive = nil
		cluster.Spec.Bootstrap = &v1alpha1.Bootstrap{Restore: &v1alpha1.BootstrapRestore{Name: restore.Name, Database: "store", Owner: "pruner"}}
	})
	b.say(cluster, func(status *v1alpha1.PostgresClusterStatus) {
		status.Connection.SuperuserSecret = cluster.Name + "-superuser"
	})
	restore.Status.Plan = &v1alpha1.RestorePlan{
		Repository: "minio", Lineage: "7-g1", BackupID: "b1", Timeline: 1, FirstWAL: "a", LastWAL: "b", MajorVersion: 17,
		Image: "postgresql:17", SystemIdentifier: "7", Target: "the end", DataGeneration: "g2",
	}
	b.endRestore(restore, metav1.ConditionTrue, v1alpha1.ReasonCompleted, "it runs")
	return cluster
}

func (b *bed) endRestore(restore *v1alpha1.Restore, status metav1.ConditionStatus, reason, message string) {
	b.Helper()
	restore.Status.CompletedAt = &metav1.Time{Time: restore.CreationTimestamp.Add(90 * time.Second)}
	meta.SetStatusCondition(&restore.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionSucceeded, Status: status, Reason: reason, Message: message})
	if err := b.Status().Update(b.Context(), restore); err != nil {
		b.Fatal(err)
	}
}

func (b *bed) awaitDrilled(repo *v1alpha1.BackupRepository, status metav1.ConditionStatus, reason string) *metav1.Condition {
	b.Helper()
	var condition *metav1.Condition
	b.eventually(repo, "Drilled "+string(status)+" "+reason, func() bool {
		condition = meta.FindStatusCondition(repo.Status.Conditions, v1alpha1.ConditionDrilled)
		return condition != nil && condition.Status == status && condition.Reason == reason
	})
	return condition
}

// putAway waits until nothing is left of a drill. The cluster goes as Kubernetes' garbage collector lets it.
func (b *bed) putAway(repo *v1alpha1.BackupRepository, restore *v1alpha1.Restore, cluster *v1alpha1.PostgresCluster) {
	b.Helper()
	b.eventuallyGone(restore)
	if cluster != nil {
		if repo.Status.Drill.UnderWay == nil {
			b.Error("the drill was over while its cluster was there")
		}
		b.remove(cluster)
	}
	b.eventually(repo, "the end of the drill", func() bool { return repo.Status.Drill == nil || repo.Status.Drill.UnderWay == nil })
	jobs := &batchv1.JobList{}
	if err := b.List(b.Context(), jobs, client.InNamespace(b.namespace)); err != nil || len(jobs.Items) > 0 {
		b.Errorf("Jobs are left: %v, %v", jobs.Items, err)
	}
}

func drillResult(result agentapi.DrillResult) *agentapi.Outcome {
	raw, _ := json.Marshal(result)
	return &agentapi.Outcome{Result: raw}
}

func TestADrillRestoresAsideLooksAndLeavesNothingBehind(t *testing.T) {
	b := newBed(t)
	repo := b.drilled(func(drill *v1alpha1.RepositoryDrill) {
		drill.Storage = &v1alpha1.NewStorage{Size: "2Gi"}
		drill.Resources = &v1alpha1.Resources{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}}
	})
	restore := b.drillRestore(repo)
	wanted := restore.Spec.Destination.NewCluster
	if !metav1.IsControlledBy(restore, repo) || restore.Spec.Source.Cluster.Name != "shop" || restore.Spec.Source.Cluster.Repository.Name != "minio" || restore.Spec.Target != nil {
		t.Errorf("the Restore is %+v", restore)
	}
	if !wanted.Temporary || !*wanted.SuperuserAccess || wanted.Storage.Size != "2Gi" || wanted.Resources == nil || wanted.Parameters["max_logical_replication_workers"] != "0" {
		t.Errorf("the new cluster is %+v", wanted)
	}
	b.awaitDrilled(repo, metav1.ConditionUnknown, v1alpha1.ReasonNotDrilledYet)
	cluster := b.restored(restore)

	job := b.job(restore.Name + "-check")
	config, task := &corev1.ConfigMap{}, agentapi.DrillJob{}
	if err := b.Get(t.Context(), client.ObjectKeyFromObject(job), config); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(config.Data["job.json"]), &task); err != nil {
		t.Fatal(err)
	}
	if task.Host != cluster.Status.Connection.Host || task.Database != "store" || task.MajorVersion != 17 || len(task.Assertions) != 1 {
		t.Errorf("job.json %+v", task)
	}
	pod := job.Spec.Template.Spec
	if *pod.AutomountServiceAccountToken || pod.Containers[0].Image != "postgresql:17" {
		t.Errorf("the pod is %+v", pod)
	}
	for _, volume := range pod.Volumes {
		if volume.PersistentVolumeClaim != nil || volume.Secret != nil && !strings.HasPrefix(volume.Secret.SecretName, restore.Name) {
			t.Errorf("the Job mounts %+v", volume)
		}
	}

	b.end(job, drillResult(agentapi.DrillResult{Seconds: 7}))
	condition := b.awaitDrilled(repo, metav1.ConditionTrue, v1alpha1.ReasonDrilled)
	if condition.Message != "Backup b1 was restored in 1m30s; pg_amcheck found no damage, and 1 of 1 assertions are true." {
		t.Error(condition.Message)
	}
	b.putAway(repo, restore, cluster)
	last := repo.Status.Drill.Last
	if last.RestoreSeconds != 90 || last.CheckSeconds != 7 || last.BackupID != "b1" || repo.Status.Drill.LastSuccessTime == nil || repo.Status.Drill.Token != "first" {
		t.Errorf("status %+v, last %+v", repo.Status.Drill, last)
	}
}

func TestAFailedAssertionMakesTheConditionFalseUntilADrillSucceeds(t *testing.T) {
	b := newBed(t)
	repo := b.drilled()
	restore := b.drillRestore(repo)
	cluster := b.restored(restore)
	b.end(b.job(restore.Name+"-check"), drillResult(agentapi.DrillResult{FailedCount: 1, Failed: []agentapi.FailedAssertion{{Name: "orders", Message: "it is false"}}}))
	condition := b.awaitDrilled(repo, metav1.ConditionFalse, v1alpha1.ReasonAssertionFailed)
	if !strings.Contains(condition.Message, "1 of 1 assertions are false: assertion orders: it is false.") {
		t.Error(condition.Message)
	}
	b.eventuallyEvent("minio", v1alpha1.ReasonAssertionFailed)
	b.putAway(repo, restore, cluster)

	b.change(repo, func() { repo.Spec.Drill.Token = "second" })
	again := b.drillRestore(repo)
	if again.Name == restore.Name {
		t.Errorf("two drills have the name %s", again.Name)
	}
	b.awaitDrilled(repo, metav1.ConditionFalse, v1alpha1.ReasonAssertionFailed)
	cluster = b.restored(again)
	b.end(b.job(again.Name+"-check"), drillResult(agentapi.DrillResult{}))
	b.awaitDrilled(repo, metav1.ConditionTrue, v1alpha1.ReasonDrilled)
	b.putAway(repo, again, cluster)
}

func TestARestoreThatFailsIsSaidAndPutAway(t *testing.T) {
	b := newBed(t)
	repo := b.drilled()
	restore := b.drillRestore(repo)
	b.endRestore(restore, metav1.ConditionFalse, v1alpha1.ReasonBackupNotFound, "there is no backup")
	condition := b.awaitDrilled(repo, metav1.ConditionFalse, v1alpha1.ReasonRestoreFailed)
	if want := "Restore " + restore.Name + " has failed (BackupNotFound): there is no backup"; condition.Message != want {
		t.Error(condition.Message)
	}
	b.putAway(repo, restore, nil)
}

func TestADrillThatTakesTooLongIsEndedAndOneWithoutABackupFails(t *testing.T) {
	b := newBed(t)
	repo := b.drilled(func(drill *v1alpha1.RepositoryDrill) { drill.TimeoutSeconds = 60 })
	restore := b.drillRestore(repo)
	b.eventually(repo, "a drill that began long ago", func() bool {
		run := repo.Status.Drill.UnderWay
		run.StartedAt = metav1.Time{Time: run.StartedAt.Add(-time.Hour)}
		return b.Status().Update(b.Context(), repo) == nil
	})
	b.awaitDrilled(repo, metav1.ConditionFalse, v1alpha1.ReasonDrillTimedOut)
	b.putAway(repo, restore, nil)

	b.change(repo, func() { repo.Spec.Drill.Token, repo.Spec.Drill.Target = "second", v1alpha1.DrillRandomTime })
	b.awaitDrilled(repo, metav1.ConditionFalse, v1alpha1.ReasonBackupNotFound)
	b.putAway(repo, restore, nil)
}

func TestWhatIsSomebodyElsesIsLeftAloneAndAnUnwantedDrillIsPutAway(t *testing.T) {
	b := newBed(t)
	repo := b.drilled()
	restore := b.drillRestore(repo)
	other := b.cluster(restore.Name)
	b.change(repo, func() { repo.Spec.Drill = nil })
	b.putAway(repo, restore, nil)
	b.eventually(repo, "a repository that says nothing of drills", func() bool {
		return repo.Status.Drill == nil && meta.FindStatusCondition(repo.Status.Conditions, v1alpha1.ConditionDrilled) == nil
	})
	if err := b.Get(t.Context(), client.ObjectKeyFromObject(other), other); apierrors.IsNotFound(err) || !other.DeletionTimestamp.IsZero() {
		t.Errorf("somebody else's PostgresCluster was touched: %v", err)
	}
}

func TestDrillsComeWithTheTimesOfTheirScheduleAndNotWhileSuspended(t *testing.T) {
	b := newBed(t)
	repo := b.drilled(func(drill *v1alpha1.RepositoryDrill) { drill.Token = "" })
	come := func() {
		b.eventually(repo, "a time that has come", func() bool {
			if repo.Status.Drill == nil {
				return false
			}
			repo.Status.Drill.NextScheduleTime = &metav1.Time{Time: time.Now().Truncate(time.Second)}
			return b.Status().Update(b.Context(), repo) == nil
		})
	}
	b.eventually(repo, "a planned time", func() bool { return repo.Status.Drill != nil && repo.Status.Drill.NextScheduleTime != nil })
	if repo.Status.Drill.UnderWay != nil {
		t.Errorf("a drill that nobody asked for: %+v", repo.Status.Drill.UnderWay)
	}
	b.change(repo, func() { repo.Spec.Drill.Suspend = true })
	b.eventually(repo, "no planned time", func() bool { return repo.Status.Drill.NextScheduleTime == nil })
	come()
	b.eventually(repo, "no planned time", func() bool { return repo.Status.Drill.NextScheduleTime == nil })
	if repo.Status.Drill.UnderWay != nil || repo.Status.Drill.LastScheduleTime != nil {
		t.Errorf("a drill of a suspended schedule: %+v", repo.Status.Drill)
	}
	b.change(repo, func() { repo.Spec.Drill.Suspend = false })
	b.eventually(repo, "a planned time", func() bool { return repo.Status.Drill.NextScheduleTime != nil })
	come()
	b.drillRestore(repo)
}
