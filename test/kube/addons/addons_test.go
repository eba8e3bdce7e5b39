package addons

import (
	"strings"
	"testing"

	"howdah.dev/test/kube/topology"
)

func TestTheManifestsAgreeWithTheNodes(t *testing.T) {
	cluster, err := topology.New(topology.DefaultName, "/cache", topology.Shape{Workers: 1, IP: topology.IPv6})
	if err != nil {
		t.Fatal(err)
	}
	manifests := Manifests(cluster)
	for _, want := range []string{
		`clusterIP: "` + cluster.ServiceDNS() + "\"\n",
		"kubernetes " + topology.ClusterDomain + " ",
		"nodeSelector: {kubernetes.io/hostname: " + topology.ControlPlane + "}",
	} {
		if !strings.Contains(manifests, want) {
			t.Errorf("the manifests lack %q", want)
		}
	}
}
