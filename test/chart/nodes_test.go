//go:build chart

package chart

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// nodesChart asks the chart's own helper about the nodes in its values, since there is no cluster here to look at.
const nodesChart = `answer: {{ include "howdah.runFromImages" .Values.nodes | quote }}`

func TestTheAgentIsMountedWhereEveryNodeCanRunItFromAnImage(t *testing.T) {
	const able = "v1.36.3 containerd://2.4.2"
	for name, c := range map[string]struct {
		nodes []string
		want  bool
	}{
		"no nodes are seen":                 {nil, false},
		"all can":                           {[]string{able, able}, true},
		"the first that can":                {[]string{"v1.35.0 containerd://2.1.0"}, true},
		"k3s":                               {[]string{"v1.36.1+k3s1 containerd://2.1.4-k3s1"}, true},
		"GKE":                               {[]string{"v1.35.2-gke.1054000 containerd://2.1.5"}, true},
		"a build of containerd's own":       {[]string{"v1.36.3 containerd://v2.4.2+unknown"}, true},
		"pre-releases":                      {[]string{"v1.35.0-rc.1 containerd://2.1.0-rc.2"}, true},
		"Kubernetes before":                 {[]string{"v1.34.9 containerd://2.2.0"}, false},
		"containerd before":                 {[]string{"v1.36.3 containerd://2.0.7"}, false},
		"containerd 1":                      {[]string{"v1.36.3 containerd://1.7.27"}, false},
		"one of many that can't":            {[]string{able, "v1.34.2 containerd://2.1.4", able}, false},
		"CRI-O, which mounts noexec":        {[]string{able, "v1.36.0 cri-o://1.36.0"}, false},
		"a version that can't be read":      {[]string{"v1.36.3 containerd://unknown"}, false},
		"no containers, as a virtual node":  {[]string{"v1.36.3 "}, false},
		"nothing known of the node as yet":  {[]string{" "}, false},
		"numbers compared, and not letters": {[]string{"v1.100.0 containerd://2.10.0"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := runFromImages(t, c.nodes); got != c.want {
				t.Errorf("%q: %t", c.nodes, got)
			}
		})
	}
}

// runFromImages renders nodesChart for nodes, each of which is the versions of its kubelet and of its runtime.
func runFromImages(t *testing.T, versions []string) bool {
	t.Helper()
	nodes := []corev1.Node{}
	for _, v := range versions {
		node := corev1.Node{}
		node.Status.NodeInfo.KubeletVersion, node.Status.NodeInfo.ContainerRuntimeVersion, _ = strings.Cut(v, " ")
		nodes = append(nodes, node)
	}
	out, err := ask(t, nodesChart, map[string]any{"nodes": nodes})
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	switch {
	case strings.Contains(out, `answer: "true"`):
		return true
	case strings.Contains(out, `answer: ""`):
		return false
	}
	t.Fatalf("no answer:\n%s", out)
	return false
}
