// Package metrics shows the state of one instance to Prometheus; docs/metrics.md lists what there is.
package metrics

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/pkg/agentapi"
)

// Source knows the instance.
type Source interface {
	Status() agentapi.Status
	ArchiveCounts() (pushed, failures int64)
	Server() local.Server
}

// Handler answers with the metrics of source. Queries is a file with a person's own; it may be missing.
func Handler(source Source, queries string, log *slog.Logger) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(&collector{
		source: source, queries: newQuerier(source.Server(), allQueries()), custom: newCustom(source.Server(), queries, log),
	}, collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 2, Timeout: askTime + time.Second})
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("howdah_"+name, help, labels, nil)
}

var (
	up              = describe("up", "1 while PostgreSQL accepts connections.")
	info            = describe("instance_info", "Always 1; the labels say what the instance is.", "role", "version", "generation")
	timeline        = describe("timeline", "Timeline of the instance.")
	started         = describe("start_time_seconds", "When PostgreSQL was started last, in seconds since 1970.")
	pendingRestart  = describe("config_pending_restart", "Number of parameters whose new value waits for a restart.")
	configRefused   = describe("config_refused", "1 while the desired configuration is refused and the previous one is in force.")
	certificateEnd  = describe("certificate_expiry_timestamp_seconds", "When the server's certificate, or a CA above it, expires, in seconds since 1970. Howdah renews its own a month before.")
	certificateFrom = describe("certificate_start_timestamp_seconds", "Since when the certificate that expires first is valid, in seconds since 1970.")
	volumeBytes     = describe("volume_bytes", "Size of the volume's file system.")
	volumeUsed      = describe("volume_used_bytes", "Used space of the volume, without the reserve that the agent keeps for recovery.")
	walBytes        = describe("wal_bytes", "Size of the WAL on the volume.")
	walVolumeBytes  = describe("wal_volume_bytes", "Size of the WAL volume's file system; missing where WAL is on the volume of the data.")
	walVolumeUsed   = describe("wal_volume_used_bytes", "Used space of the WAL volume, without the reserve that the agent keeps for recovery; missing where WAL is on the volume of the data.")
	volumeFull      = describe("volume_full", "1 while the volume, or the WAL volume, is so full that clients of a primary may only read.")
	diskSync        = describe("disk_sync_seconds", "How long the last small write to the volume took until it was on disk, or has taken so far.")
	diskStalled     = describe("disk_stalled", "1 while the disk of the volume has not answered for so long that the instance hands over, or does not take over.")
	archiveLast     = describe("archive_last_success_seconds", "When a file was archived last, in seconds since 1970; 0: none since the agent started.")
	archiveFailing  = describe("archive_failing", "1 while WAL can't be archived; exists only with an archive, like all howdah_archive….")
	archiveWaiting  = describe("archive_waiting_segments", "WAL files that wait to be archived, and fill the volume.")
	archiveAge      = describe("archive_oldest_waiting_seconds", "How long the first waiting segment has been complete; 0: none waits.")
	archiveRPO      = describe("archive_rpo_seconds", "Estimated seconds of commits that are not archived yet, and that losing all volumes would lose. At most archive_timeout plus the time of a push while all is well.")
	volumeLeft      = describe("volume_full_in_seconds", "Seconds until the volume, or the WAL volume, is full, at the rate of the last ten minutes; missing while the volume does not fill.")
	archived        = describe("archived_total", "WAL files archived since the agent started.")
	archiveDamaged  = describe("archive_damaged_timestamp_seconds", "When WAL was last archived in which a record has a wrong checksum, in seconds since 1970; 0: none since the agent started.")
	archiveFailures = describe("archive_failures_total", "Attempts to archive that failed since the agent started.")
)

type collector struct {
	source  Source
	queries *querier
	custom  *custom // nil: none
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
		gauge(volumeFull, one(status.FullVolume() != nil))
		if full := status.FullAt(); !full.IsZero() {
			gauge(volumeLeft, max(0, time.Until(full).Seconds()))
		}
		wal := v
		if w := status.WALVolume; w != nil {
			gauge(walVolumeBytes, float64(w.Bytes))
			gauge(walVolumeUsed, float64(w.UsedBytes))
			wal = w
		}
		gauge(walBytes, float64(wal.WALBytes))
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
	if tls := status.ServerTLS; tls != nil && !tls.Shown.Until.IsZero() {
		gauge(certificateEnd, seconds(tls.Shown.Until))
		gauge(certificateFrom, seconds(tls.Shown.From))
	}
	election(status, gauge)
	checks(status.Checks, gauge)
	if running {
		c.queries.collect(out)
		if c.custom != nil {
			c.custom.collect(status.Role == "primary", out)
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
