package schedule

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"howdah.dev/apis/v1alpha1"
)

func TestABackupHasTheResourcesOfItsSchedule(t *testing.T) {
	schedule := &v1alpha1.BackupSchedule{}
	if got := newBackup(schedule, "a").Spec.Resources; got != nil {
		t.Errorf("%+v", got)
	}
	schedule.Spec.Resources = &v1alpha1.Resources{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8")}}
	if got := newBackup(schedule, "a").Spec.Resources; got == nil || got.Limits.Cpu().String() != "8" {
		t.Errorf("%+v", got)
	}
}

func TestTheNameOfABackupFitsWithTheLongestScheduleName(t *testing.T) {
	long, due := strings.Repeat("s", 41), time.Date(2026, 7, 1, 3, 0, 0, 0, time.FixedZone("", 2*60*60))
	if name := backupName(long, due, 1); !strings.HasSuffix(name, "s-2607010100") {
		t.Error(name)
	}
	if name := backupName(long, due, mostNames); len(name) > 56 || !strings.HasSuffix(name, "-2607010100-9") {
		t.Errorf("%s has %d characters", name, len(name))
	}
}
