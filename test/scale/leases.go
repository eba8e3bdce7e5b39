package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
)

// Times of the default profile of spec.failover, as docs/high-availability.md has them.
const (
	renewEvery  = 3400 * time.Millisecond
	leaseExpire = 9 * time.Second
	listen      = 600 * time.Millisecond
)

// renewing is for how long all leases are renewed before a zone is lost.
const renewing = time.Minute

// elector writes what the agents of one cluster write about their election, with their own account.
type elector struct {
	client.Client
	bench   *bench
	cluster client.ObjectKey
	lease   *coordinationv1.Lease
	slice   string
	// lost: the primary is in the zone that is lost.
	lost bool
}

// electors of all clusters, and what they have measured.
type electors struct {
	mu       sync.Mutex
	renewals []time.Duration
	moves    []time.Duration
}

// leases has the primaries of all clusters renew their leases. Then a zone is lost, with a third of the primaries, and replicas take over.
func (b *bench) leases(ctx context.Context) error {
	if b.settings.instances == 1 {
		return nil // a single instance needs no lease
	}
	all := make([]*elector, b.n)
	err := each(ctx, b.n, func(ctx context.Context, i int) (err error) {
		all[i], err = b.newElector(ctx, b.key(i))
		return err
	})
	if err != nil {
		return err
	}
	var lost []client.ObjectKey
	for i, e := range all {
		if e.lost = i%3 == 0; e.lost {
			lost = append(lost, podOf(e.cluster, 0))
		}
	}
	measured := &electors{}
	loss := time.Now().Add(renewing)
	group, running := errgroup.WithContext(ctx)
	for _, e := range all {
		group.Go(func() error { return e.run(running, loss, measured) })
	}
	if err := pause(ctx, time.Until(loss)); err != nil {
		return err
	}
	b.fleet.deafenPods(lost)
	if err := group.Wait(); err != nil {
		return err
	}
	b.note("leases", fmt.Sprintf("ms until a renewal of a lease is confirmed: median, p99 of %d within a minute", len(measured.renewals)), "%s", middle(measured.renewals, time.Millisecond))
	b.note("a zone is lost", fmt.Sprintf("s until -rw leads to another instance, without its promotion: median, p99 of %d", len(measured.moves)), "%s", middle(measured.moves, time.Second))
	took, err := b.await(ctx, "each status names its primary", b.all(ctx, func(cluster *v1alpha1.PostgresCluster) bool {
		return cluster.Status.Primary == b.fleet.leader(client.ObjectKeyFromObject(cluster))
	}))
	b.note("a zone is lost", "s after the last of these until the status of each cluster names its primary", "%.1f", took.Seconds())
	b.fleet.allHear()
	return err
}

// middle of durations, and the 99th percentile.
func middle(took []time.Duration, unit time.Duration) string {
	if len(took) == 0 {
		return "none"
	}
	slices.Sort(took)
	in := func(d time.Duration) float64 { return float64(d) / float64(unit) }
	return fmt.Sprintf("%.1f, %.1f", in(took[len(took)/2]), in(took[(len(took)*99-1)/100]))
}

// newElector for a cluster: with a token of the account of its pods, and the rights that the db-controller has given it.
func (b *bench) newElector(ctx context.Context, cluster client.ObjectKey) (*elector, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: cluster.Name + "-instance"}}
	token := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600)}}
	if err := b.live.SubResource("token").Create(ctx, account, token); err != nil {
		return nil, fmt.Errorf("token of %s: %w", account.Name, err)
	}
	settings := rest.AnonymousClientConfig(b.server.config)
	settings.BearerToken, settings.QPS = token.Status.Token, -1
	writer, err := client.New(settings, client.Options{Scheme: b.client.Scheme(), Mapper: b.client.RESTMapper()})
	if err != nil {
		return nil, err
	}
	config, err := b.fleet.config(ctx, cluster)
	if err != nil {
		return nil, err
	}
	e := &elector{Client: writer, bench: b, cluster: cluster, lease: &coordinationv1.Lease{}, slice: config.EndpointSlice}
	return e, e.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: config.Lease}, e.lease)
}

// run renews the lease until the zone is lost, and then takes it for a replica, where the primary was in that zone.
func (e *elector) run(ctx context.Context, loss time.Time, measured *electors) error {
	if err := pause(ctx, time.Duration(rand.Float64()*float64(renewEvery))); err != nil {
		return err
	}
	seen := time.Now()
	for time.Now().Before(loss) {
		begin := time.Now()
		if err := e.renew(ctx); err != nil {
			return err
		}
		seen = time.Now()
		measured.add(&measured.renewals, seen.Sub(begin))
		if err := pause(ctx, min(renewEvery-seen.Sub(begin), time.Until(loss))); err != nil {
			return err
		}
	}
	if !e.lost {
		return nil
	}
	if err := pause(ctx, time.Until(seen.Add(leaseExpire+listen))); err != nil {
		return err
	}
	if err := e.takeOver(ctx); err != nil {
		return err
	}
	measured.add(&measured.moves, time.Since(loss))
	e.bench.fleet.lead(e.cluster, podOf(e.cluster, 1).Name)
	return nil
}

func (m *electors) add(to *[]time.Duration, d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	*to = append(*to, d)
}

func (e *elector) renew(ctx context.Context) error {
	return e.write(ctx, func(*coordinationv1.Lease) {})
}

// write the lease; whoever else has written it meanwhile wrote something else of it.
func (e *elector) write(ctx context.Context, change func(*coordinationv1.Lease)) error {
	for {
		read := e.lease.DeepCopy()
		e.lease.Spec.RenewTime = ptr.To(metav1.NowMicro())
		change(e.lease)
		err := e.Patch(ctx, e.lease, client.MergeFromWithOptions(read, client.MergeFromWithOptimisticLock{}))
		if !apierrors.IsConflict(err) {
			return err
		}
		if err := e.Get(ctx, client.ObjectKeyFromObject(e.lease), e.lease); err != nil {
			return err
		}
	}
}

// takeOver has the second instance take the lease, and leads clients to it.
func (e *elector) takeOver(ctx context.Context) error {
	next, pod := podOf(e.cluster, 1), &corev1.Pod{}
	if err := e.bench.client.Get(ctx, next, pod); err != nil {
		return err
	}
	if err := e.write(ctx, func(lease *coordinationv1.Lease) { lease.Spec.HolderIdentity = &next.Name }); err != nil {
		return err
	}
	slice := &discoveryv1.EndpointSlice{}
	if err := e.Get(ctx, client.ObjectKey{Namespace: e.cluster.Namespace, Name: e.slice}, slice); err != nil {
		return err
	}
	read := slice.DeepCopy()
	slice.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{pod.Status.PodIP}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}}
	return e.Patch(ctx, slice, client.MergeFromWithOptions(read, client.MergeFromWithOptimisticLock{}))
}
