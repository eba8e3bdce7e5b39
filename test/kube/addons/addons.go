// Package addons holds the manifests that make a bare Kubernetes one that workloads run on.
package addons

import (
	_ "embed"
	"strings"

	"howdah.dev/test/kube/topology"
)

//go:embed addons.yaml
var manifests string

// MetricsServer is the YAML of what HorizontalPodAutoscalers and `kubectl top` read.
//
//go:embed metrics-server.yaml
var MetricsServer string

// Manifests is the YAML to apply to a cluster.
func Manifests(cluster topology.Cluster) string {
	return strings.ReplaceAll(manifests, "{{.ServiceDNS}}", cluster.ServiceDNS())
}

// AuditPolicy has the API server log every request's metadata once, when it was answered.
const AuditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`
