// Package chaos does to a cluster what happens to databases, while clients write to it, and judges what came of it.
package chaos

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/netns"
	"howdah.dev/howdah/test/testkit/place"
	"howdah.dev/howdah/test/testkit/writes"
)

// Replication of a cluster, as reports name it.
type Replication string

// The kinds of replication.
const (
	Async Replication = "async"
	Sync  Replication = "sync"
)

// Renewal is how the primary keeps its lease, as spec.failover.renewal says it.
type Renewal = v1alpha1.LeaseRenewal

// Options say what cluster is tried.
type Options struct {
	Replication Replication
	Renewal     Renewal
	Version     int32
	Instances   int32 // 0: three
	Number      int32 // of replicas that a commit waits for, where replication is synchronous; 0: one
	Preferred   bool  // commits continue where too few are there
	Volumes     Volumes
	OldAgent    string             // an image of another version
	Logical     bool               // it has a slot for Follow
	Memory      string             // of an instance; empty: no limit
	Storage     *resource.Quantity // of a volume; nil: as usual
}

// Volumes of a cluster: what can be done to them.
type Volumes string

// The kinds of volumes.
const (
	Plain    Volumes = ""         // as the test bed provisions them
	Limited  Volumes = "limited"  // they have a limit, and can be filled
	Stalling Volumes = "stalling" // their disk can be made to hang
)

const (
	name = "shop"
	// home is the node on which the clients sit that go through the Service: none that is ever hurt.
	home = "cp"
	// recoveryTime is how long a cluster may take until it is whole. Generous: the machine may be busy, and a clone takes its time.
	recoveryTime = 5 * time.Minute
)

// Subject is the cluster that is tried.
type Subject struct {
	*place.Place
	Replication Replication
	OldAgent    string
	Renewal     Renewal
	instances   int32
	target      writes.Target // by the Service, from home
	pooler      writes.Target // by that of the Pooler, if there is one
	namespaces  *sync.Map     // of nodes, by name
	alone       bool          // there are no controllers, and status is out of date
}

// New makes a cluster of three instances that archives, and waits until it is whole.
func New(t *testing.T, options Options) *Subject {
	t.Helper()
	s := newSubject(t, options.Replication)
	s.instances, s.OldAgent, s.Renewal = cmp.Or(options.Instances, s.instances), options.OldAgent, options.Renewal
	cluster := s.NewCluster(name, options.Version)
	cluster.Spec.Instances, cluster.Spec.Resources = s.instances, memoryLimit(options.Memory)
	if options.Renewal != "" {
		cluster.Spec.Failover = &v1alpha1.Failover{Renewal: options.Renewal}
	}
	if options.Replication == Sync {
		cluster.Spec.Synchronous = &v1alpha1.Synchronous{Number: cmp.Or(options.Number, 1)}
		if options.Preferred {
			cluster.Spec.Synchronous.Durability = v1alpha1.DurabilityPreferred
		}
	}
	if options.Logical {
		logical(&cluster.Spec)
	}
	if options.Storage != nil {
		cluster.Spec.Storage.Size = *options.Storage
	}
	switch options.Volumes {
	case Limited:
		s.LimitVolumes(cluster, int(s.instances))
	case Stalling:
		s.StallVolumes(cluster, int(s.instances))
	}
	s.Must(s.Create(t.Context(), cluster))
	s.AwaitTrue(cluster, v1alpha1.ConditionReady)
	s.target = s.findTarget()
	// Ready is what the controller has seen; the node's proxy may know of the Service a moment later.
	s.until("clients to reach the primary", recoveryTime, func(ctx context.Context) error { return writes.Prepare(ctx, s.target) })
	s.awaitWhole()
	return s
}

// newSubject is one whose cluster is not made yet.
func newSubject(t *testing.T, kind Replication) *Subject {
	t.Helper()
	place.NeedKube(t)
	return &Subject{Place: place.New(t, "minio"), Replication: kind, instances: 3, namespaces: &sync.Map{}}
}

// in is the same subject in a test of its own.
func (s *Subject) in(t *testing.T) *Subject {
	p, copied := *s.Place, *s
	p.T, copied.Place = t, &p
	return &copied
}

// findTarget reads what an application would: the Secret with its credentials, and the authority of the certificates. They
// are there a moment after the cluster is made.
func (s *Subject) findTarget() writes.Target {
	s.Helper()
	app, connection, service := &corev1.Secret{}, &corev1.ConfigMap{}, &corev1.Service{}
	for object, name := range map[client.Object]string{app: name + "-app", connection: name + "-connection", service: name + "-rw"} {
		s.until("what clients need to know", recoveryTime, func(ctx context.Context) error {
			return s.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: name}, object)
		})
	}
	port, err := strconv.ParseUint(string(app.Data["port"]), 10, 16)
	s.Must(err)
	authority := x509.NewCertPool()
	authority.AppendCertsFromPEM([]byte(connection.Data["ca.crt"]))
	return writes.Target{
		Address: service.Spec.ClusterIP, Port: uint16(port), Database: string(app.Data["dbname"]),
		User: string(app.Data["username"]), Password: string(app.Data["password"]),
		TLS: &tls.Config{RootCAs: authority, ServerName: string(app.Data["host"])}, Dial: s.from(home),
	}
}

// from is how a client on a node connects.
func (s *Subject) from(node string) netns.Dial {
	s.Helper()
	file, known := s.namespaces.Load(node)
	if !known {
		file = s.Kube("netns", node)
		s.namespaces.Store(node, file)
	}
	return netns.Dialer(file.(string))
}

// at is a server without its Service, from some node.
func (s *Subject) at(address, node string) writes.Target {
	target := s.target
	target.Address, target.Dial = address, s.from(node)
	return target
}

// pods of the database, of those that are there.
func (s *Subject) pods(ctx context.Context) ([]corev1.Pod, error) {
	var pods []corev1.Pod
	for i := range s.instances {
		pod := corev1.Pod{}
		switch err := s.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: fmt.Sprintf("%s-%d", name, i)}, &pod); {
		case err == nil:
			pods = append(pods, pod)
		case !apierrors.IsNotFound(err):
			return nil, err
		}
	}
	return pods, nil
}

// primary is the pod that the Service leads to, once it leads to one that accepts writes.
func (s *Subject) primary() *corev1.Pod {
	s.Helper()
	var found *corev1.Pod
	s.until("a primary behind the Service", time.Minute, func(ctx context.Context) error {
		address, err := ask[string](ctx, s.target, "SELECT host(inet_server_addr()) WHERE NOT pg_is_in_recovery()")
		if err != nil {
			return err
		}
		pods, err := s.pods(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(pods, func(pod corev1.Pod) bool { return pod.Status.PodIP == address })
		if i < 0 {
			return fmt.Errorf("no pod has the address %s", address)
		}
		found = &pods[i]
		return nil
	})
	return found
}

// replica is a pod that is not the primary.
func (s *Subject) replica(primary *corev1.Pod) *corev1.Pod {
	s.Helper()
	pods, err := s.pods(s.Context())
	s.Must(err)
	for i := range pods {
		if pods[i].Name != primary.Name {
			return &pods[i]
		}
	}
	s.Fatalf("no replica among %d pods", len(pods))
	return nil
}

// ask a server for one value.
func ask[T any](ctx context.Context, target writes.Target, query string, args ...any) (value T, err error) {
	conn, err := target.Connect(ctx)
	if err != nil {
		return value, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	err = conn.QueryRow(ctx, query, args...).Scan(&value)
	return value, err
}

// until polls until holds has no objection any more; the last one is what the test fails with.
func (s *Subject) until(what string, limit time.Duration, holds func(context.Context) error) {
	s.Helper()
	var last error
	err := wait.PollUntilContextTimeout(s.Context(), 100*time.Millisecond, limit, true, func(ctx context.Context) (bool, error) {
		last = holds(ctx)
		return last == nil, nil
	})
	if err != nil {
		s.Fatalf("waiting %s for %s: %v", limit, what, last)
	}
}

// awaitWhole waits until status says that all is well, where there is somebody to say it, and every instance has a row that
// is written now.
func (s *Subject) awaitWhole() { s.Helper(); s.awaitWholeWithin(recoveryTime) }

func (s *Subject) awaitWholeWithin(patience time.Duration) {
	s.Helper()
	s.until("the cluster to be whole", patience, func(ctx context.Context) error {
		if !s.alone {
			if err := s.saysWhole(ctx); err != nil {
				return err
			}
		}
		return s.isWhole(ctx)
	})
}

// awaitRenewal waits until the primary keeps its lease by its members, where it is to.
func (s *Subject) awaitRenewal() {
	s.Helper()
	if s.Renewal != v1alpha1.RenewalMembers {
		return
	}
	s.until("the primary to keep its lease by its members", recoveryTime, func(ctx context.Context) error {
		lease := &coordinationv1.Lease{}
		if err := s.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: name}, lease); err != nil {
			return err
		}
		if says := lease.Annotations["howdah.dev/election"]; !strings.Contains(says, `"wordSeconds"`) {
			return fmt.Errorf("the Lease says %s", says)
		}
		return nil
	})
}

func (s *Subject) saysWhole(ctx context.Context) error {
	cluster := &v1alpha1.PostgresCluster{}
	if err := s.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: name}, cluster); err != nil {
		return err
	}
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionReplicated} {
		if c := place.Condition(cluster, kind); c == nil || c.Status != metav1.ConditionTrue {
			return fmt.Errorf("status says %s", place.Describe(cluster))
		}
	}
	if cluster.Status.ReadyInstances != s.instances {
		return fmt.Errorf("status says that %d instances are ready", cluster.Status.ReadyInstances)
	}
	return nil
}

// isWhole asks every instance for a row that the primary was just given: status may be late.
func (s *Subject) isWhole(ctx context.Context) error {
	number := time.Now().UnixNano()
	if _, err := ask[int64](ctx, s.target, "INSERT INTO "+writes.Table+" VALUES ('whole', $1) RETURNING n", number); err != nil {
		return err
	}
	pods, err := s.pods(ctx)
	if err != nil {
		return err
	}
	if len(pods) != int(s.instances) {
		return fmt.Errorf("there are %d pods", len(pods))
	}
	for _, pod := range pods {
		found, err := ask[bool](ctx, s.at(pod.Status.PodIP, home), "SELECT EXISTS (SELECT FROM "+writes.Table+" WHERE client = 'whole' AND n = $1)", number)
		if err != nil {
			return fmt.Errorf("ask %s: %w", pod.Name, err)
		}
		if !found {
			return fmt.Errorf("%s doesn't have the last row", pod.Name)
		}
	}
	return nil
}
