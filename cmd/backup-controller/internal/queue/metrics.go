package queue

import "github.com/prometheus/client_golang/prometheus"

// Metrics are how many backups run and how many wait.
func Metrics(q *Queue) prometheus.Collector { return collector{q} }

var (
	runningMetric = prometheus.NewDesc("howdah_backups_running", "Number of Backups that run.", nil, nil)
	queuedMetric  = prometheus.NewDesc("howdah_backups_queued", "Number of Backups that wait until few enough run.", nil, nil)
)

type collector struct{ queue *Queue }

// Describe implements prometheus.Collector.
func (c collector) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- runningMetric
	descriptions <- queuedMetric
}

// Collect implements prometheus.Collector.
func (c collector) Collect(metrics chan<- prometheus.Metric) {
	running, waiting := c.queue.Counts()
	metrics <- prometheus.MustNewConstMetric(runningMetric, prometheus.GaugeValue, float64(running))
	metrics <- prometheus.MustNewConstMetric(queuedMetric, prometheus.GaugeValue, float64(waiting))
}
