package requestedbackup

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
)

func TestABackupThatBeganAfterTheDamageAnswersForIt(t *testing.T) {
	archive := &v1alpha1.ArchiveStatus{Lineage: "7-g1", DamagedWAL: &v1alpha1.DamagedWAL{LSN: "0/5000100"}}
	for name, test := range map[string]struct {
		start, lineage string
		succeeded      metav1.ConditionStatus
		want           bool
	}{
		"it began after":              {"0/6000028", "7-g1", metav1.ConditionTrue, true},
		"it began before":             {"0/5000028", "7-g1", metav1.ConditionTrue, false},
		"it is of another lineage":    {"0/6000028", "7-g2", metav1.ConditionTrue, false},
		"it has failed":               {"0/6000028", "7-g1", metav1.ConditionFalse, false},
		"it says nothing of a start":  {"", "7-g1", metav1.ConditionTrue, false},
		"its timeline is a later one": {"1/28", "7-g1", metav1.ConditionTrue, true},
	} {
		b := &v1alpha1.Backup{}
		b.Status.StartLSN, b.Status.Plan = test.start, &v1alpha1.BackupPlan{Lineage: test.lineage}
		b.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionSucceeded, Status: test.succeeded}}
		if got := beginsAfter(b, archive); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
