//go:build integration

package main

import (
	"errors"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/objstore"
)

func TestABackupIsTakenByAJobBesideTheInstanceAndLeavesNothingIdle(t *testing.T) {
	b := newBed(t)
	cluster := b.archived("shop")
	backup, job := b.underWay("first", "shop")

	plan := backup.Status.Plan
	if plan.Lineage != "7-g1" || plan.Instance != "shop-0" || plan.Node != "w1" || plan.ClusterUID != cluster.UID || plan.Attempt != 1 {
		t.Errorf("plan %+v", plan)
	}
	spec := b.told(job)
	if spec.BackupID != plan.ID || spec.Host != "shop-0.shop-pods."+b.namespace+".svc" || spec.Address != "10.0.0.7" || spec.Image != "postgresql:17" || spec.Repository.Bucket != b.bucket {
		t.Errorf("job.json %+v", spec)
	}
	pod := job.Spec.Template.Spec
	for _, mount := range pod.Containers[0].VolumeMounts {
		if mount.MountPath == agentapi.VolumeDir && !mount.ReadOnly {
			t.Errorf("the data is mounted as %+v", mount)
		}
	}
	if limit := pod.Containers[0].Resources.Limits.Memory().String(); limit != "256Mi" {
		t.Errorf("memory limit %s", limit)
	}

	b.end(job, success())
	condition := b.awaitReason(backup, metav1.ConditionTrue, v1alpha1.ReasonCompleted)
	if !strings.HasPrefix(condition.Message, "Backed up 100.0 MiB in ") || backup.Status.StoredBytes != 10<<20 || backup.Status.Version != "17.5" {
		t.Errorf("%s; status %+v", condition.Message, backup.Status)
	}
	for _, object := range []client.Object{&batchv1.Job{}, &corev1.ConfigMap{}, &corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}} {
		object.SetName(job.Name)
		object.SetNamespace(b.namespace)
		b.eventuallyGone(object)
	}
}

func TestAResultThatCannotBeReadIsFoundInTheRepository(t *testing.T) {
	b := newBed(t)
	b.archived("shop")
	backup, job := b.underWay("first", "shop")
	b.commitBackup(backup.Status.Plan)
	b.end(job, nil)
	b.awaitReason(backup, metav1.ConditionTrue, v1alpha1.ReasonCompleted)
	if backup.Status.Version != "17.5" || backup.Status.LogicalBytes == 0 {
		t.Errorf("status %+v", backup.Status)
	}
}

func TestAManifestWhosePacksWereClearedAwayIsNoResult(t *testing.T) {
	b := newBed(t)
	b.archived("shop")
	backup, job := b.underWay("first", "shop")
	manifest := b.commitBackup(backup.Status.Plan)
	for info, err := range b.store.List(t.Context(), "lineages/", "") {
		if err == nil && strings.Contains(info.Key, "/packs/") {
			err = b.store.Delete(t.Context(), info.Key)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	b.end(job, nil)
	second := b.job("first-backup-2")
	if _, err := b.store.Stat(t.Context(), manifest); !errors.Is(err, objstore.ErrNotFound) {
		t.Errorf("the manifest is still there: %v", err)
	}
	b.commitBackup(backup.Status.Plan)
	b.end(second, success())
	b.awaitReason(backup, metav1.ConditionTrue, v1alpha1.ReasonCompleted)
}

func TestABackupThatIsNotPossibleFailsAtOnceWithASentence(t *testing.T) {
	b := newBed(t)
	b.make(b.repository("minio"))
	b.cluster("bare", func(c *v1alpha1.PostgresCluster) { c.Spec.Archive = nil })
	for name, test := range map[string]struct{ cluster, reason, sentence string }{
		"no-cluster": {"nobody", v1alpha1.ReasonClusterNotFound, "PostgresCluster nobody does not exist in namespace "},
		"no-archive": {"bare", v1alpha1.ReasonNoArchive, "PostgresCluster bare has no spec.archive"},
	} {
		t.Run(name, func(t *testing.T) {
			condition := b.awaitReason(b.backup(name, test.cluster), metav1.ConditionFalse, test.reason)
			if !strings.HasPrefix(condition.Message, test.sentence) {
				t.Errorf("message %s", condition.Message)
			}
		})
	}
}

func TestABackupWaitsForItsRepositoryAndItsCluster(t *testing.T) {
	b := newBed(t)
	cluster := b.cluster("shop")
	backup := b.backup("first", "shop")
	b.awaitReason(backup, metav1.ConditionUnknown, v1alpha1.ReasonRepositoryNotFound)

	buckets.set(b.bucket, nil)
	repo := b.repository("minio")
	b.make(repo)
	condition := b.awaitReason(backup, metav1.ConditionUnknown, v1alpha1.ReasonRepositoryNotReady)
	b.eventually(backup, "the repository's own words", func() bool {
		condition = &backup.Status.Conditions[0]
		return strings.Contains(condition.Message, "it is away")
	})

	b.say(cluster, func(*v1alpha1.PostgresClusterStatus) { setReady(cluster, metav1.ConditionFalse, "It is starting.") })
	buckets.set(b.bucket, b.store)
	b.change(repo, func() { repo.Spec.S3.Region = "eu-central-1" })
	condition = b.awaitReason(backup, metav1.ConditionUnknown, v1alpha1.ReasonClusterNotReady)
	if !strings.Contains(condition.Message, "It is starting.") {
		t.Errorf("message %s", condition.Message)
	}
	if backup.Status.Plan != nil {
		t.Errorf("a plan was made: %+v", backup.Status.Plan)
	}
	b.say(cluster, func(*v1alpha1.PostgresClusterStatus) { setReady(cluster, metav1.ConditionTrue, "") })
	b.job("first-backup")
}

func TestOneBackupOfAClusterRunsAtATimeAndTheNextFollows(t *testing.T) {
	b := newBed(t)
	b.archived("shop")
	first := b.backup("first", "shop")
	job := b.job("first-backup")
	second := b.backup("second", "shop")
	if condition := b.awaitReason(second, metav1.ConditionUnknown, v1alpha1.ReasonQueued); !strings.Contains(condition.Message, "Backup first") {
		t.Errorf("message %s", condition.Message)
	}
	b.end(job, success())
	b.awaitReason(first, metav1.ConditionTrue, v1alpha1.ReasonCompleted)
	b.job("second-backup")
}

func TestARepositoryTakesAsManyBackupsAtATimeAsItSays(t *testing.T) {
	b := newBed(t)
	repo, one := b.repository("minio"), int32(1)
	repo.Spec.MaxConcurrentBackups = &one
	b.make(repo)
	for _, name := range []string{"shop", "blog", "wiki"} {
		b.cluster(name)
	}
	first, firstJob := b.underWay("first", "shop")
	second := b.backup("second", "blog")
	if condition := b.awaitReason(second, metav1.ConditionUnknown, v1alpha1.ReasonQueued); condition.Message !=
		"The limit of concurrent backups is reached: 1 in BackupRepository minio (its spec.maxConcurrentBackups)." || second.Status.StartedAt != nil {
		t.Errorf("message %s, started at %v", condition.Message, second.Status.StartedAt)
	}
	requested := &v1alpha1.Backup{}
	requested.Name, requested.Spec.Cluster.Name = "requested", "wiki"
	requested.Spec.RequestedBy = &v1alpha1.Requester{Kind: v1alpha1.KindUpgrade, Name: "to-18", UID: "u", Purpose: v1alpha1.PurposeSafety}
	b.make(requested)
	b.awaitReason(requested, metav1.ConditionUnknown, v1alpha1.ReasonQueued)

	b.end(firstJob, success())
	b.awaitReason(first, metav1.ConditionTrue, v1alpha1.ReasonCompleted)
	requestedJob := b.job("requested-backup") // what an Upgrade waits for goes first
	b.awaitReason(second, metav1.ConditionUnknown, v1alpha1.ReasonQueued)
	b.change(requested, func() { requested.Spec.Cancel = true })
	b.eventuallyGone(requestedJob)
	secondJob := b.job("second-backup")

	third := b.backup("third", "shop")
	b.awaitReason(third, metav1.ConditionUnknown, v1alpha1.ReasonQueued)
	b.change(repo, func() { repo.Spec.MaxConcurrentBackups = nil })
	b.job("third-backup")
	b.end(secondJob, success())
	b.awaitReason(second, metav1.ConditionTrue, v1alpha1.ReasonCompleted)
}

func TestACancelledBackupStopsItsJobAndRemovesWhatItLeft(t *testing.T) {
	b := newBed(t)
	b.archived("shop")
	backup, job := b.underWay("first", "shop")
	leftover := "lineages/7-g1/packs/" + backup.Status.Plan.ID + "/abc-0"
	if err := b.store.Put(t.Context(), leftover, []byte("x"), objstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	b.change(backup, func() { backup.Spec.Cancel = true })
	b.awaitReason(backup, metav1.ConditionFalse, v1alpha1.ReasonCancelled)
	b.eventuallyGone(job)
	if _, err := b.store.Stat(t.Context(), leftover); err == nil {
		t.Error("a pack was left")
	}
}

func TestAFinalErrorOfTheWorkerEndsTheBackupWithItsWords(t *testing.T) {
	b := newBed(t)
	b.archived("shop")
	backup := b.backup("first", "shop")
	b.end(b.job("first-backup"), failure("DataCorrupt", "block 3 of base/5/16384 fails its checksum", true))
	condition := b.awaitReason(backup, metav1.ConditionFalse, "DataCorrupt")
	if condition.Message != "Block 3 of base/5/16384 fails its checksum." || backup.Status.CompletedAt == nil {
		t.Errorf("message %s", condition.Message)
	}
}

func TestAnErrorThatMayPassIsTriedAgainByAnotherJobAndNotForEver(t *testing.T) {
	b := newBed(t)
	b.archived("shop")
	backup := b.backup("first", "shop")
	for _, name := range []string{"first-backup", "first-backup-2", "first-backup-3", "first-backup-4", "first-backup-5"} {
		b.end(b.job(name), failure("Unreachable", "The store is away.", false))
	}
	condition := b.awaitReason(backup, metav1.ConditionFalse, "Unreachable")
	if condition.Message != "The backup failed after 5 attempts. The last one ended with: The store is away." {
		t.Errorf("message %s", condition.Message)
	}
}

func TestAJobThatVanishesIsCreatedAgainAndOneThatFailsWithoutAWordIsFollowedByAnother(t *testing.T) {
	b := newBed(t)
	b.archived("shop")
	backup, job := b.underWay("first", "shop")
	before := job.UID
	b.remove(job)
	b.eventually(job, "the Job once more", func() bool { return job.UID != before && job.DeletionTimestamp.IsZero() })
	if err := b.Get(t.Context(), client.ObjectKeyFromObject(backup), backup); err != nil || backup.Status.Plan.Attempt != 1 {
		t.Errorf("plan %+v, %v", backup.Status.Plan, err)
	}

	b.fail(job)
	b.end(b.job("first-backup-2"), success())
	b.awaitReason(backup, metav1.ConditionTrue, v1alpha1.ReasonCompleted)
}

// fail has a Job end without a word.
func (b *bed) fail(job *batchv1.Job) {
	b.Helper()
	now := metav1.Now()
	job.Status.StartTime = &now
	for _, kind := range []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobFailed} {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now, LastProbeTime: now})
	}
	if err := b.Status().Update(b.Context(), job); err != nil {
		b.Fatal(err)
	}
}

func TestTheNextAttemptGoesToWhereTheInstanceIsByThen(t *testing.T) {
	b := newBed(t)
	cluster := b.archived("shop")
	_, job := b.underWay("first", "shop")
	b.say(cluster, func(status *v1alpha1.PostgresClusterStatus) { status.Instances[0].Address = "10.0.0.8" })
	b.fail(job)
	if spec := b.told(b.job("first-backup-2")); spec.Address != "10.0.0.8" {
		t.Errorf("the second attempt goes to %s", spec.Address)
	}
}

func TestABackupFollowsItsInstanceToAnotherNode(t *testing.T) {
	b := newBed(t)
	cluster := b.archived("shop")
	backup := b.backup("first", "shop")
	job := b.job("first-backup")
	b.say(cluster, func(status *v1alpha1.PostgresClusterStatus) { status.Instances[0].Node = "w2" })
	b.job("first-backup-2")
	b.eventually(backup, "the plan of the second attempt", func() bool { return backup.Status.Plan.Node == "w2" && backup.Status.Plan.Attempt == 2 })
	b.eventuallyGone(job)
}

func TestABackupWhoseClusterIsCreatedAgainFails(t *testing.T) {
	b := newBed(t)
	cluster := b.archived("shop")
	backup := b.backup("first", "shop")
	b.job("first-backup")
	b.remove(cluster)
	b.cluster("shop")
	b.awaitReason(backup, metav1.ConditionFalse, v1alpha1.ReasonClusterReplaced)
}

func TestAJobOfThatNameThatBelongsToSomebodyElseIsLeftAlone(t *testing.T) {
	b := newBed(t)
	b.archived("shop")
	foreign := &batchv1.Job{}
	foreign.Name = "first-backup"
	foreign.Labels = map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelComponent: "backup"}
	foreign.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "x", Image: "x"}}}
	b.make(foreign)
	backup := b.backup("first", "shop")
	b.awaitReason(backup, metav1.ConditionUnknown, v1alpha1.ReasonNameConflict)
	b.remove(backup)
	b.eventuallyGone(backup)
	if err := b.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign); err != nil || !foreign.DeletionTimestamp.IsZero() {
		t.Errorf("the foreign Job: %v", err)
	}
}

func TestAnAccountOfSomebodyElseIsNeverUsed(t *testing.T) {
	b := newBed(t)
	b.archived("shop")
	theirs := &corev1.ServiceAccount{}
	theirs.Name = "first-backup"
	b.make(theirs)
	backup := b.backup("first", "shop")
	condition := b.awaitReason(backup, metav1.ConditionUnknown, v1alpha1.ReasonNameConflict)
	if !strings.Contains(condition.Message, "ServiceAccount first-backup already exists and belongs to somebody else") {
		t.Error(condition.Message)
	}
}

// TestABackupOfManyFilesGetsTheMemoryThatItsJobAsksFor, and one with a limit of a person's says what to write.
func TestABackupOfManyFilesGetsTheMemoryThatItsJobAsksFor(t *testing.T) {
	b := newBed(t)
	b.archived("shop")
	lacks := failure("MemoryTooSmall", "the database has 1000000 files: set spec.resources.limits.memory to 900Mi or more", true)
	lacks.Error.NeedsMemory = 900 << 20
	backup, job := b.underWay("first", "shop")
	b.end(job, lacks)
	second := b.job("first-backup-2")
	if got := second.Spec.Template.Spec.Containers[0].Resources.Limits.Memory().String(); got != "900Mi" {
		t.Errorf("the second Job has %s", got)
	}
	b.commitBackup(backup.Status.Plan)
	b.end(second, success())
	b.awaitReason(backup, metav1.ConditionTrue, v1alpha1.ReasonCompleted)

	limited := &v1alpha1.Backup{}
	limited.Name, limited.Spec.Cluster.Name = "limited", "shop"
	limited.Spec.Resources = &v1alpha1.Resources{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")}}
	b.make(limited)
	b.end(b.job("limited-backup"), lacks)
	if condition := b.awaitReason(limited, metav1.ConditionFalse, v1alpha1.ReasonMemoryTooSmall); !strings.Contains(condition.Message, "900Mi") {
		t.Errorf("it says %s", condition.Message)
	}
}
