package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/manager"
)

const header = `| clusters | scenario | what | value |
| ---      | ---      | ---  | ---   |`

// bench is one number of clusters.
type bench struct {
	settings    settings
	n           int
	server      *server
	client      client.Client // writes, and reads from informers
	cache       cache.Cache
	live        client.Client
	fleet       *fleet
	kubelet     *kubelet
	controllers []*process
	// bucket of the BackupRepositories; nil: none has needed it yet.
	bucket *bucket
	// changed counts changes of specs, so that no two are alike.
	changed int
	// idled is what the db-controller used while nothing changed; nil: that was not measured.
	idled *rates
}

func (b *bench) note(scenario, what, format string, values ...any) {
	fmt.Printf("| %d | %s | %s | %s |\n", b.n, scenario, what, fmt.Sprintf(format, values...))
}

// scenario is a part that can be left out.
type scenario struct {
	name string
	run  func(*bench, context.Context) error
}

// scenarios in their order. All but the last one leave all agents answering.
func scenarios() []scenario {
	return []scenario{
		{"idle", (*bench).idle},
		{"change", (*bench).change},
		{"kill", (*bench).restart},
		{"server", (*bench).loseServer},
		{"leases", (*bench).leases},
		{"rollout", (*bench).rollOut},
		{"schedules", (*bench).schedules},
		{"backups", (*bench).finishedBackups},
		{"deaf", (*bench).deafened},
	}
}

// chosen are the scenarios with these names, in their order.
func chosen(names string) ([]scenario, error) {
	wanted := map[string]bool{}
	for name := range strings.SplitSeq(names, ",") {
		wanted[name] = true
	}
	var found []scenario
	for _, s := range scenarios() {
		if wanted["all"] || wanted[s.name] {
			found = append(found, s)
		}
		delete(wanted, s.name)
	}
	delete(wanted, "all")
	for name := range wanted {
		return nil, fmt.Errorf("-scenarios: there is no %q: write all, or some of idle,change,kill,server,leases,rollout,schedules,backups,deaf", name)
	}
	return found, nil
}

// measure runs the scenarios with n clusters, and prints a line of the table for each figure. It returns what the db-controller used while
// nothing changed.
func measure(ctx context.Context, s settings, n int) (*rates, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := os.MkdirAll(filepath.Join(s.binaries, "..", "logs"), 0o755); err != nil {
		return nil, err
	}
	server, err := startServer()
	if err != nil {
		return nil, err
	}
	defer server.stop()
	b := &bench{settings: s, n: n, server: server, controllers: controllers(s, server)}
	defer func() {
		for _, p := range b.controllers {
			p.kill()
		}
		b.bucket.stop()
		cancel() // before the server stops, which waits for watches
	}()
	if err := b.begin(ctx); err != nil {
		return nil, err
	}
	if err := b.seed(ctx); err != nil {
		return nil, err
	}
	for _, scenario := range s.scenarios {
		if err := scenario.run(b, ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", scenario.name, err)
		}
	}
	return b.idled, nil
}

// begin starts the stand-in, the agents and the controllers.
func (b *bench) begin(ctx context.Context) error {
	options := ctrl.Options{Scheme: manager.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"}, Cache: cache.Options{DefaultTransform: cache.TransformStripManagedFields()}}
	mgr, err := ctrl.NewManager(b.server.config, options)
	if err != nil {
		return err
	}
	if b.live, err = client.New(b.server.config, client.Options{Scheme: mgr.GetScheme()}); err != nil {
		return err
	}
	b.client, b.cache, b.fleet = mgr.GetClient(), mgr.GetCache(), newFleet(mgr.GetClient())
	b.kubelet = newKubelet(mgr.GetClient(), b.fleet)
	if err := b.kubelet.start(mgr); err != nil {
		return err
	}
	go func() {
		if err := mgr.Start(ctx); err != nil && !errors.Is(err, context.Canceled) {
			fmt.Fprintln(os.Stderr, "scale: stand-in:", err)
		}
	}()
	for _, kind := range []client.Object{
		&v1alpha1.PostgresCluster{}, &corev1.Secret{}, &corev1.ConfigMap{}, &corev1.Pod{}, &appsv1.StatefulSet{}, &batchv1.Job{}, &discoveryv1.EndpointSlice{},
		&coordinationv1.Lease{},
	} {
		if _, err := mgr.GetCache().GetInformer(ctx, kind); err != nil {
			return err
		}
	}
	if err := b.fleet.start(ctx); err != nil {
		return err
	}
	for _, p := range b.controllers {
		if err := p.start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// await polls what this process has in memory.
func (b *bench) await(ctx context.Context, what string, holds func() bool) (time.Duration, error) {
	begin := time.Now()
	for !holds() {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		if time.Since(begin) > b.settings.patience {
			return 0, fmt.Errorf("not within %s: %s", b.settings.patience, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return time.Since(begin), nil
}

// writers is how many writes this program makes at a time.
const writers = 16

// each does something for all numbers below n, several at a time.
func each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
