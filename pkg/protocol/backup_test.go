package protocol

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
)

func TestAskingTwiceMakesOneBackup(t *testing.T) {
	restore := &v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "r", UID: "u"}}
	if BackupRequestOf(restore) != nil {
		t.Fatal("an object that asks for nothing asks")
	}
	restore.Status.BackupRequest = &v1alpha1.BackupRequest{Cluster: "shop", ClusterUID: "c", Token: Token("u", 0), Purpose: v1alpha1.PurposeFirst}
	first, second := NewBackup(BackupRequestOf(restore)), NewBackup(BackupRequestOf(restore))
	if first.Name != second.Name || first.Namespace != "demo" {
		t.Errorf("got %s/%s, then %s/%s", first.Namespace, first.Name, second.Namespace, second.Name)
	}
	restore.Status.BackupRequest.Token = Token("u", 1)
	if NewBackup(BackupRequestOf(restore)).Name == first.Name {
		t.Error("the next attempt has the name of the one before")
	}
	if first.Spec.Hold {
		t.Error("a backup that nobody wanted held is held")
	}
	restore.Status.BackupRequest.Hold = true
	if !NewBackup(BackupRequestOf(restore)).Spec.Hold {
		t.Error("a backup that is the only way back isn't held")
	}
	if long := BackupName(v1alpha1.BackupRequest{Cluster: string(make([]byte, 40)), Purpose: v1alpha1.PurposeSafety}); len(long) > 56 {
		t.Errorf("the name of a cluster with 40 letters makes a Backup's name of %d, more than 56", len(long))
	}
}

func TestDamagedWALRequestsOneBackupForEachDamage(t *testing.T) {
	cluster := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: strings.Repeat("x", 40), UID: "c"}}
	cluster.Status.Archive = &v1alpha1.ArchiveStatus{Lineage: "7-g1"}
	if BackupRequestOf(cluster) != nil {
		t.Error("a cluster whose WAL is not damaged requests a backup")
	}
	cluster.Status.Archive.DamagedWAL = &v1alpha1.DamagedWAL{Segment: "000000010000000000000005", LSN: "0/5000100"}
	first := NewBackup(BackupRequestOf(cluster))
	if first.Spec.RequestedBy.Purpose != v1alpha1.PurposeDamage || len(first.Name) > 56 || first.Name != NewBackup(BackupRequestOf(cluster)).Name {
		t.Errorf("got %s, %+v", first.Name, first.Spec.RequestedBy)
	}
	cluster.Status.Archive.DamagedWAL.LSN = "0/7000100"
	if NewBackup(BackupRequestOf(cluster)).Name == first.Name {
		t.Error("a second damage requests the same Backup")
	}
	cluster.Status.BackupRequest = &v1alpha1.BackupRequest{Purpose: v1alpha1.PurposeFinal}
	if got := BackupRequestOf(cluster); got.Request.Purpose != v1alpha1.PurposeFinal {
		t.Errorf("the request in the status is not the first: %+v", got)
	}
}

func TestBackupAnswerFor(t *testing.T) {
	request := &v1alpha1.BackupRequest{Token: "t"}
	backup := func(token string, status metav1.ConditionStatus) *v1alpha1.Backup {
		b := &v1alpha1.Backup{Spec: v1alpha1.BackupSpec{RequestedBy: &v1alpha1.Requester{Token: token}}}
		if status != "" {
			b.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionSucceeded, Status: status}}
		}
		return b
	}
	outdated := backup("t", metav1.ConditionTrue)
	outdated.Generation = 2
	cases := map[string]struct {
		backup *v1alpha1.Backup
		want   BackupOutcome
	}{
		"no Backup yet":                     {nil, BackupPending},
		"a Backup of somebody else":         {backup("other", metav1.ConditionTrue), BackupPending},
		"a Backup that a person made":       {&v1alpha1.Backup{}, BackupPending},
		"nobody has looked at it":           {backup("t", ""), BackupPending},
		"it runs":                           {backup("t", metav1.ConditionUnknown), BackupPending},
		"it has succeeded":                  {backup("t", metav1.ConditionTrue), BackupSucceeded},
		"it has failed":                     {backup("t", metav1.ConditionFalse), BackupFailed},
		"its status speaks of an older one": {outdated, BackupPending},
	}
	for name, c := range cases {
		if got, _ := BackupOutcomeFor(c.backup, request); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
}
