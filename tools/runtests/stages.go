package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// stage is one kind of tests.
type stage struct {
	name, about string
	needs       []string // background jobs
	run         func(context.Context, *tally) error

	took  time.Duration
	tally tally
	err   error
}

func (s *stage) line() string {
	verdict := "ok"
	if s.err != nil {
		verdict = "FAILED"
	}
	return fmt.Sprintf("%-12s %-6s %8s  %s", s.name, verdict, short(s.took), s.tally)
}

func stages() []*stage {
	servers, suite := []string{"cluster"}, []string{"suite"}
	if usersCluster() {
		servers, suite = nil, nil
	}
	return []*stage{
		{
			name: "verify", about: "generated files, lint, chart, documents", needs: []string{"packages"}, // apt runs once at a time
			run: func(ctx context.Context, _ *tally) error { return command(ctx, "verify", nil, "make", "verify") },
		},
		{
			name: "unit", about: "everything that needs neither root nor a server",
			run: func(ctx context.Context, t *tally) error {
				return goTest(ctx, t, goSuite{name: "unit", packages: []string{"./...", "./apis/..."}})
			},
		},
		{
			name: "kube-unit", about: "the test bed's own tests",
			run: func(ctx context.Context, t *tally) error {
				return goTest(ctx, t, goSuite{name: "kube-unit", dir: "test/kube", packages: []string{"./..."}, env: []string{"GOWORK=off"}})
			},
		},
		{
			name: "kube", about: "the test bed up, broken in every way, and down", needs: servers,
			run: func(ctx context.Context, t *tally) error {
				return goTest(ctx, t, goSuite{name: "kube", dir: "test/kube", tags: "kube", packages: []string{"./cmd/kube"},
					timeout: 20 * time.Minute, env: []string{"GOWORK=off"}})
			},
		},
		{
			name: "postgres", about: "the agent and its libraries against real PostgreSQL", needs: []string{"packages"},
			run: tagged("postgres", 20*time.Minute),
		},
		{
			name: "postgres-18", about: "the same against the newest, in the root of its image", needs: servers,
			run: func(ctx context.Context, t *tally) error { return postgresInImage(ctx, t, "18") },
		},
		{
			name: "integration", about: "each controller against a real API server", needs: []string{"kubernetes"},
			run: integration,
		},
		{
			name: "s3", about: "the store against real S3 servers", needs: servers, run: s3,
		},
		{
			name: "e2e", about: "the suite on a real cluster, through its chart",
			needs: suite, run: tagged("e2e", time.Hour, clusterEnv()...),
		},
	}
}

// tagged runs the packages that have tests with this build tag.
func tagged(tag string, timeout time.Duration, env ...string) func(context.Context, *tally) error {
	return func(ctx context.Context, t *tally) error {
		packages, err := packagesWith(ctx, tag)
		if err != nil {
			return err
		}
		return goTest(ctx, t, goSuite{name: tag, tags: tag, packages: packages, timeout: timeout, env: env})
	}
}

// postgresInImage runs the tests of PostgreSQL against one that this machine's Debian doesn't have.
func postgresInImage(ctx context.Context, t *tally, major string) error {
	if err := command(ctx, "inimage", nil, "go", "build", "-o", "build/bin/inimage", "./test/inimage"); err != nil {
		return err
	}
	archives, err := kube(ctx, "images")
	if err != nil {
		return err
	}
	packages, err := packagesWith(ctx, "postgres")
	if err != nil {
		return err
	}
	top, err := os.Getwd()
	if err != nil {
		return err
	}
	for archive := range strings.FieldsSeq(archives) {
		if strings.HasPrefix(filepath.Base(archive), "postgresql-"+major+"-") {
			return goTest(ctx, t, goSuite{
				name: "postgres-" + major, tags: "postgres", packages: packages, timeout: 20 * time.Minute,
				exec: filepath.Join(top, "build/bin/inimage") + " " + archive,
			})
		}
	}
	return fmt.Errorf("there is no image of PostgreSQL %s among %s", major, archives)
}

// packagesWith finds the folders that have a test file with this build tag.
func packagesWith(ctx context.Context, tag string) ([]string, error) {
	out, err := exec.CommandContext(ctx, "grep", "-rlE", "--include=*_test.go", "^//go:build .*\\b"+tag+"\\b",
		"pkg", "cmd", "apis", "test", "--exclude-dir=kube").Output()
	if err != nil {
		return nil, fmt.Errorf("no test has the build tag %s: %w", tag, err)
	}
	seen := map[string]bool{}
	var packages []string
	for _, path := range strings.Fields(string(out)) {
		if dir := "./" + filepath.Dir(path); !seen[dir] {
			seen[dir] = true
			packages = append(packages, dir)
		}
	}
	return packages, nil
}

// s3 runs the tests of the store on one server after the other.
func s3(ctx context.Context, t *tally) error {
	if usersCluster() {
		return tagged("s3", 20*time.Minute)(ctx, t)
	}
	var errs []error
	for _, server := range []string{"minio", "versitygw"} {
		env, err := kube(ctx, "s3", "env", server)
		if err != nil {
			return err
		}
		fmt.Printf("    on %s:\n", server)
		errs = append(errs, tagged("s3", 20*time.Minute, strings.Fields(env)...)(ctx, t))
	}
	return errors.Join(errs...)
}

func integration(ctx context.Context, t *tally) error {
	assets, err := kube(ctx, "assets") // with kube-apiserver, etcd and kubectl
	if err != nil {
		return err
	}
	return tagged("integration", 20*time.Minute, "KUBEBUILDER_ASSETS="+assets)(ctx, t)
}

// kube runs a verb of the test bed and returns what it prints.
func kube(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "build/bin/kube", args...)
	cmd.Env = append(os.Environ(), clusterEnv()...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}
