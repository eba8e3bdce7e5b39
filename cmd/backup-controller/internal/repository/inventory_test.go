package repository

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/apis/v1alpha1"
)

// backupsOf are two dozen Backups in the repository of that name.
func backupsOf(repository string) []v1alpha1.Backup {
	backups := make([]v1alpha1.Backup, 24)
	for i := range backups {
		backups[i].UID = types.UID(fmt.Sprintf("%s-%d", repository, i))
		backups[i].Status.Plan = &v1alpha1.BackupPlan{Repository: repository}
	}
	return backups
}

// A cache lists in another order each time. If that were a change, the bucket would be looked through again and again.
func TestTheOrderOfBackupsIsNoChange(t *testing.T) {
	repo := &v1alpha1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Name: "minio"}}
	backups := backupsOf("minio")
	mark := markOf(repo, backups)
	slices.Reverse(backups)
	if got := markOf(repo, backups); got != mark {
		t.Errorf("the mark is %s in another order, and was %s", got, mark)
	}
}

func TestTheMarkFollowsTheBackupsOfTheRepository(t *testing.T) {
	now := metav1.NewTime(time.Unix(1_700_000_000, 0))
	repo := &v1alpha1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Name: "minio"}}
	for name, c := range map[string]struct {
		change  func([]v1alpha1.Backup) []v1alpha1.Backup
		differs bool
	}{
		"one comes":                 {func(b []v1alpha1.Backup) []v1alpha1.Backup { return append(b, backupsOf("minio ")[0]) }, false},
		"one comes that has a plan": {func(b []v1alpha1.Backup) []v1alpha1.Backup { b = append(b, b[0]); b[24].UID = "another"; return b }, true},
		"one goes":                  {func(b []v1alpha1.Backup) []v1alpha1.Backup { return b[1:] }, true},
		"one ends":                  {func(b []v1alpha1.Backup) []v1alpha1.Backup { b[5].Status.CompletedAt = &now; return b }, true},
		"one is held":               {func(b []v1alpha1.Backup) []v1alpha1.Backup { b[5].Spec.Hold = true; return b }, true},
		"one is being deleted":      {func(b []v1alpha1.Backup) []v1alpha1.Backup { b[5].DeletionTimestamp = &now; return b }, true},
		"one progresses": {func(b []v1alpha1.Backup) []v1alpha1.Backup {
			b[5].Status.Progress = &v1alpha1.Progress{Percent: 7}
			return b
		}, false},
		"another repository's ends": {func(b []v1alpha1.Backup) []v1alpha1.Backup { return append(b, backupsOf("other")...) }, false},
	} {
		if got := markOf(repo, c.change(backupsOf("minio"))); (got != markOf(repo, backupsOf("minio"))) != c.differs {
			t.Errorf("%s: the mark is %s", name, got)
		}
	}
}
