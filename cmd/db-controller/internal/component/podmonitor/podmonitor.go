// Package podmonitor builds the PodMonitor of a cluster, by which the Prometheus operator has Prometheus scrape its instances.
package podmonitor

import (
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component"
	"howdah.dev/howdah/cmd/db-controller/internal/component/secret"
	"howdah.dev/howdah/pkg/workload"
)

// New is an object of the kind.
func New() *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("monitoring.coreos.com/v1")
	object.SetKind("PodMonitor")
	return object
}

// Of a cluster as spec wants it. Pods are scraped by their addresses, and their certificate has names only, so one of those is named.
func Of(cluster *v1alpha1.PostgresCluster, wanted *v1alpha1.PodMonitor) *unstructured.Unstructured {
	names := component.NamesOf(cluster)
	reference := func(key string) map[string]any { return map[string]any{"name": names.Metrics(), "key": key} }
	endpoint := map[string]any{
		"port": "agent", "scheme": "https",
		"tlsConfig": map[string]any{
			"serverName": names.Primary(),
			"ca":         map[string]any{"secret": reference(secret.KeyAuthority)},
			"cert":       map[string]any{"secret": reference(secret.KeyCertificate)},
			"keySecret":  reference(secret.KeyPrivate),
		},
		// Alerts and dashboard rely on these; namespace and pod come by themselves.
		"relabelings": []any{
			map[string]any{"action": "replace", "targetLabel": "job", "replacement": "howdah"},
			map[string]any{"action": "replace", "targetLabel": "cluster", "replacement": cluster.Name},
		},
	}
	if wanted.Interval != "" {
		endpoint["interval"] = wanted.Interval
	}
	object := New()
	object.SetNamespace(cluster.Namespace)
	object.SetName(names.PodMonitor())
	labels := component.Labels(cluster, component.Access)
	maps.Copy(labels, wanted.Labels)
	object.SetLabels(labels)
	object.Object["spec"] = map[string]any{
		"selector":            map[string]any{"matchLabels": map[string]any{v1alpha1.LabelCluster: cluster.Name, v1alpha1.LabelComponent: workload.ComponentInstance}},
		"podMetricsEndpoints": []any{endpoint},
	}
	return object
}

// Taken says why an object that is there is not the cluster's.
func Taken(object *unstructured.Unstructured) string {
	return fmt.Sprintf("PodMonitor %s exists and belongs to somebody else, so it is not touched: delete it, or remove spec.monitoring.podMonitor.", object.GetName())
}
