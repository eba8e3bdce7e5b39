package report

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/pkg/flow"
)

func TestUpToDateSaysHowVolumesGrow(t *testing.T) {
	for name, c := range map[string]struct {
		change         func(*observed.Cluster)
		reason, phrase string
	}{
		"volumes of the size that is wanted": {nil, v1alpha1.ReasonCurrent, ""},
		"a volume that is larger": {func(o *observed.Cluster) {
			o.Claim(1).Status.Capacity[corev1.ResourceStorage] = resource.MustParse("12Gi")
		}, v1alpha1.ReasonCurrent, ""},
		"a claim that was asked for": {func(o *observed.Cluster) {
			observedtest.WantSize(o, "20Gi")
			observedtest.AskSize(o, 0, "20Gi")
			observedtest.AskSize(o, 1, "20Gi")
			observedtest.AskSize(o, 2, "20Gi")
		},
			v1alpha1.ReasonVolumesGrowing, "data-shop-0 grows from 10Gi to 20Gi."},
		"a file system that has yet to grow": {func(o *observed.Cluster) {
			observedtest.WantSize(o, "20Gi")
			observedtest.AskSize(o, 0, "20Gi")
			o.Claim(0).Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: corev1.PersistentVolumeClaimFileSystemResizePending, Status: "True"}}
		}, v1alpha1.ReasonVolumesGrowing, "its file system has yet"},
		"a class that doesn't let volumes grow": {func(o *observed.Cluster) {
			observedtest.WantSize(o, "20Gi")
			o.Classes["fast"].AllowVolumeExpansion = nil
		},
			v1alpha1.ReasonExpansionNotAllowed, "set allowVolumeExpansion: true there. Otherwise move the instances to another class"},
		"a class that is gone": {func(o *observed.Cluster) { observedtest.WantSize(o, "20Gi"); o.Classes["fast"] = nil }, v1alpha1.ReasonExpansionNotAllowed, "its StorageClass fast was deleted, so it can't grow"},
		"a quota that is used": {func(o *observed.Cluster) {
			observedtest.WantSize(o, "20Gi")
			o.Refused["data-shop-1"] = "exceeded quota"
		}, v1alpha1.ReasonExpansionFailed, "data-shop-1 can't be enlarged to 20Gi: exceeded quota."},
		"a storage that can't": {func(o *observed.Cluster) {
			observedtest.WantSize(o, "20Gi")
			observedtest.AskSize(o, 2, "20Gi")
			observedtest.Infeasible(o, 2)
		}, v1alpha1.ReasonExpansionFailed, "data-shop-2"},
		"a claim without volume": {func(o *observed.Cluster) {
			observedtest.WantSize(o, "20Gi")
			o.Claim(0).Status = corev1.PersistentVolumeClaimStatus{}
		}, v1alpha1.ReasonVolumesGrowing, "once it has a volume"},
	} {
		t.Run(name, func(t *testing.T) {
			o := observedtest.Bound(c.change)
			Write(o, flow.Next)
			got := meta.FindStatusCondition(o.Cluster.Status.Conditions, v1alpha1.ConditionUpToDate)
			if got.Reason != c.reason || !strings.Contains(got.Message, c.phrase) {
				t.Errorf("%s: %s", got.Reason, got.Message)
			}
		})
	}
}

func TestAChangeThatWaitsForTheWindowSaysUntilWhen(t *testing.T) {
	for name, c := range map[string]struct {
		change          func(*observed.Cluster)
		schedule        string
		reason, message string
	}{
		"a restart":         {observedtest.WaitsFor("max_connections", "50", "shop-0"), "0 3 * * *", "RestartPending", "A change of max_connections waits for a restart of PostgreSQL in shop-0. It waits for the maintenance window, which opens on 2026-03-02 at 03:00 UTC."},
		"another image":     {observedtest.NewImage(), "0 3 * * *", "RestartPending", "has to be replaced for the image postgres:17.6 instead of postgres:17. It waits for the maintenance window"},
		"a broken window":   {observedtest.NewImage(), "a b c d e", "InvalidWindow", "Nothing is restarted: spec.maintenanceWindow.schedule"},
		"nothing to change": {nil, "0 3 * * *", "Current", ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := observedtest.Running(c.change)
			o.Cluster.Spec.MaintenanceWindow = observedtest.WindowOf(c.schedule, "UTC", time.Hour)
			Write(o, flow.Next)
			got := meta.FindStatusCondition(o.Cluster.Status.Conditions, v1alpha1.ConditionUpToDate)
			if got.Reason != c.reason || !strings.Contains(got.Message, c.message) {
				t.Errorf("got %s: %s", got.Reason, got.Message)
			}
		})
	}
}
