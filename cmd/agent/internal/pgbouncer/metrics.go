package pgbouncer

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	metricsTime = 3 * time.Second
	// mostPools are how many pairs of database and user have metrics of their own: clients choose the names.
	mostPools = 200
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("howdah_pooler_"+name, help, labels, nil)
}

var (
	upMetric      = describe("up", "1 while the console of PgBouncer answers.")
	waitingMetric = describe("waiting", "1 while clients wait for a primary, or for the end of a handover.")
	refusedMetric = describe("config_refused", "1 while the changed configuration is refused and the previous one is in force.")
	lookupsMetric = describe("lookups_refused", "1 while PostgreSQL refuses to have passwords looked up, so no client can log in.")
	pausesMetric  = describe("pauses_total", "How many times clients have waited for a primary.")
	clientsMetric = describe("clients", "Clients of a database and user, by state: active or waiting.", "database", "user", "state")
	serversMetric = describe("servers", "Connections to the server of a database and user, by state: active, idle or login.", "database", "user", "state")
	longestMetric = describe("longest_wait_seconds", "For how long the client that is next has waited for a connection.", "database", "user")
	xactsMetric   = describe("transactions_total", "Transactions of a database.", "database")
	queriesMetric = describe("queries_total", "Queries of a database.", "database")
	waitMetric    = describe("wait_seconds_total", "For how long all clients have waited for connections.", "database")
)

// Metrics shows a pooler to Prometheus.
func Metrics(p *Pooler) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector{p}, collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 2, Timeout: metricsTime + time.Second})
}

type collector struct{ pooler *Pooler }

// Describe sends nothing: which series there are is known when PgBouncer is asked.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect asks PgBouncer.
func (c collector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), metricsTime)
	defer cancel()
	send := func(desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, kind, value, labels...)
	}
	waiting, pauses, running := c.pooler.waits()
	send(waitingMetric, prometheus.GaugeValue, waiting)
	send(pausesMetric, prometheus.CounterValue, pauses)
	send(refusedMetric, prometheus.GaugeValue, asNumber(c.pooler.keepsPrevious()))
	send(lookupsMetric, prometheus.GaugeValue, asNumber(c.pooler.logsNobodyIn()))
	if running == nil {
		send(upMetric, prometheus.GaugeValue, 0)
		return
	}
	pools, err := running.rows(ctx, "SHOW POOLS")
	send(upMetric, prometheus.GaugeValue, asNumber(err == nil))
	for _, row := range shown(pools) {
		labels := []string{row["database"], row["user"]}
		send(longestMetric, prometheus.GaugeValue, number(row["maxwait"])+number(row["maxwait_us"])/1e6, labels...)
		for column, state := range map[string]string{"cl_active": "active", "cl_waiting": "waiting"} {
			send(clientsMetric, prometheus.GaugeValue, number(row[column]), append(labels, state)...)
		}
		for column, state := range map[string]string{"sv_active": "active", "sv_idle": "idle", "sv_login": "login"} {
			send(serversMetric, prometheus.GaugeValue, number(row[column]), append(labels, state)...)
		}
	}
	stats, _ := running.rows(ctx, "SHOW STATS_TOTALS") // up has said it
	for _, row := range shown(stats) {
		send(xactsMetric, prometheus.CounterValue, number(row["xact_count"]), row["database"])
		send(queriesMetric, prometheus.CounterValue, number(row["query_count"]), row["database"])
		send(waitMetric, prometheus.CounterValue, number(row["wait_time"])/1e6, row["database"])
	}
}

// shown are the rows that have metrics: not those of the console. Prometheus refuses names that are no UTF-8, and clients may send any bytes
// before their password is checked.
func shown(rows []map[string]string) []map[string]string {
	rows = slices.DeleteFunc(rows, func(row map[string]string) bool {
		return row["database"] == "pgbouncer" || !utf8.ValidString(row["database"]) || !utf8.ValidString(row["user"])
	})
	return rows[:min(len(rows), mostPools)]
}

func number(text string) float64 {
	value, _ := strconv.ParseFloat(text, 64) // PgBouncer writes numbers
	return value
}

func asNumber(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
