package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// stage is one kind of tests.
type stage struct {
	name, about string
	needs       []string // background jobs
	run         func(context.Context, *tally) error

	took  time.Duration
	busy  float64 // share of the machine's processors that was in use meanwhile, by whomever
	tally tally
	err   error
}

func (s *stage) line() string {
	verdict := "ok"
	if s.err != nil {
		verdict = "FAILED"
	}
	return fmt.Sprintf("%-12s %-6s %8s %3.0f%% busy  %s", s.name, verdict, short(s.took), 100*s.busy, s.tally)
}

// stages are all kinds of tests. What `make test` leaves out of a kind, full has.
func stages(full bool) []*stage {
	images, servers, suite := []string{"images"}, []string{"cluster"}, []string{"suite"}
	if usersCluster() {
		servers, suite = nil, nil
	}
	all := []*stage{
		{
			name: "verify", about: "generated files, lint, chart, documents, builds for other systems", needs: []string{"packages"}, // apt runs once at a time
			run: func(ctx context.Context, _ *tally) error { return command(ctx, "verify", nil, "make", "verify") },
		},
		{
			name: "unit", about: "everything that needs neither root nor a server",
			run: func(ctx context.Context, t *tally) error { return unit(ctx, t, full) },
		},
		{
			name: "kube-unit", about: "the test bed's own tests",
			run: func(ctx context.Context, t *tally) error { return kubeUnit(ctx, t, full) },
		},
		{
			name: "kube", about: "the test bed up, broken in every way, and down", needs: images,
			run: func(ctx context.Context, t *tally) error {
				return goTest(ctx, t, goSuite{name: "kube", dir: "test/kube", tags: "kube", packages: []string{"./cmd/kube"},
					timeout: 20 * time.Minute, env: []string{"GOWORK=off"}})
			},
		},
		{
			name: "postgres", about: "the agent and its libraries against real PostgreSQL", needs: []string{"packages"},
			run: func(ctx context.Context, t *tally) error { return onPostgres(ctx, t, full) },
		},
		{
			name: "postgres-18", about: "what depends on the server's version, against the newest, in the root of its image", needs: images,
			run: func(ctx context.Context, t *tally) error { return postgresInImage(ctx, t, "18", full) },
		},
		{
			name: "integration", about: "each controller against a real API server", needs: []string{"kubernetes"},
			run: func(ctx context.Context, t *tally) error { return integration(ctx, t, full) },
		},
		{
			name: "s3", about: "the store against real S3 servers", needs: servers,
			run: func(ctx context.Context, t *tally) error { return s3(ctx, t, full) },
		},
		{
			name: "e2e", about: "the suite on a real cluster, through its chart",
			needs: suite, run: tagged(goSuite{name: "e2e", tags: "e2e", parallel: clustersAtOnce, short: !full, timeout: time.Hour, env: clusterEnv()}),
		},
	}
	if !usersCluster() {
		all = append(all, installStage(full))
	}
	if full {
		all = append(all, fuzzStage(), emulatedStage())
	}
	if full && !usersCluster() {
		for _, v := range variants {
			all = append(all, v.stage())
		}
	}
	return all
}

// waiting is how many tests may run at a time that wait for servers more than they compute.
const waiting = 3

// clustersAtOnce is how many end-to-end tests may. With more at work on two processors an idle cluster has news, and waits take longer.
const clustersAtOnce = 2

// concurrent are the folders of what does several things at a time, whose tests always run with the race detector. The
// others' don't, because that takes a build of its own and several times as long.
var concurrent = []string{
	"/cmd/agent", "/cmd/backup-controller", "/cmd/db-controller", "/cmd/drill-controller", "/cmd/pooler-controller", "/cmd/restore-controller", "/cmd/upgrade-controller",
	"/pkg/background", "/pkg/backup", "/pkg/flow", "/pkg/manager", "/pkg/objstore", "/pkg/walsocket",
}

// sequential are folders in these that start no goroutine, and neither do their tests: what a pass of the db-controller decides, and
// parsers, plans and tables. The detector has nothing to find in them until `make test-full`, and a build with it for each of them, and
// exploring the election, take it minutes.
var sequential = []string{
	"/cmd/agent/internal/elect", "/cmd/agent/internal/extensions", "/cmd/agent/internal/findings", "/cmd/agent/internal/recovery",
	"/cmd/agent/internal/settings", "/cmd/agent/internal/space", "/cmd/agent/internal/usage",
	"/cmd/backup-controller/internal/ownership", "/cmd/backup-controller/internal/requestedbackup", "/cmd/backup-controller/internal/schedule",
	"/cmd/db-controller/internal/access", "/cmd/db-controller/internal/autoscale",
	"/cmd/db-controller/internal/availability", "/cmd/db-controller/internal/component", "/cmd/db-controller/internal/disconnect",
	"/cmd/db-controller/internal/finalbackup", "/cmd/db-controller/internal/imagechange", "/cmd/db-controller/internal/instances",
	"/cmd/db-controller/internal/minorupdate", "/cmd/db-controller/internal/observed", "/cmd/db-controller/internal/reading",
	"/cmd/db-controller/internal/report", "/cmd/db-controller/internal/restartwindow", "/cmd/db-controller/internal/retainedvolumes",
	"/cmd/db-controller/internal/rolling", "/cmd/db-controller/internal/scaling", "/cmd/db-controller/internal/servertls",
	"/cmd/db-controller/internal/storage", "/cmd/db-controller/internal/volumegrant", "/cmd/db-controller/internal/volumemove",
	"/cmd/restore-controller/internal/planning", "/pkg/backup/format", "/pkg/backup/retention",
}

// unit runs what needs nothing. The engine of backups and the backup-controller's test with hostile stores run without the race detector,
// too: what their memory is can only be measured so, and tests that pack a lot leave the detector out, which makes them twenty times
// slower.
func unit(ctx context.Context, t *tally, full bool) error {
	plain, raced, err := unitPackages(ctx)
	if err != nil {
		return err
	}
	plain = append(plain, "./pkg/backup", "./cmd/backup-controller/internal/hostilestores")
	if full {
		raced, plain = append(raced, plain...), append(plain, raced...)
	}
	return goTests(ctx, t,
		goSuite{name: "unit", packages: raced, race: true, short: !full},
		goSuite{name: "unit", packages: plain, short: !full},
	)
}

// kubeUnit tests the modules of the test bed.
func kubeUnit(ctx context.Context, t *tally, full bool) error {
	for _, module := range []string{"test/kube", "test/kube/assets/policies"} {
		if err := goTest(ctx, t, goSuite{name: "kube-unit", dir: module, packages: []string{"./..."}, env: []string{"GOWORK=off"}, race: full}); err != nil {
			return err
		}
	}
	return nil
}

// unitPackages are those without and those with concurrency.
func unitPackages(ctx context.Context) (plain, raced []string, err error) {
	out, err := exec.CommandContext(ctx, "go", "list", "./...", "./apis/...").Output()
	if err != nil {
		return nil, nil, fmt.Errorf("list the packages: %w", err)
	}
	for pkg := range strings.FieldsSeq(string(out)) {
		path := strings.TrimPrefix(pkg, "howdah.dev/howdah") + "/"
		within := func(folder string) bool { return strings.HasPrefix(path, folder+"/") }
		if slices.ContainsFunc(concurrent, within) && !slices.ContainsFunc(sequential, within) {
			raced = append(raced, pkg)
		} else {
			plain = append(plain, pkg)
		}
	}
	return plain, raced, nil
}

// sparedJobs are folders whose tests run one Job after the other. What a Job does at a time has tests without a server, and with the detector.
var sparedJobs = []string{
	"cmd/agent/internal/basebackup/", "cmd/agent/internal/drilljob/", "cmd/agent/internal/imagetrial/", "cmd/agent/internal/initialize/",
	"cmd/agent/internal/restorejob/", "cmd/agent/internal/roles/", "cmd/agent/internal/upgradejob/", "cmd/howdah-backup/", "pkg/postgres/",
}

// onPostgres runs the tests of PostgreSQL against this machine's own.
func onPostgres(ctx context.Context, t *tally, full bool) error {
	return withDetector(ctx, t, goSuite{name: "postgres", tags: "postgres", parallel: waiting, short: !full, timeout: 30 * time.Minute},
		full, sparedJobs...)
}

// withDetector runs the tests of the files that have a suite's build tag.
func withDetector(ctx context.Context, t *tally, suite goSuite, full bool, spared ...string) error {
	suites, err := suite.withDetector(ctx, full, spared...)
	if err != nil {
		return err
	}
	return goTests(ctx, t, suites...)
}

// withDetector is a suite with the race detector, and the rest of it without. Some folders are spared the detector but in
// `make test-full`: tests that pack whole databases would take minutes, and what they start at a time has tests of its own.
func (s goSuite) withDetector(ctx context.Context, full bool, spared ...string) ([]goSuite, error) {
	files, err := filesWith(ctx, s.tags)
	if err != nil {
		return nil, err
	}
	var plain, others []string
	for _, path := range files {
		if !full && slices.ContainsFunc(spared, func(folder string) bool { return strings.HasPrefix(path, folder) }) {
			plain = append(plain, path)
		} else {
			others = append(others, path)
		}
	}
	detecting, err := s.of(others)
	if err != nil {
		return nil, err
	}
	detecting.race = true
	rest, err := s.of(plain)
	return []goSuite{detecting, rest}, err
}

// postgresInImage runs the tests of PostgreSQL against one that this machine's Debian doesn't have.
func postgresInImage(ctx context.Context, t *tally, major string, full bool) error {
	if err := command(ctx, "inimage", nil, "go", "build", "-o", "build/bin/inimage", "./test/inimage"); err != nil {
		return err
	}
	archives, err := kube(ctx, "images")
	if err != nil {
		return err
	}
	top, err := os.Getwd()
	if err != nil {
		return err
	}
	for archive := range strings.FieldsSeq(archives) {
		if strings.HasPrefix(filepath.Base(archive), "postgresql-"+major+"-") {
			return tagged(goSuite{
				name: "postgres-" + major, tags: "postgres", parallel: waiting, race: full, short: !full, timeout: 30 * time.Minute,
				exec: filepath.Join(top, "build/bin/inimage") + " " + archive,
			})(ctx, t)
		}
	}
	return fmt.Errorf("there is no image of PostgreSQL %s among %s", major, archives)
}

// tagged runs the tests of the files that have a suite's build tag; what else their packages have runs without it.
func tagged(s goSuite) func(context.Context, *tally) error {
	return func(ctx context.Context, t *tally) error {
		files, err := filesWith(ctx, s.tags)
		if err != nil {
			return err
		}
		if s, err = s.of(files); err != nil {
			return err
		}
		return goTests(ctx, t, s)
	}
}

// of is the suite of the tests of these files.
func (s goSuite) of(files []string) (goSuite, error) {
	var err error
	s.packages, s.run, err = testsIn(files)
	return s, err
}

// filesWith finds the test files with this build tag.
func filesWith(ctx context.Context, tag string) ([]string, error) {
	out, err := exec.CommandContext(ctx, "grep", "-rlE", "--include=*_test.go", "^//go:build (.*[^!])?\\b"+tag+"\\b",
		"pkg", "cmd", "apis", "test", "--exclude-dir=kube").Output()
	if err != nil {
		return nil, fmt.Errorf("no test has the build tag %s: %w", tag, err)
	}
	return strings.Fields(string(out)), nil
}

var testName = regexp.MustCompile(`(?m)^func (Test\w+)\(\w+ \*testing\.T\)`)

// testsIn are the packages of some files, and the tests in these.
func testsIn(files []string) (packages []string, pattern string, err error) {
	var names []string
	for _, path := range files {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, "", err
		}
		for _, match := range testName.FindAllSubmatch(content, -1) {
			names = append(names, string(match[1]))
		}
		packages = append(packages, "./"+filepath.Dir(path))
	}
	slices.Sort(packages)
	return slices.Compact(packages), "^(" + strings.Join(names, "|") + ")$", nil
}

// s3 runs the tests of the store on both servers.
func s3(ctx context.Context, t *tally, full bool) error {
	suite := goSuite{name: "s3", tags: "s3", short: !full, timeout: 20 * time.Minute}
	const spared = "pkg/backup/"
	if usersCluster() {
		return withDetector(ctx, t, suite, full, spared)
	}
	var suites []goSuite
	for _, server := range []string{"minio", "versitygw"} {
		env, err := kube(ctx, "s3", "env", server)
		if err != nil {
			return err
		}
		on := suite
		on.env, on.on = strings.Fields(env), " on "+server
		both, err := on.withDetector(ctx, full, spared)
		if err != nil {
			return err
		}
		suites = append(suites, both...)
	}
	return goTests(ctx, t, suites...)
}

func integration(ctx context.Context, t *tally, full bool) error {
	assets, err := kube(ctx, "assets") // with kube-apiserver, etcd and kubectl
	if err != nil {
		return err
	}
	env := []string{"KUBEBUILDER_ASSETS=" + assets}
	// The detector runs where the controllers run together; each alone has it in its unit tests.
	return withDetector(ctx, t, goSuite{
		name: "integration", tags: "integration", parallel: waiting, short: !full, timeout: 20 * time.Minute, env: env,
	}, full, "cmd/", "test/integration/crd/")
}

// kube runs a verb of the test bed and returns what it prints.
func kube(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "build/bin/kube", args...)
	cmd.Env = append(os.Environ(), clusterEnv()...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}
