package report

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
)

func TestSpaceSaysWhoseVolumeIsFullAndWhatToDo(t *testing.T) {
	state := func(ordinal int, state string) func(*observed.Cluster) {
		return func(o *observed.Cluster) {
			o.Agents[o.Names.Instance(ordinal)].Volume.State = state
			o.Agents[o.Names.Instance(ordinal)].Volume.Cause = "12 GiB of WAL wait for the archive"
		}
	}
	stalled := func(ordinal int) func(*observed.Cluster) {
		return func(o *observed.Cluster) {
			o.Agents[o.Names.Instance(ordinal)].Disk = &agentapi.DiskStatus{StalledSince: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
		}
	}
	for name, c := range map[string]struct {
		change  func(*observed.Cluster)
		status  metav1.ConditionStatus
		reason  string
		phrases []string
	}{
		"there is space":           {nil, "True", v1alpha1.ReasonEnoughSpace, nil},
		"nobody has said":          {func(o *observed.Cluster) { o.Agents = nil }, "Unknown", v1alpha1.ReasonSpaceUnknown, nil},
		"the primary's is full":    {state(0, "Full"), "False", v1alpha1.ReasonDiskFull, []string{"primary shop-0", "may only read", "wait for the archive. ", "raise spec.storage.size beyond 10Gi"}},
		"a replica's is full":      {state(1, "Full"), "False", v1alpha1.ReasonDiskFull, []string{"The volume of shop-1 is full"}},
		"one is nearly full":       {state(1, "AlmostFull"), "False", v1alpha1.ReasonAlmostFull, []string{"shop-1 is nearly full"}},
		"the primary's disk hangs": {stalled(0), "False", v1alpha1.ReasonDiskStalled, []string{"disk of shop-0 has not answered since 2026-01-02T03:04:05Z", "Commits wait"}},
		"a replica's disk hangs":   {stalled(1), "False", v1alpha1.ReasonDiskStalled, []string{"disk of shop-1", "does not take over"}},
		"they grow": {func(o *observed.Cluster) {
			o.Cluster.Spec.Storage.AutoGrow = &v1alpha1.AutoGrow{Limit: resource.MustParse("20Gi"), AtPercent: 80, StepPercent: 20}
			state(0, "Full")(o)
		}, "False", v1alpha1.ReasonDiskFull, []string{"grow automatically up to 20Gi"}},
		"they have grown": {func(o *observed.Cluster) {
			o.Cluster.Spec.Storage.AutoGrow = &v1alpha1.AutoGrow{Limit: resource.MustParse("10Gi"), AtPercent: 80, StepPercent: 20}
			state(0, "Full")(o)
		}, "False", v1alpha1.ReasonDiskFull, []string{"to their limit"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := observedtest.Bound(c.change)
			Write(o, flow.Next)
			got := meta.FindStatusCondition(o.Cluster.Status.Conditions, v1alpha1.ConditionStorageHealthy)
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
	o := observedtest.Bound(nil)
	Write(o, flow.Next)
	storage := o.Cluster.Status.Instances[0].Storage
	if storage.Capacity.String() != "10Gi" || storage.Percent != 40 {
		t.Fatalf("%+v", storage)
	}
	before := storage.Used.Value()
	o.Agents["shop-0"].Volume.UsedBytes += observedtest.GiB / 20
	Write(o, flow.Next)
	if used := o.Cluster.Status.Instances[0].Storage.Used.Value(); used != before {
		t.Errorf("half a percent more is published: %d instead of %d", used, before)
	}
	o.Agents["shop-0"].Volume.UsedBytes += observedtest.GiB
	Write(o, flow.Next)
	if used := o.Cluster.Status.Instances[0].Storage.Used.Value(); used <= before {
		t.Errorf("ten percent more are not published: %d", used)
	}
	o.Agents = nil
	Write(o, flow.Next)
	if o.Cluster.Status.Instances[0].Storage.Used == nil {
		t.Error("what an agent has said is forgotten when it doesn't respond")
	}
}
