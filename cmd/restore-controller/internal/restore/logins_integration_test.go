//go:build integration

package restore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/test/testkit/buckettest"
	"howdah.dev/howdah/test/testkit/subset"
)

func keptLogins() []backup.Secret {
	return []backup.Secret{
		{Purpose: backup.SecretApplication, Name: "shop-app", Data: backup.SecretData{"username": []byte("keeper"), "password": []byte("as it was")}},
		{Purpose: backup.SecretRole, Name: "reporting", Data: backup.SecretData{"password": []byte("of reporting")}},
	}
}

// encrypted is a repository from which logins come back.
func encrypted(spec *v1alpha1.BackupRepositorySpec) {
	spec.Encryption = &v1alpha1.EncryptionSpec{SecretName: "keys"}
}

// fromBucket is a Restore that knows nothing but the bucket.
func (l *lab) fromBucket(path string, change func(*v1alpha1.RestoreSpec)) *v1alpha1.Restore {
	l.Helper()
	return l.restore(func(s *v1alpha1.RestoreSpec) {
		s.Source = v1alpha1.RestoreSource{Repository: &v1alpha1.RepositorySource{Name: "repo", Path: path}}
		if change != nil {
			change(s)
		}
	})
}

// password in a Secret, and by which cluster it is controlled and owned.
func (l *lab) password(name string) (password string, controlled, owned bool) {
	l.Helper()
	secret, made := &corev1.Secret{ObjectMeta: l.meta(name)}, l.cluster("copy")
	if !l.there(secret) || !l.there(made) {
		return "", false, false
	}
	owned = slices.ContainsFunc(secret.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == made.UID })
	return string(secret.Data["password"]), metav1.IsControlledBy(secret, made), owned
}

func TestARestoreFromABareBucketBringsTheLoginsBack(t *testing.T) {
	for _, path := range []string{"", "lineages/7-g0", "lineages/7-g0/backups/b/manifest.zst"} {
		t.Run("path "+path, func(t *testing.T) {
			l := newLab(t, encrypted)
			l.store = buckettest.WithLogins(t, keptLogins(), 4, 5, 6)
			restore := l.fromBucket(path, nil)
			l.jobEnds(success(restore))
			l.await(restore, metav1.ConditionTrue, v1alpha1.ReasonCompleted)
			if plan := restore.Status.Plan; plan.BackupID != "b" || plan.ArchivesTo != "repo" || !slices.Equal(plan.Secrets, []string{"copy-app", "reporting"}) {
				t.Errorf("plan: %+v", plan)
			}
			if password, controlled, _ := l.password("copy-app"); password != "as it was" || !controlled {
				t.Errorf("copy-app has %q, controlled by the cluster: %t", password, controlled)
			}
			if password, controlled, owned := l.password("reporting"); password != "of reporting" || controlled || !owned {
				t.Errorf("reporting has %q, controlled by the cluster: %t, owned: %t", password, controlled, owned)
			}
			if l.there(&corev1.Secret{ObjectMeta: l.meta("shop-app")}) {
				t.Error("the Secret of the former cluster was made, too")
			}
		})
	}
}

// TestABucketWithoutEncryptionBringsNoSecrets, whatever its manifests have: anybody with access to it may have written them.
func TestABucketWithoutEncryptionBringsNoSecrets(t *testing.T) {
	l := newLab(t)
	l.store = buckettest.WithLogins(t, append(keptLogins(), backup.Secret{Purpose: backup.SecretRole, Name: "of-another-program"}), 4, 5, 6)
	restore := l.fromBucket("", nil)
	l.jobEnds(success(restore))
	message := l.await(restore, metav1.ConditionTrue, v1alpha1.ReasonCompleted)
	if plan := restore.Status.Plan; len(plan.Secrets) > 0 || !slices.Contains(plan.Dropped, "secrets") || !strings.Contains(message, "secrets") {
		t.Errorf("the plan has Secrets %q, and drops %q: %s", plan.Secrets, plan.Dropped, message)
	}
	for _, name := range []string{"copy-app", "reporting", "of-another-program"} {
		if l.there(&corev1.Secret{ObjectMeta: l.meta(name)}) {
			t.Errorf("Secret %s was created", name)
		}
	}
}

// The names of acceptRecorded are all that the API server takes, and each counts for what was planned only.
func TestARestoreTakesOfARecordWhatAPersonAccepts(t *testing.T) {
	const record = `{"spec":{"version":17,"storage":{"size":"1Gi"},"image":"evil:17","scheduling":{"priorityClassName":"%s","tolerations":[{"operator":"Exists"}]},` +
		`"postgresql":{"parameters":{"shared_preload_libraries":"auto_explain"}}}}`
	l := newLab(t)
	l.store = buckettest.WithRecord(t, fmt.Sprintf(record, "gold"), 4, 5, 6)
	into := func(accept []v1alpha1.RecordedField, mode v1alpha1.RestoreMode) *v1alpha1.Restore {
		return l.fromBucket("", func(s *v1alpha1.RestoreSpec) { s.Destination.NewCluster.AcceptRecorded, s.Mode = accept, mode })
	}
	look := into(acceptable(), v1alpha1.RestorePlanOnly)
	message := l.await(look, metav1.ConditionTrue, v1alpha1.ReasonCompleted)
	plan := look.Status.Plan
	if !slices.Equal(plan.Dropped, []string{"spec.image"}) || len(plan.Accepted) != 3 || plan.RecordedBy == nil || plan.RecordedBy.Name != "shop" {
		t.Errorf("dropped %q, accepted %+v, recorded by %+v", plan.Dropped, plan.Accepted, plan.RecordedBy)
	}
	if want := "acceptRecorded names them: spec.scheduling.tolerations, spec.scheduling.priorityClassName, spec.postgresql.parameters.shared_preload_libraries."; !strings.Contains(message, want) {
		t.Error(message)
	}
	if err := l.Delete(t.Context(), look); err != nil {
		t.Fatal(err)
	}
	l.eventually("the plan is deleted", func() bool { return !l.there(look) }, &message)
	restore := into([]v1alpha1.RecordedField{v1alpha1.RecordedTolerations}, v1alpha1.RestoreExecute)
	l.jobEnds(success(restore))
	l.await(restore, metav1.ConditionTrue, v1alpha1.ReasonCompleted)
	cluster := l.cluster("copy")
	if l.there(cluster); len(cluster.Spec.Scheduling.Tolerations) != 1 || cluster.Spec.Scheduling.PriorityClassName != "" || cluster.Spec.PostgreSQL.Parameters != nil {
		t.Errorf("%+v, parameters %v", cluster.Spec.Scheduling, cluster.Spec.PostgreSQL.Parameters)
	}
}

// TestLoginsAreThereBeforeTheVolumeIsAskedFor crashes the controller at each new word of the Restore until then.
func TestLoginsAreThereBeforeTheVolumeIsAskedFor(t *testing.T) {
	subset.OnlyInFull(t)
	l := newLab(t, encrypted)
	l.store = buckettest.WithLogins(t, keptLogins(), 4)
	restore := l.fromBucket("", nil)
	last := ""
	l.eventually("the volume is asked for", func() bool {
		l.there(restore)
		for _, c := range restore.Status.Conditions {
			if now := c.Reason + c.Message; now != last && restore.Status.VolumeLockRequest == nil {
				last = now
				l.restartController()
			}
		}
		return restore.Status.VolumeLockRequest != nil
	}, &last)
	if password, controlled, _ := l.password("copy-app"); password != "as it was" || !controlled {
		t.Errorf("copy-app has %q, controlled by the cluster: %t", password, controlled)
	}
	l.jobEnds(agentapi.Outcome{Error: &agentapi.JobError{Reason: v1alpha1.ReasonDataCorrupt, Message: "x", Final: true}})
	l.await(restore, metav1.ConditionFalse, v1alpha1.ReasonDataCorrupt)
	if l.there(l.cluster("copy")) { // what it owns goes with it
		t.Error("the cluster is left")
	}
}

func TestASecretOfSomebodyElseEndsARestoreBeforeAnythingIsCreated(t *testing.T) {
	l := newLab(t, encrypted)
	l.store = buckettest.WithLogins(t, keptLogins(), 4)
	theirs := &corev1.Secret{ObjectMeta: l.meta("copy-app"), Data: map[string][]byte{"password": []byte("theirs")}}
	if err := l.Create(context.Background(), theirs); err != nil {
		t.Fatal(err)
	}
	restore := l.fromBucket("", nil)
	message := l.await(restore, metav1.ConditionFalse, v1alpha1.ReasonNameTaken)
	if !strings.Contains(message, "Secret copy-app already exists") || l.there(l.cluster("copy")) || !l.there(theirs) || string(theirs.Data["password"]) != "theirs" {
		t.Errorf("%s; %v", message, theirs.Data)
	}
}

func TestASecretOfADeclaredRoleThatIsThereStays(t *testing.T) {
	l := newLab(t, encrypted)
	l.store = buckettest.WithLogins(t, keptLogins(), 4)
	theirs := &corev1.Secret{ObjectMeta: l.meta("reporting"), Data: map[string][]byte{"password": []byte("theirs")}}
	if err := l.Create(context.Background(), theirs); err != nil {
		t.Fatal(err)
	}
	restore := l.fromBucket("", nil)
	l.jobEnds(success(restore))
	l.await(restore, metav1.ConditionTrue, v1alpha1.ReasonCompleted)
	if password, _, owned := l.password("reporting"); password != "theirs" || owned {
		t.Errorf("reporting has %q, owned: %t", password, owned)
	}
}

func TestARestoreWaitsForTheSecretsOfAFormerClusterToGo(t *testing.T) {
	l := newLab(t)
	former := l.cluster("copy")
	former.UID = "former"
	left := &corev1.Secret{ObjectMeta: l.meta("copy-app")}
	left.OwnerReferences = []metav1.OwnerReference{protocol.LoginOwner(former, true)}
	if err := l.Create(context.Background(), left); err != nil {
		t.Fatal(err)
	}
	restore := l.fromBucket("", nil)
	message := l.await(restore, metav1.ConditionUnknown, v1alpha1.ReasonAwaitingNames)
	if !strings.Contains(message, "Waiting until Secret copy-app of a former PostgresCluster copy is deleted") || l.there(l.cluster("copy")) {
		t.Error(message)
	}
	if err := l.Delete(context.Background(), left); err != nil {
		t.Fatal(err)
	}
	l.jobEnds(success(restore))
	l.await(restore, metav1.ConditionTrue, v1alpha1.ReasonCompleted)
}

func TestAClusterFromAReadOnlyRepositorySaysThatItArchivesNowhere(t *testing.T) {
	for name, told := range map[string]*v1alpha1.LocalReference{"told nothing": nil, "told where": {Name: "own"}} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			repo := &v1alpha1.BackupRepository{ObjectMeta: l.meta("repo")}
			l.there(repo)
			repo.Spec.ReadOnly = true
			if err := l.Update(context.Background(), repo); err != nil {
				t.Fatal(err)
			}
			before := repo.DeepCopy()
			repo.Status.ObservedGeneration = repo.Generation
			if err := l.Status().Patch(context.Background(), repo, client.MergeFrom(before)); err != nil {
				t.Fatal(err)
			}
			if err := l.Create(context.Background(), &v1alpha1.BackupRepository{ObjectMeta: l.meta("own"), Spec: v1alpha1.BackupRepositorySpec{S3: v1alpha1.S3Spec{Bucket: "own"}}}); err != nil {
				t.Fatal(err)
			}
			restore := l.fromBucket("", func(s *v1alpha1.RestoreSpec) { s.Destination.NewCluster.Repository = told })
			l.jobEnds(success(restore))
			message := l.await(restore, metav1.ConditionTrue, v1alpha1.ReasonCompleted)
			made := l.cluster("copy")
			switch {
			case !l.there(made):
				t.Fatal("no cluster")
			case told == nil && (made.Spec.Archive != nil || restore.Status.BackupRequest != nil || !strings.Contains(message, "It has no archive, as BackupRepository repo is read-only")):
				t.Errorf("%s; archive %+v", message, made.Spec.Archive)
			case told != nil && (made.Spec.Archive == nil || made.Spec.Archive.Repository.Name != "own" || restore.Status.BackupRequest == nil || strings.Contains(message, "nowhere")):
				t.Errorf("%s; archive %+v", message, made.Spec.Archive)
			}
		})
	}
}
