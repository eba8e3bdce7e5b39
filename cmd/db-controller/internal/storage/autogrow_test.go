package storage

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/volume"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/workload"
)

func TestVolumesGrowByThemselves(t *testing.T) {
	grow := func(limit string) func(*observed.Cluster) {
		return func(o *observed.Cluster) {
			o.Cluster.Spec.Storage.AutoGrow = &v1alpha1.AutoGrow{Limit: resource.MustParse(limit), AtPercent: 80, StepPercent: 20}
		}
	}
	for name, c := range map[string]struct {
		change func(*observed.Cluster)
		want   string // size that is decided; empty: none
	}{
		"nobody asked for it":    {func(o *observed.Cluster) { observedtest.Fill(o, 0, 90) }, ""},
		"there is space":         {grow("50Gi"), ""},
		"a replica's is filling": {func(o *observed.Cluster) { grow("50Gi")(o); observedtest.Fill(o, 2, 80) }, "12Gi"},
		"the limit is near":      {func(o *observed.Cluster) { grow("11Gi")(o); observedtest.Fill(o, 0, 85) }, "11Gi"},
		"the limit is reached":   {func(o *observed.Cluster) { grow("10Gi")(o); observedtest.Fill(o, 0, 95) }, ""},
		"they are still growing": {func(o *observed.Cluster) {
			grow("50Gi")(o)
			observedtest.Fill(o, 0, 85)
			o.Cluster.Status.Storage = &v1alpha1.StorageStatus{Size: resource.MustParse("12Gi"), GrownAt: metav1.NewTime(observedtest.Noon.Add(-time.Hour))}
		}, ""},
		"they grew a moment ago": {func(o *observed.Cluster) {
			grow("50Gi")(o)
			observedtest.Fill(o, 0, 85)
			o.Cluster.Status.Storage = &v1alpha1.StorageStatus{Size: resource.MustParse("10Gi"), GrownAt: metav1.NewTime(observedtest.Noon.Add(-time.Second))}
		}, ""},
		"the class doesn't let them": {func(o *observed.Cluster) {
			grow("50Gi")(o)
			observedtest.Fill(o, 0, 85)
			o.Classes["fast"].AllowVolumeExpansion = nil
		}, ""},
		"the database is down": {func(o *observed.Cluster) {
			grow("50Gi")(o)
			observedtest.Fill(o, 0, 99)
			observedtest.Unready(o, 0)
			o.Agents["shop-0"].State = agentapi.StateFailed
		}, "12Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			o := observedtest.Bound(c.change)
			before := volume.Size(o.Cluster)
			outcome := GrowByItself(t.Context(), o)
			size := volume.Size(o.Cluster)
			if c.want == "" {
				if !outcome.Finished() || size.Cmp(before) != 0 {
					t.Errorf("%+v, %s", outcome, size.String())
				}
				return
			}
			if outcome.Kind != flow.KindSave || size.String() != c.want || o.Cluster.Status.Storage.Message == "" {
				t.Errorf("%+v, %s", outcome, size.String())
			}
		})
	}
}

// A standby has no agent that could be asked: its Job says how full the volume is.
func TestTheVolumeOfAStandbyGrowsByItself(t *testing.T) {
	const full, before = `{"stage":"Following","volume":{"bytes":10500000000,"usedBytes":9000000000}}`, `{"stage":"Following","volume":{"bytes":5000000000,"usedBytes":4500000000}}`
	for name, c := range map[string]struct {
		said   string
		change func(*observed.Cluster)
		want   string
	}{
		"it is full":                      {full, nil, "12Gi"},
		"there is space":                  {`{"stage":"Following","volume":{"bytes":10500000000,"usedBytes":5000000000}}`, nil, ""},
		"it says nothing of it":           {`{"stage":"Following"}`, nil, ""},
		"that was before the last growth": {before, nil, ""},
		"its pod doesn't run":             {full, func(o *observed.Cluster) { o.InitJob.LivePods = 0 }, ""},
		"it was promoted":                 {full, func(o *observed.Cluster) { o.Cluster.Status.SystemIdentifier = "7" }, ""},
		"it restores":                     {`{"stage":"Restoring","volume":{"bytes":10500000000,"usedBytes":9000000000}}`, nil, "12Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			o := observedtest.Bound(func(o *observed.Cluster) {
				o.Cluster.Spec.Storage.AutoGrow = &v1alpha1.AutoGrow{Limit: resource.MustParse("50Gi"), AtPercent: 80, StepPercent: 20}
				o.Cluster.Spec.Standby = &v1alpha1.Standby{}
				o.Cluster.Status.SystemIdentifier = ""
				delete(o.Live, observed.Key("StatefulSet", "shop"))
				o.Agents = nil
				o.InitJob = workload.State{Exists: true, LivePods: 1}
				o.ImportReport = &corev1.ConfigMap{Data: map[string]string{agentapi.StandbyKey: c.said}}
				observedtest.OrNothing(c.change)(o)
			})
			outcome := GrowByItself(t.Context(), o)
			if size := volume.Size(o.Cluster); (outcome.Kind == flow.KindSave) != (c.want != "") || c.want != "" && size.String() != c.want {
				t.Errorf("%+v, %s", outcome, size.String())
			}
		})
	}
}

func TestSizesThatGrowAreRound(t *testing.T) {
	for _, c := range []struct{ size, limit, want string }{
		{"512Mi", "10Gi", "640Mi"}, {"1Gi", "10Gi", "1280Mi"}, {"10Gi", "1Ti", "12Gi"}, {"12Gi", "1Ti", "15Gi"}, {"100Gi", "110Gi", "110Gi"},
	} {
		got := nextSize(&v1alpha1.AutoGrow{Limit: resource.MustParse(c.limit), StepPercent: 20}, resource.MustParse(c.size))
		if got.Cmp(resource.MustParse(c.want)) != 0 {
			t.Errorf("%s: %s, want %s", c.size, got.String(), c.want)
		}
	}
}
