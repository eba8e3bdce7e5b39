package cluster

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/volume"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
)

const gib = int64(1) << 30

// bound is a trio with volumes of 10Gi, of a class that lets them grow; change makes it otherwise.
func bound(change func(*world)) *world {
	return trio(func(w *world) {
		w.cluster.Spec.Storage = v1alpha1.StorageSpec{Size: resource.MustParse("10Gi"), StorageClassName: ptr.To("fast")}
		w.classes = map[string]*storagev1.StorageClass{"fast": {AllowVolumeExpansion: ptr.To(true)}}
		w.refused = map[string]string{}
		w.statefulSet().Spec.VolumeClaimTemplates[0].Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("10Gi")
		for ordinal := range 3 {
			claim := volume.Claim(w.cluster, ordinal)
			claim.Status = corev1.PersistentVolumeClaimStatus{
				Phase: corev1.ClaimBound, Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")},
			}
			w.live[key("PersistentVolumeClaim", claim.Name)] = claim
			fill(w, ordinal, 40)
		}
		if change != nil {
			change(w)
		}
	})
}

func fill(w *world, ordinal int, percent int64) {
	w.agents[w.names.Instance(ordinal)].Volume = &agentapi.VolumeStatus{Bytes: 10 * gib, UsedBytes: 10*gib*percent/100 + 1}
}

func want(w *world, size string) { w.cluster.Spec.Storage.Size = resource.MustParse(size) }

func asks(w *world, ordinal int, size string) {
	w.claim(ordinal).Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse(size)
}

func TestUpToDateSaysHowVolumesGrow(t *testing.T) {
	for name, c := range map[string]struct {
		change         func(*world)
		reason, phrase string
	}{
		"volumes of the size that is wanted": {nil, v1alpha1.ReasonCurrent, ""},
		"a volume that is larger":            {func(w *world) { w.claim(1).Status.Capacity[corev1.ResourceStorage] = resource.MustParse("12Gi") }, v1alpha1.ReasonCurrent, ""},
		"a claim that was asked for": {func(w *world) { want(w, "20Gi"); asks(w, 0, "20Gi"); asks(w, 1, "20Gi"); asks(w, 2, "20Gi") },
			v1alpha1.ReasonVolumesGrowing, "data-shop-0 grows from 10Gi to 20Gi."},
		"a file system that has yet to grow": {func(w *world) {
			want(w, "20Gi")
			asks(w, 0, "20Gi")
			w.claim(0).Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: corev1.PersistentVolumeClaimFileSystemResizePending, Status: "True"}}
		}, v1alpha1.ReasonVolumesGrowing, "its file system has yet"},
		"a class that doesn't let volumes grow": {func(w *world) { want(w, "20Gi"); w.classes["fast"].AllowVolumeExpansion = nil },
			v1alpha1.ReasonExpansionNotAllowed, "set allowVolumeExpansion: true there; else delete the claim and the pod of a replica"},
		"a class that is gone":   {func(w *world) { want(w, "20Gi"); w.classes["fast"] = nil }, v1alpha1.ReasonExpansionNotAllowed, "there is no StorageClass fast any more"},
		"a quota that is used":   {func(w *world) { want(w, "20Gi"); w.refused["data-shop-1"] = "exceeded quota" }, v1alpha1.ReasonExpansionFailed, "data-shop-1 can't be enlarged to 20Gi: exceeded quota."},
		"a storage that can't":   {func(w *world) { want(w, "20Gi"); asks(w, 2, "20Gi"); infeasible(w, 2) }, v1alpha1.ReasonExpansionFailed, "data-shop-2"},
		"a claim without volume": {func(w *world) { want(w, "20Gi"); w.claim(0).Status = corev1.PersistentVolumeClaimStatus{} }, v1alpha1.ReasonVolumesGrowing, "once it has a volume"},
	} {
		t.Run(name, func(t *testing.T) {
			w := bound(c.change)
			report(w, flow.Next)
			got := meta.FindStatusCondition(w.cluster.Status.Conditions, v1alpha1.ConditionUpToDate)
			if got.Reason != c.reason || !strings.Contains(got.Message, c.phrase) {
				t.Errorf("%s: %s", got.Reason, got.Message)
			}
		})
	}
}

func infeasible(w *world, ordinal int) {
	w.claim(ordinal).Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{
		corev1.ResourceStorage: corev1.PersistentVolumeClaimControllerResizeInfeasible,
	}
}

func TestVolumesGrowByThemselves(t *testing.T) {
	grow := func(limit string) func(*world) {
		return func(w *world) {
			w.cluster.Spec.Storage.AutoGrow = &v1alpha1.AutoGrow{Limit: resource.MustParse(limit), AtPercent: 80, StepPercent: 20}
		}
	}
	for name, c := range map[string]struct {
		change func(*world)
		want   string // size that is decided; empty: none
	}{
		"nobody asked for it":    {func(w *world) { fill(w, 0, 90) }, ""},
		"there is space":         {grow("50Gi"), ""},
		"a replica's is filling": {func(w *world) { grow("50Gi")(w); fill(w, 2, 80) }, "12Gi"},
		"the limit is near":      {func(w *world) { grow("11Gi")(w); fill(w, 0, 85) }, "11Gi"},
		"the limit is reached":   {func(w *world) { grow("10Gi")(w); fill(w, 0, 95) }, ""},
		"they are still growing": {func(w *world) {
			grow("50Gi")(w)
			fill(w, 0, 85)
			w.cluster.Status.Storage = &v1alpha1.StorageStatus{Size: resource.MustParse("12Gi"), GrownAt: metav1.NewTime(noon.Add(-time.Hour))}
		}, ""},
		"they grew a moment ago": {func(w *world) {
			grow("50Gi")(w)
			fill(w, 0, 85)
			w.cluster.Status.Storage = &v1alpha1.StorageStatus{Size: resource.MustParse("10Gi"), GrownAt: metav1.NewTime(noon.Add(-time.Second))}
		}, ""},
		"the class doesn't let them": {func(w *world) { grow("50Gi")(w); fill(w, 0, 85); w.classes["fast"].AllowVolumeExpansion = nil }, ""},
		"the database is down": {func(w *world) {
			grow("50Gi")(w)
			fill(w, 0, 99)
			unready(w, 0)
			w.agents["shop-0"].State = agentapi.StateFailed
		}, "12Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			w := bound(c.change)
			before := volume.Size(w.cluster)
			outcome := (&Reconciler{}).growByItself(t.Context(), w)
			size := volume.Size(w.cluster)
			if c.want == "" {
				if !outcome.Finished() || size.Cmp(before) != 0 {
					t.Errorf("%+v, %s", outcome, size.String())
				}
				return
			}
			if outcome.Kind != flow.KindSave || size.String() != c.want || w.cluster.Status.Storage.Message == "" {
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

func TestSpaceSaysWhoseVolumeIsFullAndWhatToDo(t *testing.T) {
	state := func(ordinal int, state string) func(*world) {
		return func(w *world) {
			w.agents[w.names.Instance(ordinal)].Volume.State = state
			w.agents[w.names.Instance(ordinal)].Volume.Cause = "12 GiB of WAL wait for the archive"
		}
	}
	for name, c := range map[string]struct {
		change  func(*world)
		status  metav1.ConditionStatus
		reason  string
		phrases []string
	}{
		"there is space":        {nil, "True", v1alpha1.ReasonEnoughSpace, nil},
		"nobody has said":       {func(w *world) { w.agents = nil }, "Unknown", v1alpha1.ReasonSpaceUnknown, nil},
		"the primary's is full": {state(0, "Full"), "False", v1alpha1.ReasonDiskFull, []string{"primary shop-0", "may only read", "wait for the archive. ", "raise spec.storage.size beyond 10Gi"}},
		"a replica's is full":   {state(1, "Full"), "False", v1alpha1.ReasonDiskFull, []string{"The volume of shop-1 is full"}},
		"one is nearly full":    {state(1, "AlmostFull"), "False", v1alpha1.ReasonAlmostFull, []string{"shop-1 is nearly full"}},
		"they grow": {func(w *world) {
			w.cluster.Spec.Storage.AutoGrow = &v1alpha1.AutoGrow{Limit: resource.MustParse("20Gi"), AtPercent: 80, StepPercent: 20}
			state(0, "Full")(w)
		}, "False", v1alpha1.ReasonDiskFull, []string{"grow by themselves up to 20Gi"}},
		"they have grown": {func(w *world) {
			w.cluster.Spec.Storage.AutoGrow = &v1alpha1.AutoGrow{Limit: resource.MustParse("10Gi"), AtPercent: 80, StepPercent: 20}
			state(0, "Full")(w)
		}, "False", v1alpha1.ReasonDiskFull, []string{"to their limit"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := bound(c.change)
			report(w, flow.Next)
			got := meta.FindStatusCondition(w.cluster.Status.Conditions, v1alpha1.ConditionStorageHealthy)
			if got.Status != c.status || got.Reason != c.reason {
				t.Errorf("%s %s: %s", got.Status, got.Reason, got.Message)
			}
			for _, phrase := range c.phrases {
				if !strings.Contains(got.Message, phrase) {
					t.Errorf("%q is not in %s", phrase, got.Message)
				}
			}
		})
	}
}

func TestWhatIsUsedIsPublishedByThePercent(t *testing.T) {
	w := bound(nil)
	report(w, flow.Next)
	storage := w.cluster.Status.Instances[0].Storage
	if storage.Capacity.String() != "10Gi" || storage.Percent != 40 {
		t.Fatalf("%+v", storage)
	}
	before := storage.Used.Value()
	w.agents["shop-0"].Volume.UsedBytes += gib / 20
	report(w, flow.Next)
	if used := w.cluster.Status.Instances[0].Storage.Used.Value(); used != before {
		t.Errorf("half a percent more is published: %d instead of %d", used, before)
	}
	w.agents["shop-0"].Volume.UsedBytes += gib
	report(w, flow.Next)
	if used := w.cluster.Status.Instances[0].Storage.Used.Value(); used <= before {
		t.Errorf("ten percent more are not published: %d", used)
	}
	w.agents = nil
	report(w, flow.Next)
	if w.cluster.Status.Instances[0].Storage.Used == nil {
		t.Error("what an agent has said is forgotten when it doesn't answer")
	}
}

func TestPodsWithoutAStatefulSetKeepTheirNumber(t *testing.T) {
	w := bound(func(w *world) {
		w.cluster.Spec.Instances = 1
		delete(w.live, key("StatefulSet", "shop"))
	})
	if !w.orphaned() || w.replicas() != 3 {
		t.Errorf("orphaned %v, %d replicas", w.orphaned(), w.replicas())
	}
	for i := range w.pods {
		w.pods[i].DeletionTimestamp = &metav1.Time{Time: noon}
	}
	if w.orphaned() {
		t.Error("pods that end need no StatefulSet")
	}
}
