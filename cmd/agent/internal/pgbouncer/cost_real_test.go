//go:build postgres

package pgbouncer

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/bouncertest"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// Ways to the server.
const (
	direct  = "direct connections"
	bare    = "PgBouncer alone"
	ofAgent = "Pooler"
)

// workloads of pgbench, by its flags.
var workloads = []struct{ name, flag string }{{"select-only", "-S"}, {"TPC-B", "-b tpcb-like"}}

// clients of each run.
const benchClients = 16

// TestWhatAPoolerCosts is make bench-pooler: it measures the same work directly, by way of PgBouncer alone with the same configuration, and by way
// of one that an agent runs. The ways take turns, as other work on the machine comes and goes.
func TestWhatAPoolerCosts(t *testing.T) {
	runs, seconds := fromEnv("HOWDAH_BENCH_RUNS"), fromEnv("HOWDAH_BENCH_SECONDS")
	if runs == 0 || seconds == 0 {
		t.Skip("make bench-pooler says how long to measure")
	}
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	b.lead(a, 1)
	b.run(func(c *agentapi.PoolerConfig) { c.PoolSize = benchClients })
	ports := map[string]place{direct: a.place, bare: {Address: "localhost", Port: b.alone()}, ofAgent: {Address: "localhost", Port: b.pooler.Port}}
	b.pgbench(ports[direct], "-i", "-q", "-s", "20")

	ways, measured := []string{direct, bare, ofAgent}, map[string][]float64{}
	for run := range runs {
		for _, work := range workloads {
			for i := range ways {
				way := ways[(run+i)%len(ways)]
				flags := append(strings.Fields(work.flag), "-n", "-c", fmt.Sprint(benchClients), "-j", "2", "-T", fmt.Sprint(seconds))
				tps := rate(t, b.pgbench(ports[way], flags...))
				t.Logf("run %d, %s, %s: %.0f transactions a second", run+1, work.name, way, tps)
				measured[work.name+way] = append(measured[work.name+way], tps)
			}
		}
	}
	fmt.Printf("\n%s\n", costs(ways, measured))
}

func fromEnv(variable string) int {
	n, _ := strconv.Atoi(os.Getenv(variable))
	return n
}

// alone runs PgBouncer as a person would, with the configuration of the pooler but for what ends connections to replicas, and looks passwords up.
func (b *bed) alone() (port int) {
	b.t.Helper()
	dir := filepath.Join(b.dir, "alone")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.t.Fatal(err)
	}
	port = pgtest.Port(b.t)
	paths := b.pooler.Paths
	paths.RunDir, paths.Port = dir, port
	config := render(b.config, paths, b.pooler.servers)
	ownLookup, ownQuery := fmt.Sprintf("host=%s port=%d", dir, lookupPort), " connect_query='"+notReplica(b.config)+"'"
	config = strings.ReplaceAll(config, ownLookup, "dbname=postgres "+route(b.config, b.pooler.servers))
	config = strings.ReplaceAll(config, ownQuery, "")
	for file, content := range map[string]string{iniFile: config, userFile: fmt.Sprintf("%q %q\n", console, "secret")} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o640); err != nil {
			b.t.Fatal(err)
		}
	}
	pgtest.Own(b.t, dir)
	cmd := exec.Command("setpriv", append([]string{"--reuid=postgres", "--regid=postgres", "--clear-groups"}, append(bouncertest.Command(b.t), filepath.Join(dir, iniFile))...)...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	b.until("PgBouncer listens", func() bool {
		_, err := os.Stat(filepath.Join(dir, fmt.Sprintf(".s.PGSQL.%d", port)))
		return err == nil
	})
	return port
}

// pgbench runs it as the application, over TLS.
func (b *bed) pgbench(at place, flags ...string) string {
	b.t.Helper()
	cmd := pgtest.Installed(b.t)[0].Command(b.t.Context(), b.t, "pgbench", flags...)
	cmd.Env = append(cmd.Env, "PGHOST="+at.Address, fmt.Sprintf("PGPORT=%d", at.Port), "PGDATABASE=shop", "PGUSER=app", "PGPASSWORD=secret", "PGSSLMODE=require")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || strings.Contains(stderr.String(), "aborted") {
		b.t.Fatalf("pgbench %s: %v: %s%s", strings.Join(flags, " "), err, out, stderr.String())
	}
	return string(out)
}

var tpsLine = regexp.MustCompile(`(?m)^tps = ([0-9.]+)`)

func rate(t *testing.T, said string) float64 {
	t.Helper()
	found := tpsLine.FindStringSubmatch(said)
	if found == nil {
		t.Fatal(said)
	}
	tps, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return tps
}

// costs is the table: medians with the least and the most, and of each run what it was beside PgBouncer alone.
func costs(ways []string, measured map[string][]float64) string {
	var out strings.Builder
	fmt.Fprintln(&out, "| work | way | transactions a second | beside PgBouncer alone |\n| --- | --- | --- | --- |")
	for _, work := range workloads {
		for _, way := range ways {
			tps := measured[work.name+way]
			var beside []float64
			for run, n := range tps {
				beside = append(beside, 100*n/measured[work.name+bare][run])
			}
			fmt.Fprintf(&out, "| %s | %s | %s | %s |\n", work.name, way, spread(tps, "%.0f"), spread(beside, "%.1f%%"))
		}
	}
	return out.String()
}

func spread(values []float64, format string) string {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	median := (sorted[(n-1)/2] + sorted[n/2]) / 2
	return fmt.Sprintf(format+" ("+format+"–"+format+")", median, sorted[0], sorted[n-1])
}
