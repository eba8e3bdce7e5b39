package requestedbackup

import (
	"testing"

	"howdah.dev/apis/v1alpha1"
)

func TestARequestedBackupDoesAboutDamagedPagesWhatTheClusterOrItsSchedulesSay(t *testing.T) {
	const fail, report = v1alpha1.DamagedPagesFail, v1alpha1.DamagedPagesReport
	schedule := func(cluster string, policy v1alpha1.DamagedPagesPolicy) v1alpha1.BackupSchedule {
		return v1alpha1.BackupSchedule{Spec: v1alpha1.BackupScheduleSpec{Cluster: v1alpha1.LocalReference{Name: cluster}, DamagedPages: policy}}
	}
	for name, test := range map[string]struct {
		archive   *v1alpha1.ArchiveSpec
		schedules []v1alpha1.BackupSchedule
		want      v1alpha1.DamagedPagesPolicy
	}{
		"nobody says anything":                  {&v1alpha1.ArchiveSpec{}, nil, fail},
		"there is no archive":                   {nil, nil, fail},
		"the cluster reports":                   {&v1alpha1.ArchiveSpec{DamagedPages: report}, nil, report},
		"a schedule reports":                    {&v1alpha1.ArchiveSpec{}, []v1alpha1.BackupSchedule{schedule("shop", fail), schedule("shop", report)}, report},
		"the cluster fails, a schedule reports": {&v1alpha1.ArchiveSpec{DamagedPages: fail}, []v1alpha1.BackupSchedule{schedule("shop", report)}, fail},
		"another cluster's schedule reports":    {&v1alpha1.ArchiveSpec{}, []v1alpha1.BackupSchedule{schedule("other", report)}, fail},
	} {
		cluster := &v1alpha1.PostgresCluster{Spec: v1alpha1.PostgresClusterSpec{Archive: test.archive}}
		if got := damagedPagesOf(cluster, "shop", test.schedules); got != test.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}
