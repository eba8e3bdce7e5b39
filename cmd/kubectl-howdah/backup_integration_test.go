//go:build integration

package main

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/kubectl-howdah/internal/backupcmd"
)

func archiving(spec *v1alpha1.PostgresClusterSpec) {
	spec.Archive = &v1alpha1.ArchiveSpec{Repository: v1alpha1.LocalReference{Name: "s3"}}
}

// backUp asks for a backup. Once it is created, the backup-controller says these in turn.
func backUp(t *testing.T, request backupcmd.Request, says ...metav1.Condition) (string, error) {
	t.Helper()
	c, cluster := newCluster(t, archiving)
	key := client.ObjectKey{Namespace: cluster.Namespace, Name: request.Name}
	var out lines
	out.on = func(string) {
		if len(says) == 0 {
			return
		}
		backup := &v1alpha1.Backup{}
		must(t, c.Get(t.Context(), key, backup))
		says[0].Type = v1alpha1.ConditionSucceeded
		meta.SetStatusCondition(&backup.Status.Conditions, says[0])
		backup.Status.Type, backup.Status.LogicalBytes = v1alpha1.BackupFull, 40<<20
		must(t, c.Status().Update(t.Context(), backup))
		says = says[1:]
	}
	err := request.Ask(t.Context(), c, client.ObjectKeyFromObject(cluster), &out)
	return out.String(), err
}

// lines calls on for each that is written.
type lines struct {
	strings.Builder
	on func(string)
}

func (l *lines) Write(p []byte) (int, error) {
	n, err := l.Builder.Write(p)
	l.on(string(p))
	return n, err
}

func TestAPersonSeesWhatABackupWaitsForAndItsSize(t *testing.T) {
	out, err := backUp(t, backupcmd.Request{Name: "now", Wait: true, Timeout: time.Minute},
		metav1.Condition{Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonQueued, Message: "Two others come first."},
		metav1.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonCompleted})
	want := "Backup now is created.\nQueued: Two others come first.\nThe backup has succeeded: Full, 40 MiB of files, 0 MiB added to the repository.\n"
	if out != want || err != nil {
		t.Errorf("%q, %v", out, err)
	}
}

func TestAPersonIsToldWhyThereIsNoBackup(t *testing.T) {
	_, err := backUp(t, backupcmd.Request{Name: "now", Wait: true, Timeout: time.Minute},
		metav1.Condition{Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonJobFailed, Message: "No space."})
	if err == nil || err.Error() != "failed: No space." {
		t.Errorf("%v", err)
	}
	_, err = backUp(t, backupcmd.Request{Name: "now", Wait: true, Timeout: time.Second})
	if err == nil || !strings.Contains(err.Error(), "the backup continues: kubectl get pgb now") {
		t.Errorf("%v", err)
	}
	c, cluster := newCluster(t, nil)
	err = backupcmd.Request{Name: "now"}.Ask(t.Context(), c, client.ObjectKeyFromObject(cluster), &strings.Builder{})
	if err == nil || !strings.Contains(err.Error(), "spec.archive.repository") {
		t.Errorf("%v", err)
	}
}

func TestABackupIsCreatedAsAsked(t *testing.T) {
	c, cluster := newCluster(t, archiving)
	name := backupcmd.NameFor("a-cluster-with-a-name-that-is-longer-than-most", time.Date(2026, 9, 19, 12, 0, 0, 0, time.UTC))
	if name != "a-cluster-with-a-name-that-is-longer-tha-20260919120000" {
		t.Errorf("%s", name)
	}
	must(t, backupcmd.Request{Name: name, Incremental: true, Hold: true}.Ask(t.Context(), c, client.ObjectKeyFromObject(cluster), &strings.Builder{}))
	backup := &v1alpha1.Backup{}
	must(t, c.Get(t.Context(), client.ObjectKey{Namespace: cluster.Namespace, Name: name}, backup))
	if backup.Spec.Type != v1alpha1.BackupIncremental || !backup.Spec.Hold || backup.Spec.Cluster.Name != "shop" {
		t.Errorf("%+v", backup.Spec)
	}
}
