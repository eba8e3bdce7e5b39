//go:build integration

package endpoint

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/howdah/cmd/agent/internal/kube"
	"howdah.dev/howdah/test/testkit/apiserver"
)

func TestMain(m *testing.M) { apiserver.Main(m) }

// bed has the slice of a cluster, and what its pods are to the API server.
type bed struct {
	client.Client
	*testing.T
	ns    string
	agent *kube.Client
}

func newBed(t *testing.T) *bed {
	t.Helper()
	admin := apiserver.Client(t)
	b := &bed{Client: admin, T: t, ns: apiserver.Namespace(t, admin)}
	meta := metav1.ObjectMeta{Namespace: b.ns, Name: "shop-instance"}
	account := &corev1.ServiceAccount{ObjectMeta: meta}
	for _, object := range []client.Object{
		account,
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, ResourceNames: []string{"shop-rw"}, Verbs: []string{"get", "patch", "update"},
		}}},
		&rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: b.ns, Name: meta.Name}},
		},
		&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: b.ns, Name: "shop-rw"}, AddressType: discoveryv1.AddressTypeIPv4},
	} {
		if err := b.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	token := &authenticationv1.TokenRequest{}
	if err := b.SubResource("token").Create(t.Context(), account, token); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range map[string][]byte{"ca": apiserver.Config().CAData, "token": []byte(token.Status.Token)} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	agent, err := kube.New(strings.TrimSuffix(apiserver.Config().Host, "/"), filepath.Join(dir, "ca"), filepath.Join(dir, "token"))
	if err != nil {
		t.Fatal(err)
	}
	b.agent = agent
	return b
}

// publisher of a pod.
func (b *bed) publisher(pod, ip string, api API, leads func() bool) *Publisher {
	p := New(api, Pod{Namespace: b.ns, Name: pod, UID: "uid of " + pod, IP: ip}, "shop-rw", 5432, leads, slog.New(slog.NewTextHandler(b.Output(), nil)))
	go p.Run(b.Context())
	return p
}

// leadsTo is the pod that the slice leads clients to.
func (b *bed) leadsTo() string {
	b.Helper()
	found := &discoveryv1.EndpointSlice{}
	if err := b.Get(b.Context(), client.ObjectKey{Namespace: b.ns, Name: "shop-rw"}, found); err != nil {
		b.Fatal(err)
	}
	for _, e := range found.Endpoints {
		if e.Conditions.Ready != nil && *e.Conditions.Ready {
			return e.TargetRef.Name
		}
	}
	return ""
}

func (b *bed) await(pod string) {
	b.Helper()
	deadline, tick := time.After(2*time.Minute), time.NewTicker(5*time.Millisecond)
	defer tick.Stop()
	for b.leadsTo() != pod {
		select {
		case <-tick.C:
		case <-deadline:
			b.Fatalf("the slice leads to %q, not to %q", b.leadsTo(), pod)
		}
	}
}

// slow is an API whose writes wait on their way, and tell when they have ended.
type slow struct {
	API
	sent, pass chan struct{}
	ended      chan error
}

func newSlow(api API) *slow {
	return &slow{API: api, sent: make(chan struct{}, 9), pass: make(chan struct{}), ended: make(chan error, 9)}
}

func (s *slow) Apply(ctx context.Context, path, manager string, object any) error {
	s.sent <- struct{}{}
	<-s.pass
	err := s.API.Apply(context.WithoutCancel(ctx), path, manager, object)
	s.ended <- err
	return err
}

func always() bool { return true }

// The former primary has had the lease when it sent its write, which was long on its way. Terms tell nothing here: those of a Lease that was
// deleted begin again.
func TestALateWriteOfAFormerPrimaryIsRefused(t *testing.T) {
	b := newBed(t)
	late := newSlow(b.agent)
	var replaced atomic.Bool
	former := b.publisher("shop-0", "10.0.0.1", late, func() bool { return !replaced.Load() })
	former.Set(true)
	<-late.sent
	replaced.Store(true)
	b.publisher("shop-1", "10.0.0.2", b.agent, always).Set(true)
	b.await("shop-1")
	former.Yield() // as it does when it is fenced
	close(late.pass)
	if err := <-late.ended; !kube.IsConflict(err) {
		t.Errorf("the API server has answered it with %v", err)
	}
	if pod := b.leadsTo(); pod != "shop-1" {
		t.Errorf("clients are led to %q", pod)
	}
}

// A primary stands still before it reads the slice, and doesn't know on waking up that it has been replaced. Its clock does.
func TestAFormerPrimaryWhoseLeaseHasRunOutDoesNotWrite(t *testing.T) {
	b := newBed(t)
	b.publisher("shop-1", "10.0.0.2", b.agent, always).Set(true)
	b.await("shop-1")
	former := b.publisher("shop-0", "10.0.0.1", b.agent, func() bool { return false })
	if err := former.put(t.Context(), true, ""); !errors.Is(err, errNoLease) {
		t.Errorf("it has written: %v", err)
	}
	if pod := b.leadsTo(); pod != "shop-1" {
		t.Errorf("clients are led to %q", pod)
	}
}

// Somebody else, as the controller with its labels, may write between the two requests of a primary.
func TestAPrimaryWritesAgainWhereSomebodyElseHasWritten(t *testing.T) {
	b := newBed(t)
	late := newSlow(b.agent)
	b.publisher("shop-0", "10.0.0.1", late, always).Set(true)
	<-late.sent
	labelled := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: b.ns, Name: "shop-rw"}}
	if err := b.Patch(t.Context(), labelled, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"a":"b"}}}`))); err != nil {
		t.Fatal(err)
	}
	close(late.pass)
	if err := <-late.ended; !kube.IsConflict(err) {
		t.Errorf("the first write: %v", err)
	}
	b.await("shop-0")
}

// Where another pod has taken its place, a primary that ends has nothing to take away.
func TestAPodThatIsReplacedInTheSliceTakesNobodyOutOfIt(t *testing.T) {
	b := newBed(t)
	var replaced atomic.Bool
	first := b.publisher("shop-0", "10.0.0.1", b.agent, func() bool { return !replaced.Load() })
	first.Set(true)
	b.await("shop-0")
	replaced.Store(true)
	b.publisher("shop-1", "10.0.0.2", b.agent, always).Set(true)
	b.await("shop-1")
	first.Withdraw(t.Context())
	if pod := b.leadsTo(); pod != "shop-1" {
		t.Errorf("clients are led to %q", pod)
	}
}

// A former primary that starts as a replica before the new one has written the slice would get clients that can't write.
func TestAFormerPrimaryThatBecomesAReplicaLeadsNobodyToItself(t *testing.T) {
	b := newBed(t)
	first := b.publisher("shop-0", "10.0.0.1", b.agent, always)
	first.Set(true)
	b.await("shop-0")
	first.Yield()
	if !first.Vacate(t.Context()) {
		t.Error("clients that are on their way to it are forgotten")
	}
	if pod := b.leadsTo(); pod != "" {
		t.Errorf("clients are led to %q", pod)
	}
	b.publisher("shop-1", "10.0.0.2", b.agent, always).Set(true)
	b.await("shop-1")
	if first.Vacate(t.Context()) {
		t.Error("nobody was led to it since, and yet they are waited for")
	}
	if pod := b.leadsTo(); pod != "shop-1" {
		t.Errorf("clients of another primary are led to %q", pod)
	}
}
