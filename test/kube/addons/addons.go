// Package addons holds the manifests that make a bare Kubernetes one that workloads run on.
package addons

import _ "embed"

// Manifests is the YAML to apply.
//
//go:embed addons.yaml
var Manifests string

// AuditPolicy has the API server log every request's metadata once, when it was answered.
const AuditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`
