package addons

import (
	"strings"
	"testing"

	"howdah.dev/test/kube/topology"
)

func TestTheManifestsAgreeWithTheNodes(t *testing.T) {
	for _, want := range []string{
		"clusterIP: " + topology.ServiceDNS + "\n",
		"kubernetes " + topology.ClusterDomain + " ",
		"nodeSelector: {kubernetes.io/hostname: " + topology.ControlPlane + "}",
	} {
		if !strings.Contains(Manifests, want) {
			t.Errorf("the manifests lack %q", want)
		}
	}
}
