package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	client      client.Client // writes, and reads from informers
	live        client.Client
	fleet       *fleet
	controllers []*process
}

func (b *bench) note(scenario, what, format string, values ...any) {
	fmt.Printf("| %d | %s | %s | %s |\n", b.n, scenario, what, fmt.Sprintf(format, values...))
}

// perNamespace is how many clusters a namespace has.
const perNamespace = 10

func (b *bench) key(i int) client.ObjectKey {
	return client.ObjectKey{Namespace: fmt.Sprintf("scale-%d", i/perNamespace), Name: fmt.Sprintf("shop-%d", i)}
}

// measure runs all scenarios with n clusters, and prints a line of the table for each figure.
func measure(ctx context.Context, s settings, n int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := os.MkdirAll(filepath.Join(s.binaries, "..", "logs"), 0o755); err != nil {
		return err
	}
	server, err := startServer()
	if err != nil {
		return err
	}
	defer server.stop()
	b := &bench{settings: s, n: n, controllers: controllers(s, server)}
	defer func() {
		for _, p := range b.controllers {
			p.kill()
		}
		cancel() // before the server stops, which waits for watches
	}()
	if err := b.begin(ctx, server); err != nil {
		return err
	}
	for _, scenario := range []func(context.Context) error{
		b.seed, b.idle, b.changeAll("none deaf"), b.restart, b.deafen, b.changeAll(fmt.Sprintf("%d%% deaf", s.deaf)), b.restartDeaf,
	} {
		if err := scenario(ctx); err != nil {
			return err
		}
	}
	return nil
}

// begin starts the stand-in, the agents and the controllers.
func (b *bench) begin(ctx context.Context, server *server) error {
	options := ctrl.Options{Scheme: manager.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"}, Cache: cache.Options{DefaultTransform: cache.TransformStripManagedFields()}}
	mgr, err := ctrl.NewManager(server.config, options)
	if err != nil {
		return err
	}
	if b.live, err = client.New(server.config, client.Options{Scheme: mgr.GetScheme()}); err != nil {
		return err
	}
	b.client, b.fleet = mgr.GetClient(), newFleet(mgr.GetClient())
	stand := &kubelet{Client: mgr.GetClient(), fleet: b.fleet, addresses: map[client.ObjectKey]string{}}
	if err := stand.start(mgr); err != nil {
		return err
	}
	go func() {
		if err := mgr.Start(ctx); err != nil && !errors.Is(err, context.Canceled) {
			fmt.Fprintln(os.Stderr, "scale: stand-in:", err)
		}
	}()
	for _, kind := range []client.Object{
		&v1alpha1.PostgresCluster{}, &corev1.Secret{}, &corev1.ConfigMap{}, &corev1.Pod{}, &appsv1.StatefulSet{}, &batchv1.Job{}, &discoveryv1.EndpointSlice{},
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

// seed creates the clusters, and waits until all are Ready.
func (b *bench) seed(ctx context.Context) error {
	begin := time.Now()
	for i := range b.n {
		key := b.key(i)
		if i%perNamespace == 0 {
			if err := b.live.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: key.Namespace}}); err != nil {
				return err
			}
		}
		cluster := &v1alpha1.PostgresCluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
			Spec:       v1alpha1.PostgresClusterSpec{Version: 17, Storage: v1alpha1.StorageSpec{Size: resource.MustParse("1Gi")}},
		}
		if err := b.live.Create(ctx, cluster); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	_, err := b.await(ctx, fmt.Sprintf("%d clusters are Ready", b.n), func() bool { return b.ready(ctx) == b.n })
	b.note("create", "s until all are Ready", "%.0f", time.Since(begin).Seconds())
	return err
}

func (b *bench) ready(ctx context.Context) (count int) {
	time.Sleep(100 * time.Millisecond)
	clusters := &v1alpha1.PostgresClusterList{}
	if b.client.List(ctx, clusters) != nil {
		return 0
	}
	for i := range clusters.Items {
		if meta.IsStatusConditionTrue(clusters.Items[i].Status.Conditions, v1alpha1.ConditionReady) {
			count++
		}
	}
	return count
}

// idle watches clusters of which none changes, after the news of their creation have been written.
func (b *bench) idle(ctx context.Context) error {
	if err := pause(ctx, 30*time.Second); err != nil {
		return err
	}
	before := map[string]use{}
	for _, p := range b.controllers {
		u, err := p.use()
		if err != nil {
			return err
		}
		before[p.name] = u
	}
	if err := pause(ctx, b.settings.idle); err != nil {
		return err
	}
	for _, p := range b.controllers {
		now, err := p.use()
		if err != nil {
			return err
		}
		was := before[p.name]
		seconds := now.at.Sub(was.at).Seconds()
		b.note("idle", p.name+": cores, MiB, API requests/s, passes/s", "%.3f, %.0f, %.1f, %.1f",
			(now.cpu-was.cpu).Seconds()/seconds, now.rssMiB, (now.requests-was.requests)/seconds, (now.passes-was.passes)/seconds)
	}
	return nil
}

// changeAll changes the specs of clusters whose agents answer, one at a time, and measures when each change is in the ConfigMap that
// agents read.
func (b *bench) changeAll(scenario string) func(context.Context) error {
	return func(ctx context.Context) error {
		var took []time.Duration
		for i := range b.settings.changes {
			// From the end: the first ones are those that become deaf.
			d, err := b.change(ctx, b.key(b.n-1-i%max(1, b.n/2)), fmt.Sprintf("%dMB", 5+i+len(scenario)*1000))
			if err != nil {
				return err
			}
			took = append(took, d)
		}
		slices.Sort(took)
		b.note(scenario, "ms until a change of a spec is written: median, p99", "%d, %d", took[len(took)/2].Milliseconds(), took[(len(took)*99-1)/100].Milliseconds())
		return nil
	}
}

func (b *bench) change(ctx context.Context, key client.ObjectKey, value string) (time.Duration, error) {
	before, err := b.fleet.config(ctx, key)
	if err != nil {
		return 0, err
	}
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"postgresql":{"parameters":{"work_mem":%q}}}}`, value))
	if err := b.live.Patch(ctx, &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}, patch); err != nil {
		return 0, err
	}
	return b.await(ctx, "a change of "+key.String()+" is written", func() bool {
		now, err := b.fleet.config(ctx, key)
		return err == nil && now.Hash() != before.Hash()
	})
}

// restart kills the db-controller, and measures how long the next one takes until it has looked at all clusters: until the agent of each
// was asked.
func (b *bench) restart(ctx context.Context) error { return b.restartAs(ctx, "kill -9") }

func (b *bench) restartDeaf(ctx context.Context) error {
	return b.restartAs(ctx, fmt.Sprintf("kill -9, %d%% deaf", b.settings.deaf))
}

func (b *bench) restartAs(ctx context.Context, scenario string) error {
	db := b.controllers[0]
	db.kill()
	b.fleet.forgetAsked()
	if err := db.start(ctx); err != nil {
		return err
	}
	took, err := b.await(ctx, "each agent was asked", func() bool { return b.fleet.countAsked() == b.n })
	if err != nil {
		return err
	}
	b.note(scenario, "s until the db-controller has looked at all", "%.1f", took.Seconds())
	return nil
}

// deafen makes a share of the agents deaf, and waits until that is known.
func (b *bench) deafen(ctx context.Context) error {
	var deaf []client.ObjectKey
	for i := range b.n * b.settings.deaf / 100 {
		deaf = append(deaf, b.key(i))
	}
	b.fleet.deafen(deaf)
	return pause(ctx, 30*time.Second)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
