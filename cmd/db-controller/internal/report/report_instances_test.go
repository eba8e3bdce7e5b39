package report

import (
	"testing"

	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/pkg/flow"
)

func TestWhereAnInstanceIsIsPublished(t *testing.T) {
	o := observedtest.Running(nil)
	Write(o, flow.Next)
	if at := o.Cluster.Status.Instances[0].Address; at != "10.0.0.7" {
		t.Errorf("it is at %q", at)
	}
	o.Pods[0].Status.PodIP = "10.0.0.8"
	Write(o, flow.Next)
	if at := o.Cluster.Status.Instances[0].Address; at != "10.0.0.8" {
		t.Errorf("after a power cut it is at %q", at)
	}
	o.Pods = nil
	Write(o, flow.Next)
	if at := o.Cluster.Status.Instances[0].Address; at != "" {
		t.Errorf("without a pod it is at %q", at)
	}
}

func TestTheLastPrimaryIsRememberedWhileThereIsNone(t *testing.T) {
	o := observedtest.Trio(func(o *observed.Cluster) { observedtest.SwitchedTo(o, "shop-1") })
	Write(o, flow.Next)
	observedtest.AllGone(o)
	Write(o, flow.Next)
	if o.Cluster.Status.Primary != "shop-1" {
		t.Errorf("got %q", o.Cluster.Status.Primary)
	}
}
