package metrics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/pkg/customqueries"
	"howdah.dev/howdah/pkg/postgres"
)

// Limits of a person's own queries.
const (
	customTime   = 5 * time.Second  // for one of them in one database
	customRound  = 2 * time.Minute  // for all of them
	customEvery  = 30 * time.Second // how often they run, at most
	customRows   = 100              // of one in one database
	customSeries = 2000             // of all of them
)

var (
	customFailed  = describe("custom_query_failed", "1 if the query failed when it last ran, so that its metrics are missing.", "query")
	customSeconds = describe("custom_query_seconds", "How long the query took when it last ran, in all of its databases.", "query")
)

// custom runs a person's own queries in the background while somebody scrapes, and keeps what they returned.
type custom struct {
	server local.Server
	file   string
	every  time.Duration
	each   time.Duration // for one query in one database
	log    *slog.Logger

	mu      sync.Mutex
	results []*customResult // in the order of the queries
	began   time.Time
	runs    bool
}

// customResult is what a query returned the last time.
type customResult struct {
	query   customqueries.Query
	metrics []prometheus.Metric
	err     error
	at      time.Time
	took    time.Duration
}

func newCustom(server local.Server, file string, log *slog.Logger) *custom {
	return &custom{server: server, file: file, every: customEvery, each: customTime, log: log}
}

// collect sends what the queries returned last, and has them run again if it is time to.
func (c *custom) collect(primary bool, out chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, result := range c.results {
		for _, metric := range result.metrics {
			out <- metric
		}
		out <- prometheus.MustNewConstMetric(customFailed, prometheus.GaugeValue, one(result.err != nil), result.query.Name)
		out <- prometheus.MustNewConstMetric(customSeconds, prometheus.GaugeValue, result.took.Seconds(), result.query.Name)
	}
	if c.file == "" || c.runs || time.Since(c.began) < c.every {
		return
	}
	c.runs, c.began = true, time.Now()
	known := map[string]*customResult{}
	for _, result := range c.results {
		known[result.query.Name] = result
	}
	go func() {
		results := c.round(known, primary)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.results, c.runs = results, false
	}()
}

// round runs the queries that are due.
func (c *custom) round(known map[string]*customResult, primary bool) (results []*customResult) {
	queries, err := readQueries(c.file)
	if err != nil {
		c.log.Error("the queries for metrics can't be read", "error", err)
	}
	if len(queries) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), customRound)
	defer cancel()
	sessions := &monitorSessions{server: c.server, each: c.each, open: map[string]*pgx.Conn{}}
	defer sessions.close(ctx)
	left := customSeries
	for _, query := range queries {
		result := c.result(ctx, sessions, known[query.Name], query, primary)
		if result == nil {
			continue
		}
		if left -= len(result.metrics); left < 0 {
			left, result = 0, &customResult{query: query, at: result.at, err: fmt.Errorf("all queries together return more than %d series", customSeries)}
		}
		c.tell(known[query.Name], result)
		results = append(results, result)
	}
	return results
}

// result of a query; nil: it isn't for this server.
func (c *custom) result(ctx context.Context, sessions *monitorSessions, last *customResult, query customqueries.Query, primary bool) *customResult {
	if query.Primary && !primary {
		return nil
	}
	now := time.Now()
	every := time.Duration(query.EverySeconds) * time.Second
	if last != nil && last.err == nil && last.query.SQL == query.SQL && now.Sub(last.at) < every {
		return last
	}
	result := &customResult{query: query, at: now}
	names, err := sessions.databases(ctx, query)
	seen := map[string]bool{}
	for _, name := range names {
		if err == nil {
			err = sessions.run(ctx, name, query, seen, &result.metrics)
		}
	}
	if errors.Is(err, errOtherVersion) {
		return nil
	}
	if result.took = time.Since(now); err != nil {
		result.metrics, result.err = nil, err
	}
	return result
}

// tell logs that a query begins to fail, or no longer does.
func (c *custom) tell(last, now *customResult) {
	before, after := "", ""
	if last != nil && last.err != nil {
		before = last.err.Error()
	}
	if now.err != nil {
		after = now.err.Error()
	}
	switch {
	case before == after:
	case after != "":
		c.log.Warn("a query for metrics fails", "query", now.query.Name, "error", after)
	default:
		c.log.Info("a query for metrics no longer fails", "query", now.query.Name)
	}
}

func readQueries(file string) (queries []customqueries.Query, err error) {
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(content, &queries)
	}
	return queries, err
}

var errOtherVersion = errors.New("the query is for another version of PostgreSQL")

// major of the server of a session.
func major(conn *pgx.Conn) int {
	version, err := postgres.ParseVersion(conn.PgConn().ParameterStatus("server_version"))
	if err != nil {
		return 0
	}
	return version.Major
}
