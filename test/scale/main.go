// Command scale measures what many clusters cost the controllers: the real binaries with a real API server and etcd, a stand-in for
// kubelets and for Kubernetes' own controllers, and one process that plays all agents over mutual TLS. docs/benchmarks.md says
// what is measured, and how.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// inside says in the environment that this process is in a network namespace of its own.
const inside = "HOWDAH_SCALE_INSIDE"

type settings struct {
	sizes     []int
	instances int32 // of each cluster
	scenarios []scenario
	deaf      int // percent
	backups   int
	minio     string // its program
	changes   int
	idle      time.Duration
	patience  time.Duration
	binaries  string
	profiles  string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	s, err := readSettings()
	if err != nil {
		return err
	}
	if os.Getenv(inside) == "" {
		return again(ctx)
	}
	log.SetLogger(logr.Discard())
	// The API server takes no address of 127.0.0.0/8 into an EndpointSlice. MinIO listens only at an address that an interface has.
	for _, command := range []string{"link set lo up", "route add local 10.128.0.0/9 dev lo", "address add " + bucketAddress + "/32 dev lo"} {
		if err := exec.CommandContext(ctx, "ip", strings.Fields(command)...).Run(); err != nil {
			return fmt.Errorf("ip %s: %w", command, err)
		}
	}
	fmt.Println(header)
	idled := map[int]*rates{}
	for _, n := range s.sizes {
		if idled[n], err = measure(ctx, s, n); err != nil {
			return fmt.Errorf("%d clusters: %w", n, err)
		}
	}
	compare(idled, s.sizes)
	return nil
}

func readSettings() (settings, error) {
	s := settings{}
	sizes := flag.String("n", "100", "numbers of clusters, separated by commas")
	names := flag.String("scenarios", "all", "which scenarios, separated by commas: idle, change, kill, server, leases, rollout, schedules, backups, deaf")
	instances := flag.Int("instances", 1, "how many instances each cluster has")
	flag.IntVar(&s.deaf, "deaf", 33, "of how many percent of the clusters the agents are deaf in the last scenario")
	flag.IntVar(&s.changes, "changes", 50, "how many changes of a spec are measured")
	flag.IntVar(&s.backups, "backups", 10_000, "how many finished Backups there are in the scenario backups")
	flag.StringVar(&s.minio, "minio", "", "program of MinIO, for schedules and backups")
	flag.DurationVar(&s.idle, "idle", time.Minute, "how long idle clusters are watched")
	flag.DurationVar(&s.patience, "patience", 30*time.Minute, "how long a scenario may take")
	flag.StringVar(&s.binaries, "binaries", "build/bin", "folder of the controllers' binaries")
	flag.StringVar(&s.profiles, "profiles", "", "folder for profiles of the db-controller with idle clusters; none if empty")
	flag.Parse()
	if *instances < 1 || *instances > 5 {
		return s, fmt.Errorf("-instances must be a number from 1 to 5, and not %d", *instances)
	}
	s.instances = int32(*instances)
	for text := range strings.SplitSeq(*sizes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 20_000 {
			return s, fmt.Errorf("-n must be numbers from 1 to 20000, and not %q", text)
		}
		s.sizes = append(s.sizes, n)
	}
	var err error
	if s.scenarios, err = chosen(*names); err != nil {
		return s, err
	}
	needsBucket := func(s scenario) bool { return s.name == "schedules" || s.name == "backups" }
	if s.minio == "" && slices.ContainsFunc(s.scenarios, needsBucket) {
		return s, errors.New("-minio must name the program of MinIO, as build/bin/kube s3 program minio prints it, for the scenarios schedules and backups")
	}
	return s, nil
}

// again runs this program in a network namespace of its own, where each agent can have an address with the port of all agents.
func again(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "unshare", append([]string{"--net", self}, os.Args[1:]...)...)
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	return cmd.Run()
}
