//go:build postgres

package settings

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// cloudNativePG are the defaults of its operator that change how fast a server is; the others are PostgreSQL's own.
var cloudNativePG = map[string]string{
	"max_parallel_workers": "32", "max_worker_processes": "32", "max_replication_slots": "32", "wal_keep_size": "512MB", "wal_level": "logical",
	"wal_log_hints": "on", "archive_timeout": "5min",
}

// benchWork is what is measured: pgbench, whose number is transactions a second, and a load, whose number is seconds.
var benchWork = []string{"TPC-B (tps)", "select-only (tps)", "bulk load (s)"}

// TestWhatTheDefaultsAreWorth is make bench-settings: it measures the same work with PostgreSQL's own settings, those of CloudNativePG and ours. They
// take turns, each on a server of its own that waits for the disk.
func TestWhatTheDefaultsAreWorth(t *testing.T) {
	runs, seconds, gib := number("HOWDAH_BENCH_RUNS"), number("HOWDAH_BENCH_SECONDS"), number("HOWDAH_BENCH_MEMORY")
	if runs == 0 || seconds == 0 || gib == 0 {
		t.Skip("make bench-settings says how long to measure")
	}
	installed := pgtest.Installed(t)
	ours := map[string]string{}
	for _, p := range postgres.MergeParameters(
		postgres.DefaultParameters(installed[len(installed)-1].Major, int64(gib)<<30, runtime.NumCPU()), postgres.VolumeParameters(int64(gib)*10<<30, 0),
	) {
		ours[p.Name] = p.Value
	}
	settings := map[string]map[string]string{"PostgreSQL's own": nil, "CloudNativePG": cloudNativePG, "Howdah": ours}
	names, measured := slices.Sorted(maps.Keys(settings)), map[string][]float64{}
	for run := range runs {
		for i := range names {
			name := names[(run+i)%len(names)]
			for work, value := range measure(t, settings[name], seconds, gib) {
				t.Logf("run %d, %s, %s: %.1f", run+1, name, work, value)
				measured[work+name] = append(measured[work+name], value)
			}
		}
	}
	fmt.Printf("\n%s\n", worth(names, measured))
}

func number(variable string) int {
	n, _ := strconv.Atoi(os.Getenv(variable))
	return n
}

// measure a new server with these settings. Its data is about half as large as the memory.
func measure(t *testing.T, settings map[string]string, seconds, gib int) map[string]float64 {
	t.Helper()
	params := map[string]string{"fsync": "on", "shared_buffers": "128MB", "max_wal_size": "1GB"} // what tests set otherwise
	maps.Copy(params, settings)
	server := pgtest.Start(t, pgtest.Options{Params: params})
	defer server.Stop()
	connect := []string{"--host=" + server.SocketDir, "--username=postgres"}
	server.Run(t, "pgbench", append(connect, "-i", "-q", "-s", fmt.Sprint(35*gib), "postgres")...)
	rate := func(script string) float64 {
		return tps(t, server.Run(t, "pgbench", append(connect, "-n", "-b", script, "-c", "16", "-j", "2", "-T", fmt.Sprint(seconds), "postgres")...))
	}
	results := map[string]float64{benchWork[0]: rate("tpcb-like"), benchWork[1]: rate("select-only")}
	began := time.Now()
	server.SQL(fmt.Sprintf("CREATE TABLE loaded AS SELECT i AS id, md5(i::text) AS word FROM generate_series(1, %d) AS i", seconds*100000))
	server.SQL("CREATE INDEX ON loaded (word)")
	results[benchWork[2]] = time.Since(began).Seconds()
	return results
}

var tpsOf = regexp.MustCompile(`(?m)^tps = ([0-9.]+)`)

func tps(t *testing.T, said string) float64 {
	t.Helper()
	found := tpsOf.FindStringSubmatch(said)
	if found == nil {
		t.Fatal(said)
	}
	value, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// worth is the table: medians, with the least and the most.
func worth(names []string, measured map[string][]float64) string {
	var out strings.Builder
	fmt.Fprintf(&out, "| work | %s |\n|%s\n", strings.Join(names, " | "), strings.Repeat(" --- |", len(names)+1))
	for _, work := range benchWork {
		fmt.Fprintf(&out, "| %s |", work)
		for _, name := range names {
			values := slices.Sorted(slices.Values(measured[work+name]))
			fmt.Fprintf(&out, " %.1f (%.1f to %.1f) |", values[len(values)/2], values[0], values[len(values)-1])
		}
		fmt.Fprintln(&out)
	}
	return out.String()
}
