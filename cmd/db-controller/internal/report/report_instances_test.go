package report

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/pkg/agentapi"
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

func TestWhichCopiesAVolumeHasIsPublishedAndStays(t *testing.T) {
	o := observedtest.Running(func(o *observed.Cluster) {
		o.Agents["shop-0"].Copies = []agentapi.Copy{{ID: "g1", Of: "g1"}, {ID: "g1.c1", Of: "g1"}}
	})
	published := func() string { Write(o, flow.Next); return strings.Join(o.Cluster.Status.Instances[0].Copies, " ") }
	if got := published(); got != "g1 g1.c1" {
		t.Errorf("%q", got)
	}
	metav1.SetMetaDataAnnotation(&o.Claim(0).ObjectMeta, "howdah.dev/replaced-copies", "g1,g1.c1")
	o.Agents["shop-0"].Copies = nil
	if got := published(); got != "g1 g1.c1" {
		t.Errorf("while its agent doesn't know: %q", got)
	}
	o.Pods, o.Agents = nil, nil
	if got := published(); got != "g1 g1.c1" {
		t.Errorf("without a pod: %q", got)
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
