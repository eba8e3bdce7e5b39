package v1alpha1

// Monitoring of a cluster.
type Monitoring struct {
	// CustomQueriesConfigMap has keys of ConfigMaps of the same namespace with queries whose results are metrics of the instances, in the
	// format of postgres_exporter and CloudNativePG. They run as the role howdah_monitor, which may see statistics and what is granted to
	// it, in transactions that can't write. A change restarts nothing.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	CustomQueriesConfigMap []ConfigMapKey `json:"customQueriesConfigMap,omitempty"`
	// PodMonitor creates a PodMonitor for the Prometheus operator, and a Secret <name>-metrics with the certificate by which Prometheus
	// may read the metrics.
	// +optional
	PodMonitor *PodMonitor `json:"podMonitor,omitempty"`
}

// PodMonitor for the Prometheus operator.
type PodMonitor struct {
	// Labels of the PodMonitor, by which Prometheus selects it; for example: release: kube-prometheus-stack.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.contains('howdah.dev/') && !k.startsWith('app.kubernetes.io/'))",message="spec.monitoring.podMonitor.labels must not contain labels of howdah.dev or app.kubernetes.io, which Howdah sets itself; write those by which your Prometheus selects it, such as release: kube-prometheus-stack"
	Labels map[string]string `json:"labels,omitempty"`
	// Interval between two scrapes. By default, that of Prometheus.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,4}(s|m)$') && self != '0s' && self != '0m'",message="spec.monitoring.podMonitor.interval must be in seconds or minutes; for example: 30s"
	Interval string `json:"interval,omitempty"`
}
