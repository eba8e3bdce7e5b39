package upgrade

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/workload"
)

// stored is trio without a delay, with the volumes of 10 GiB filled that much.
func stored(percent ...int32) *observed {
	o := trio()
	o.cluster.Spec.DelayedReplicas = nil
	for i := range o.cluster.Status.Instances {
		if percent[i] >= 0 {
			o.cluster.Status.Instances[i].Storage = &v1alpha1.InstanceStorage{
				Capacity: ptr.To(resource.MustParse("10Gi")), Used: resource.NewQuantity(int64(percent[i])*10<<30/100, resource.BinarySI), Percent: percent[i],
			}
		}
	}
	return o
}

// TestSpaceThatIsLackingIsFoundBeforeAnythingIsStopped: a replica that can't copy the new data beside the old follows only once that is given up.
func TestSpaceThatIsLackingIsFoundBeforeAnythingIsStopped(t *testing.T) {
	copies := func(o *observed) { o.upgrade.Spec.Transfer = "" }
	synchronous := func(of v1alpha1.Synchronous) func(*observed) {
		return func(o *observed) { copies(o); o.cluster.Spec.Synchronous = &of }
	}
	for name, c := range map[string]struct {
		o      *observed
		change func(*observed)
		want   string // severities of shop-0, shop-1 and shop-2
	}{
		"all have room":                    {stored(40, 40, 40), nil, "---"},
		"nobody has said anything":         {stored(-1, -1, -1), nil, "---"},
		"linked, and no replica has room":  {stored(60, 60, 60), nil, "-EE"},
		"linked, and one replica has room": {stored(60, 60, 40), nil, "-W-"},
		"linked, and one may have room":    {stored(60, 60, -1), nil, "-W-"},
		"linked, and confirmed at once": {stored(60, 60, 60), func(o *observed) {
			o.upgrade.Spec.ConfirmWithin = &metav1.Duration{}
		}, "-WW"},
		"linked, and confirmed soon": {stored(60, 60, 60), func(o *observed) {
			o.upgrade.Spec.ConfirmWithin = &metav1.Duration{Duration: time.Minute}
		}, "-EE"},
		"linked, and those without room are being removed": {stored(40, 40, 60), func(o *observed) { o.cluster.Spec.Instances = 2 }, "---"},
		"copied, and nobody has room":                      {stored(60, 60, 60), copies, "WWW"},
		"copied, and commits would wait":                   {stored(40, 60, 60), synchronous(v1alpha1.Synchronous{Number: 1}), "-EE"},
		"copied, and commits would wait for two":           {stored(40, 60, 40), synchronous(v1alpha1.Synchronous{Number: 2, Durability: v1alpha1.DurabilityRequired}), "-E-"},
		"copied, and commits don't wait": {stored(40, 60, 60),
			synchronous(v1alpha1.Synchronous{Number: 1, Durability: v1alpha1.DurabilityPreferred}), "-WW"},
		"copied, and commits don't wait meanwhile": {stored(40, 60, 60),
			synchronous(v1alpha1.Synchronous{Number: 1, DuringRebuild: v1alpha1.RebuildDegrade}), "-WW"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.change != nil {
				c.change(c.o)
			}
			found := c.o.lacksSpace(5 << 30)
			got := []byte("---")
			for _, f := range found {
				for i, instance := range []string{"shop-0", "shop-1", "shop-2"} {
					if strings.Contains(f.Message, instance) {
						got[i] = f.Severity[0]
					}
				}
				if f.Check != "Space" || !strings.Contains(f.Message, "about 4Gi free") || !strings.Contains(f.Message, "needs about 5Gi") {
					t.Errorf("%+v", f)
				}
			}
			if string(got) != c.want {
				t.Errorf("it found %s, want %s: %+v", got, c.want, found)
			}
		})
	}
}

func TestALinkedUpgradeWithoutRoomOnAReplicaIsNotBegun(t *testing.T) {
	o := stored(60, 60, 60)
	planned(o)
	o.check = workload.State{Exists: true, Complete: true, Outcome: result(agentapi.UpgradeCheckResult{CopyBytes: 5 << 30})}
	passes(t, o)
	status := o.upgrade.Status
	if f := status.Failure; f == nil || f.Reason != v1alpha1.ReasonCheckFailed || !strings.Contains(f.Message, "The volume of shop-1 has about 4Gi free") ||
		status.VolumeLockRequest != nil || len(status.Findings) != 2 {
		t.Errorf("%+v, with %+v", f, status.Findings)
	}
}

// TestAnAgentThatSaysNoSizeFindsNoLack: it is that of an earlier suite.
func TestAnAgentThatSaysNoSizeFindsNoLack(t *testing.T) {
	if found := stored(100, 100, 100).lacksSpace(0); len(found) > 0 {
		t.Errorf("%+v", found)
	}
}
