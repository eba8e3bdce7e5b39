package upgrade

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
)

// TestTheJobsHaveLimitsWhereTheClusterHas: a quota of limits refuses pods that have none, the last of them while the cluster is stopped.
func TestTheJobsHaveLimitsWhereTheClusterHas(t *testing.T) {
	usual := amounts("100m", "128Mi")
	none := corev1.ResourceRequirements{}
	for name, c := range map[string]struct {
		cluster             v1alpha1.Resources
		run, check, inspect corev1.ResourceRequirements
	}{
		"none":  {v1alpha1.Resources{}, none, none, none},
		"large": {v1alpha1.Resources{Requests: amounts("8", "32Gi"), Limits: amounts("16", "64Gi")}, limits(usual, "16", "64Gi"), limits(usual, "2", "8Gi"), limits(usual, "1", "512Mi")},
		"tiny":  {v1alpha1.Resources{Requests: amounts("50m", "64Mi"), Limits: amounts("200m", "256Mi")}, limits(amounts("50m", "64Mi"), "1", "1Gi"), limits(amounts("50m", "64Mi"), "1", "1Gi"), limits(amounts("50m", "64Mi"), "200m", "256Mi")},
	} {
		r, o := reconciler(), granted()
		o.cluster.Spec.Resources = c.cluster
		o.cluster.Status.Connection = &v1alpha1.ConnectionStatus{ConfigMap: "shop-connection", UpgradeSecret: "shop-upgrade"}
		o.upgrade.Status.Link = &v1alpha1.LinkStatus{Volumes: o.cluster.Status.VolumeLocks[0].Volumes[:2]}
		o.inspections = compared(make([]agentapi.UpgradeInspection, 2)...)
		for i := range o.inspections {
			o.inspections[i].job, o.inspections[i].state.Exists = "inspect-"+o.inspections[i].volume.Instance, false
		}
		(linker{r}).runInspections(t.Context(), o)
		inspected := &batchv1.JobList{}
		if err := r.Client.List(t.Context(), inspected); err != nil || len(inspected.Items) != 2 {
			t.Fatalf("%v, %d Jobs", err, len(inspected.Items))
		}
		for _, job := range inspected.Items {
			if got := job.Spec.Template.Spec.Containers[0].Resources; !strings.HasPrefix(job.Name, "inspect-") || !equality.Semantic.DeepEqual(got, c.inspect) {
				t.Errorf("%s: Job %s has %+v", name, job.Name, got)
			}
		}
		o.upgrade.Status.Previous = &v1alpha1.PreviousData{}
		if got := r.upgradeJob(o).Resources; !equality.Semantic.DeepEqual(got, c.run) {
			t.Errorf("%s: the upgrade has %+v", name, got)
		}
		if got := (checker{r}).checkJob(o).Resources; !equality.Semantic.DeepEqual(got, c.check) {
			t.Errorf("%s: the check has %+v", name, got)
		}
	}
}

func limits(requests corev1.ResourceList, cpu, memory string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: requests, Limits: amounts(cpu, memory)}
}
