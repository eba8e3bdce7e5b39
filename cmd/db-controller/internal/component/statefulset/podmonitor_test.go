package statefulset

import (
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/secret"
	"howdah.dev/howdah/pkg/agentapi"
)

// podMonitor is as much of the Prometheus operator's kind as the sample of one must have right.
type podMonitor struct {
	Metadata struct{ Name string }
	Spec     struct {
		Selector            struct{ MatchLabels map[string]string }
		PodMetricsEndpoints []struct {
			Port, Scheme string
			TLSConfig    struct{ ServerName string }
			Relabelings  []struct {
				TargetLabel  string
				SourceLabels []string
			}
		}
	}
}

func TestTheSampleOfAPodMonitorFindsTheAgentsAndTrustsTheirCertificate(t *testing.T) {
	content, err := os.ReadFile("../../../../../config/samples/podmonitor.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var monitor podMonitor
	if err := yaml.Unmarshal(content, &monitor); err != nil {
		t.Fatal(err)
	}
	cluster := shop()
	cluster.Name = monitor.Metadata.Name
	pod := Build(cluster, inputs).Spec.Template
	for key, value := range monitor.Spec.Selector.MatchLabels {
		if pod.Labels[key] != value {
			t.Errorf("it looks for pods with %s=%s, and they have %q", key, value, pod.Labels[key])
		}
	}
	endpoint := monitor.Spec.PodMetricsEndpoints[0]
	if !slices.ContainsFunc(pod.Spec.Containers[0].Ports, func(port corev1.ContainerPort) bool {
		return port.Name == endpoint.Port && port.ContainerPort == agentapi.AgentPort
	}) || endpoint.Scheme != "https" {
		t.Errorf("%s on port %s is not the agent", endpoint.Scheme, endpoint.Port)
	}
	if names := secret.ServerRequest(cluster).DNSNames; !slices.Contains(names, endpoint.TLSConfig.ServerName) {
		t.Errorf("the certificate is not for %q, but for %v", endpoint.TLSConfig.ServerName, names)
	}
	labels := map[string][]string{}
	for _, relabeling := range endpoint.Relabelings {
		labels[relabeling.TargetLabel] = relabeling.SourceLabels
	}
	source := "__meta_kubernetes_pod_label_" + strings.NewReplacer(".", "_", "/", "_", "-", "_").Replace(v1alpha1.LabelCluster)
	if !slices.Equal(labels["cluster"], []string{source}) {
		t.Errorf("the label cluster comes from %v, want %s", labels["cluster"], source)
	}
}
