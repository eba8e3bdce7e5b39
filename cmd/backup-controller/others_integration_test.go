//go:build integration

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/pkg/protocol"
)

// change updates an object's spec, again when it changed meanwhile.
func (b *bed) change(object client.Object, change func()) {
	b.Helper()
	for range 20 {
		if err := b.Get(b.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			b.Fatal(err)
		}
		change()
		if err := b.Update(b.Context(), object); err == nil {
			return
		}
	}
	b.Fatal("the object changes all the time")
}

func (b *bed) remove(object client.Object) {
	b.Helper()
	if err := b.Delete(b.Context(), object); err != nil {
		b.Fatal(err)
	}
}

// commitBackup writes a small backup under the plan's id, as the worker would, and returns the key of its manifest.
func (b *bed) commitBackup(plan *v1alpha1.BackupPlan) string {
	b.Helper()
	dir := b.TempDir()
	for name, content := range map[string]string{"PG_VERSION": "17\n", "global/pg_control": strings.Repeat("c", 8192)} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	const segment = 1 << 20
	begin := postgres.LSN(2*segment + 40)
	name := postgres.SegmentOf(1, begin, segment).Name()
	if err := wal.New(b.store).Put(b.Context(), plan.Lineage, name, make([]byte, segment), wal.Info{Writer: "test"}); err != nil {
		b.Fatal(err)
	}
	source := backup.Source{
		DataDir: dir, Lineage: plan.Lineage, SystemIdentifier: "7", PGVersion: "17.5", PGMajor: 17, WALSegmentSize: segment,
		Start: func(context.Context) (backup.Started, error) {
			return backup.Started{LSN: begin, Timeline: 1, Time: time.Now()}, nil
		},
		Stop: func(context.Context) (backup.Stopped, error) {
			return backup.Stopped{LSN: begin + 100, Time: time.Now(), BackupLabel: "x"}, nil
		},
	}
	if _, err := backup.Write(b.Context(), b.store, source, backup.Options{ID: plan.ID}); err != nil {
		b.Fatal(err)
	}
	return layout.ManifestKey(plan.Lineage, plan.ID)
}

func ready(conditions []metav1.Condition, status metav1.ConditionStatus, reason string) bool {
	condition := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	return condition != nil && condition.Status == status && condition.Reason == reason
}

func TestARepositoryNamesTheSecretThatIsMissingAndNoticesWhenItIsCreated(t *testing.T) {
	b := newBed(t)
	repo := b.repository("minio")
	repo.Spec.S3.Credentials = &v1alpha1.S3Credentials{SecretName: "keys"}
	b.make(repo)
	b.eventually(repo, "SecretNotFound", func() bool {
		return ready(repo.Status.Conditions, metav1.ConditionFalse, v1alpha1.ReasonSecretNotFound)
	})
	if message := repo.Status.Conditions[0].Message; !strings.Contains(message, "Secret keys does not exist") {
		t.Errorf("message %s", message)
	}
	secret := &corev1.Secret{StringData: map[string]string{"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}}
	secret.Name = "keys"
	b.make(secret)
	b.change(repo, func() { repo.Labels = map[string]string{"look": "again"} })
	b.eventually(repo, "Available", func() bool { return ready(repo.Status.Conditions, metav1.ConditionTrue, v1alpha1.ReasonAvailable) })
}

func TestARepositoryStaysWhileItIsNeededAndSaysByWhom(t *testing.T) {
	b := newBed(t)
	repo := b.repository("minio")
	b.make(repo)
	cluster := b.cluster("shop")
	b.eventually(repo, "Available", func() bool { return ready(repo.Status.Conditions, metav1.ConditionTrue, v1alpha1.ReasonAvailable) })
	b.remove(repo)
	b.eventually(repo, "InUse", func() bool { return ready(repo.Status.Conditions, metav1.ConditionTrue, v1alpha1.ReasonInUse) })
	if message := repo.Status.Conditions[0].Message; !strings.Contains(message, "PostgresCluster shop") {
		t.Errorf("message %s", message)
	}
	b.remove(cluster)
	b.eventuallyGone(repo)
}

func TestALookThatFindsNothingNewWritesNothing(t *testing.T) {
	b := newBed(t)
	repo := b.repository("minio")
	b.make(repo)
	b.eventually(repo, "Available and looked through", func() bool {
		return ready(repo.Status.Conditions, metav1.ConditionTrue, v1alpha1.ReasonAvailable) && repo.Status.LastInventoryTime != nil
	})
	b.change(repo, func() { repo.Labels = map[string]string{"look": "again"} })
	version := repo.ResourceVersion
	time.Sleep(time.Second) // there is nothing to wait for: nothing must happen
	if err := b.Get(t.Context(), client.ObjectKeyFromObject(repo), repo); err != nil || repo.ResourceVersion != version {
		t.Errorf("version %s became %s: %v", version, repo.ResourceVersion, err)
	}
}

func TestAnAskForABackupIsAnsweredOnceAndAgainWhenTheBackupWasDeleted(t *testing.T) {
	b := newBed(t)
	cluster := b.archived("shop")
	b.change(cluster, func() { cluster.Spec.Archive.DamagedPages = v1alpha1.DamagedPagesReport })
	request := v1alpha1.BackupRequest{Cluster: "shop", ClusterUID: cluster.UID, Token: protocol.Token(cluster.UID, 1), Purpose: v1alpha1.PurposeFinal}
	b.say(cluster, func(status *v1alpha1.PostgresClusterStatus) { status.BackupRequest = &request })
	wanted := &v1alpha1.Backup{}
	wanted.Name, wanted.Namespace = protocol.BackupName(request), b.namespace
	b.eventually(wanted, "the Backup", func() bool { return wanted.Spec.RequestedBy != nil })
	if by := wanted.Spec.RequestedBy; by.Token != request.Token || by.Kind != v1alpha1.KindPostgresCluster || by.UID != cluster.UID {
		t.Errorf("requested by %+v", by)
	}
	if wanted.Spec.DamagedPages != v1alpha1.DamagedPagesReport {
		t.Errorf("damaged pages: %s", wanted.Spec.DamagedPages)
	}
	first := wanted.UID
	b.remove(wanted)
	b.eventually(wanted, "another Backup", func() bool { return wanted.UID != first })
}

func TestABackupOfTheNeededNameThatAnswersSomebodyElseIsLeftAlone(t *testing.T) {
	b := newBed(t)
	cluster := b.cluster("shop")
	request := v1alpha1.BackupRequest{Cluster: "shop", ClusterUID: cluster.UID, Token: protocol.Token(cluster.UID, 1), Purpose: v1alpha1.PurposeFinal}
	foreign := b.backup(protocol.BackupName(request), "shop")
	b.say(cluster, func(status *v1alpha1.PostgresClusterStatus) { status.BackupRequest = &request })
	b.eventuallyEvent(cluster.Name, "NameTaken")
	if err := b.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign); err != nil || foreign.Spec.RequestedBy != nil {
		t.Errorf("the foreign Backup: %v, %+v", err, foreign.Spec)
	}
}

// eventuallyEvent waits for an event about an object.
func (b *bed) eventuallyEvent(name, reason string) {
	b.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		list := &corev1.EventList{}
		if err := b.List(b.Context(), list, client.InNamespace(b.namespace)); err != nil {
			b.Fatal(err)
		}
		for _, event := range list.Items {
			if event.InvolvedObject.Name == name && event.Reason == reason {
				return
			}
		}
	}
	b.Fatalf("no event %s about %s", reason, name)
}
