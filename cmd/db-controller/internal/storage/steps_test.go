package storage

import (
	"testing"

	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
)

func TestVolumesGoOnlyWhereABackupStaysOrSomebodySaysSo(t *testing.T) {
	archive := &v1alpha1.ArchiveSpec{}
	for name, c := range map[string]struct {
		spec v1alpha1.PostgresClusterSpec
		want v1alpha1.VolumePolicy
	}{
		"nothing said, no archive":      {v1alpha1.PostgresClusterSpec{}, v1alpha1.VolumesRetain},
		"nothing said, with an archive": {v1alpha1.PostgresClusterSpec{Archive: archive}, v1alpha1.VolumesDelete},
		"no final backup wanted":        {v1alpha1.PostgresClusterSpec{Archive: archive, DeletionPolicy: v1alpha1.DeletionPolicy{FinalBackup: ptr.To(false)}}, v1alpha1.VolumesRetain},
		"said":                          {v1alpha1.PostgresClusterSpec{DeletionPolicy: v1alpha1.DeletionPolicy{Volumes: v1alpha1.VolumesDelete}}, v1alpha1.VolumesDelete},
	} {
		if got := volumePolicy(&v1alpha1.PostgresCluster{Spec: c.spec}); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}
