package workload

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
)

// A Job that reads or writes the data of an instance has its WAL as well: pg_wal is a link to it.
func TestAJobHasTheWALVolumeOfItsInstance(t *testing.T) {
	spec := &v1alpha1.PostgresClusterSpec{}
	job := Job{Name: "shop-restore", Owner: &v1alpha1.Restore{}, ClusterSpec: spec, DataClaim: "data-shop-1", DataReadOnly: true}
	claims := func() map[string]string {
		found, pod := map[string]string{}, job.pod()
		for _, v := range pod.Volumes {
			if v.PersistentVolumeClaim == nil {
				continue
			}
			for _, m := range pod.Containers[0].VolumeMounts {
				if m.Name == v.Name && m.ReadOnly == job.DataReadOnly {
					found[m.MountPath] = v.PersistentVolumeClaim.ClaimName
				}
			}
		}
		return found
	}
	if found := claims(); len(found) != 1 || found[agentapi.VolumeDir] != "data-shop-1" {
		t.Errorf("%v", found)
	}
	spec.Storage.WAL = &v1alpha1.WALStorage{Size: resource.MustParse("4Gi")}
	for _, job.DataReadOnly = range []bool{true, false} {
		if found := claims(); len(found) != 2 || found[agentapi.VolumeDir] != "data-shop-1" || found[agentapi.WALVolumeDir] != "wal-shop-1" {
			t.Errorf("%v", found)
		}
	}
	job.DataClaim = ""
	if found := claims(); len(found) > 0 {
		t.Errorf("a Job without data has %v", found)
	}
}
