// Package metrics shows the state of one instance to Prometheus; docs/metrics.md lists what there is.
package metrics

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// Source knows the instance.
type Source interface {
	Status() agentapi.Status
	ArchiveCounts() (pushed, failures int64)
	Server() local.Server
}

// Handler answers with the metrics of source.
func Handler(source Source) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(&collector{source: source}, collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 2, Timeout: queryTime + time.Second})
}

const (
	queryTime = 5 * time.Second
	queryAge  = 15 * time.Second // what was asked of the server is given again for so long
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("howdah_"+name, help, labels, nil)
}

var (
	up              = describe("up", "1 while PostgreSQL accepts connections.")
	info            = describe("instance_info", "Always 1; says what the instance is.", "role", "version", "generation")
	timeline        = describe("timeline", "Timeline that the instance is on.")
	started         = describe("start_time_seconds", "When PostgreSQL was started last, in seconds since 1970.")
	pendingRestart  = describe("config_pending_restart", "Parameters whose new value waits for a restart.")
	configRefused   = describe("config_refused", "1 while the wanted configuration is refused and the one before runs on.")
	volumeBytes     = describe("volume_bytes", "Size of the volume's file system.")
	volumeUsed      = describe("volume_used_bytes", "What is used of it, but for what the agent holds back.")
	walBytes        = describe("wal_bytes", "Size of the WAL on the volume.")
	volumeFull      = describe("volume_full", "1 while the volume is so full that clients of a primary may only read.")
	diskSync        = describe("disk_sync_seconds", "How long the last small write to the volume took until it was on disk, or has taken so far.")
	diskStalled     = describe("disk_stalled", "1 while the disk of the volume has not answered for so long that the instance hands over, or does not take over.")
	archiveLast     = describe("archive_last_success_seconds", "When a file was archived last, in seconds since 1970; 0: none since the agent started.")
	archiveFailing  = describe("archive_failing", "1 while WAL can't be archived.")
	archiveWaiting  = describe("archive_waiting_segments", "WAL files that wait to be archived.")
	archiveAge      = describe("archive_oldest_waiting_seconds", "How long the first WAL segment that waits has been complete; 0: none waits.")
	archiveRPO      = describe("archive_rpo_seconds", "For how long what was committed is on the volumes only, as an estimate.")
	volumeLeft      = describe("volume_full_in_seconds", "When the volume will be full as it fills now; missing while it doesn't fill.")
	archived        = describe("archived_total", "WAL files archived since the agent started.")
	archiveDamaged  = describe("archive_damaged_timestamp_seconds", "When WAL was last archived in which a record has a wrong checksum, in seconds since 1970; 0: none since the agent started.")
	archiveFailures = describe("archive_failures_total", "Tries to archive that failed since the agent started.")
	sessions        = describe("sessions", "Client sessions by state.", "state")
	maxSessions     = describe("max_sessions", "max_connections.")
	databaseBytes   = describe("database_size_bytes", "Size of a database on disk.", "database")
	checkpoints     = describe("checkpoints", "Checkpoints since the server's statistics were reset, by what asked for them.", "kind")
	transactionAge  = describe("oldest_xid_age", "Age of the oldest unfrozen transaction ID; writes end at about two thousand million.")
)

type collector struct {
	source Source

	mu    sync.Mutex
	asked time.Time
	last  []prometheus.Metric
}

// Describe describes nothing: which metrics there are depends on the instance.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends what is known.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	status := c.source.Status()
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	running := status.State == agentapi.StateRunning
	gauge(up, one(running))
	gauge(info, 1, status.Role, status.Version, status.DataGeneration)
	gauge(timeline, float64(status.Timeline))
	gauge(started, seconds(status.StartedAt))
	gauge(pendingRestart, float64(len(status.PendingRestart)))
	gauge(configRefused, one(status.ConfigError != ""))
	if v := status.Volume; v != nil {
		gauge(volumeBytes, float64(v.Bytes))
		gauge(volumeUsed, float64(v.UsedBytes))
		gauge(walBytes, float64(v.WALBytes))
		gauge(volumeFull, one(v.State == agentapi.VolumeFull))
		if !v.FullAt.IsZero() {
			gauge(volumeLeft, max(0, time.Until(v.FullAt).Seconds()))
		}
	}
	if d := status.Disk; d != nil {
		gauge(diskSync, d.SyncSeconds)
		gauge(diskStalled, one(!d.StalledSince.IsZero()))
	}
	if status.Archive != nil {
		pushed, failures := c.source.ArchiveCounts()
		gauge(archiveLast, seconds(status.Archive.LastTime))
		gauge(archiveFailing, one(!status.Archive.FailingSince.IsZero()))
		gauge(archiveWaiting, float64(status.Archive.Waiting))
		gauge(archiveAge, age(status.Archive.WaitingSince))
		gauge(archiveRPO, status.Archive.RPOSeconds)
		found := time.Time{}
		if damaged := status.Archive.Damaged; damaged != nil {
			found = damaged.Time
		}
		gauge(archiveDamaged, seconds(found))
		out <- prometheus.MustNewConstMetric(archived, prometheus.CounterValue, float64(pushed))
		out <- prometheus.MustNewConstMetric(archiveFailures, prometheus.CounterValue, float64(failures))
	}
	election(status, gauge)
	if running {
		for _, metric := range c.ask() {
			out <- metric
		}
	}
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// age of what has been so since a time; zero: it isn't so.
func age(since time.Time) float64 {
	if since.IsZero() {
		return 0
	}
	return max(0, time.Since(since).Seconds())
}

func seconds(at time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return float64(at.Unix())
}

// ask asks the server, one question at a time and not too often.
func (c *collector) ask() []prometheus.Metric {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.asked) < queryAge {
		return c.last
	}
	ctx, cancel := context.WithTimeout(context.Background(), queryTime)
	defer cancel()
	c.last = nil
	err := c.source.Server().With(ctx, "postgres", func(conn *pgx.Conn) error {
		for _, query := range append(queries, checkpointQuery(conn)) {
			if err := c.query(ctx, conn, query); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		c.last = nil // up says enough
	}
	c.asked = time.Now()
	return c.last
}

// query yields a label's value, empty for none, and a number.
type query struct {
	desc    *prometheus.Desc
	labeled bool
	sql     string
}

var queries = []query{
	{sessions, true, `SELECT coalesce(state, 'unknown'), count(*)::float8 FROM pg_stat_activity WHERE backend_type = 'client backend' GROUP BY 1`},
	{maxSessions, false, `SELECT '', current_setting('max_connections')::float8`},
	{transactionAge, false, `SELECT '', max(age(datfrozenxid))::float8 FROM pg_database`},
	{databaseBytes, true, `SELECT datname, pg_database_size(oid)::float8 FROM pg_database WHERE NOT datistemplate`},
}

// checkpointQuery asks where the server's version keeps them.
func checkpointQuery(conn *pgx.Conn) query {
	sql := `SELECT kind, n::float8 FROM pg_stat_bgwriter, LATERAL (VALUES ('timed', checkpoints_timed), ('requested', checkpoints_req)) AS v (kind, n)`
	if version, err := postgres.ParseVersion(conn.PgConn().ParameterStatus("server_version")); err == nil && version.Major >= 17 {
		sql = `SELECT kind, n::float8 FROM pg_stat_checkpointer, LATERAL (VALUES ('timed', num_timed), ('requested', num_requested)) AS v (kind, n)`
	}
	return query{checkpoints, true, sql}
}

func (c *collector) query(ctx context.Context, conn *pgx.Conn, query query) error {
	rows, err := conn.Query(ctx, query.sql)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var label string
		var value float64
		if err := rows.Scan(&label, &value); err != nil {
			return err
		}
		var labels []string
		if query.labeled {
			labels = []string{label}
		}
		c.last = append(c.last, prometheus.MustNewConstMetric(query.desc, prometheus.GaugeValue, value, labels...))
	}
	return rows.Err()
}
