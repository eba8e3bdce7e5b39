// Package statusmetrics serves to Prometheus what the status of every object of a kind says. It is read from the cache at
// each scrape: nothing is kept that could go stale. That the objects can't be listed is a metric, too.
package statusmetrics

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// timeout bounds what a scrape waits for the cache.
const timeout = 5 * time.Second

var listed = prometheus.NewDesc("howdah_status_listed",
	"1 if the objects that these metrics describe could be listed for this scrape, 0 if not, and the metrics are missing.",
	[]string{"of"}, nil)

// Send sends a gauge.
type Send func(metric *prometheus.Desc, value float64, labels ...string)

// With sends gauges that all begin with these labels.
func (s Send) With(labels ...string) Send {
	return func(metric *prometheus.Desc, value float64, more ...string) {
		s(metric, value, slices.Concat(labels, more)...)
	}
}

// Time sends a time in seconds since 1970, unless it is not known.
func (s Send) Time(metric *prometheus.Desc, at *metav1.Time, labels ...string) {
	if at != nil {
		s(metric, float64(at.Unix()), labels...)
	}
}

// Between sends the seconds from one time to another, once both are known.
func (s Send) Between(metric *prometheus.Desc, from, to *metav1.Time, labels ...string) {
	if from != nil && to != nil {
		s(metric, to.Sub(from.Time).Seconds(), labels...)
	}
}

// Collector serves the metrics of all objects of the kind O.
type Collector[O client.Object] struct {
	// Of names the metrics, as a plural: restores. No other collector of the process has that name.
	Of string
	// Reader is a cache.
	Reader client.Reader
	// List is an empty list of the kind.
	List client.ObjectList
	// Measure sends what the status of one object says. It changes nothing of it.
	Measure func(object O, send Send)
}

// Describe sends nothing: which metrics there are depends on the objects.
func (Collector[O]) Describe(chan<- *prometheus.Desc) {}

// Collect lists the objects and measures each.
func (c Collector[O]) Collect(out chan<- prometheus.Metric) {
	send := func(metric *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(metric, prometheus.GaugeValue, value, labels...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	list := c.List.DeepCopyObject().(client.ObjectList)
	if err := c.Reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		send(listed, 0, c.Of)
		return
	}
	send(listed, 1, c.Of)
	_ = meta.EachListItem(list, func(object runtime.Object) error {
		c.Measure(object.(O), send)
		return nil
	})
}

// Bool is 1 for true.
func Bool(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
