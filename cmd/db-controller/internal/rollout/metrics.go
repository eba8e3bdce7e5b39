package rollout

import "github.com/prometheus/client_golang/prometheus"

// Metrics are to how many clusters changes are rolled out, and how many wait.
func Metrics(l *Limit) prometheus.Collector { return collector{l} }

var (
	rollingMetric = prometheus.NewDesc("howdah_clusters_rolling_out", "Number of PostgresClusters to which a change is rolled out that takes down instances.", nil, nil)
	waitingMetric = prometheus.NewDesc("howdah_clusters_awaiting_rollout", "Number of PostgresClusters that wait until few enough others roll out theirs.", nil, nil)
)

type collector struct{ limit *Limit }

// Describe implements prometheus.Collector.
func (c collector) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- rollingMetric
	descriptions <- waitingMetric
}

// Collect implements prometheus.Collector.
func (c collector) Collect(metrics chan<- prometheus.Metric) {
	rolling, waiting := c.limit.Counts()
	metrics <- prometheus.MustNewConstMetric(rollingMetric, prometheus.GaugeValue, float64(rolling))
	metrics <- prometheus.MustNewConstMetric(waitingMetric, prometheus.GaugeValue, float64(waiting))
}
