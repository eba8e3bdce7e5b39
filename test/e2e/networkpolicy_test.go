//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/place"
	"howdah.dev/howdah/test/testkit/subset"
)

// reaches tells which of the targets, each an address and a port, accept a connection from a pod. It asks all at once.
const reaches = `for t in "$@"; do (timeout 10 bash -c ": <>/dev/tcp/$t" 2>/dev/null && echo "$t") & done; wait`

func (b *bed) reached(pod string, targets ...string) ([]string, error) {
	b.Helper()
	out, err := b.Exec(pod, append([]string{"bash", "-c", reaches, "reaches"}, targets...)...)
	found := strings.Fields(out)
	slices.Sort(found)
	return found, err
}

// view is what a pod should reach.
type view struct {
	from *bed
	pod  string
	want []string
}

// see fails the test unless, of all targets, each pod reaches those that it should within some minutes, because one may be restarting, and never
// another one.
func (b *bed) see(all []string, views ...view) {
	b.Helper()
	var asked sync.WaitGroup
	for _, v := range views {
		asked.Go(func() { b.look(all, v) })
	}
	asked.Wait()
}

func (b *bed) look(all []string, v view) {
	b.Helper()
	var missing []string
	var last error
	err := wait.PollUntilContextTimeout(b.Context(), time.Second, 3*time.Minute, true, func(context.Context) (bool, error) {
		got, err := v.from.reached(v.pod, all...)
		if last = err; err != nil {
			return false, nil
		}
		for _, target := range got {
			if !slices.Contains(v.want, target) {
				return false, fmt.Errorf("it reaches %s", target)
			}
		}
		missing = slices.DeleteFunc(slices.Clone(all), func(target string) bool { return !slices.Contains(v.want, target) || slices.Contains(got, target) })
		return len(missing) == 0, nil
	})
	if err != nil {
		b.Errorf("%s/%s should reach %v and nothing else, and does not reach %v: %v (%v)", v.from.Namespace, v.pod, v.want, missing, err, last)
	}
}

// on are the targets of a port of pods.
func on(port string, pods []corev1.Pod) (targets []string) {
	for _, pod := range pods {
		targets = append(targets, pod.Status.PodIP+"/"+port)
	}
	return targets
}

// pods of a namespace that have labels and run.
func (b *bed) pods(namespace string, labels map[string]string) []corev1.Pod {
	b.Helper()
	pods := &corev1.PodList{}
	b.Must(b.List(b.Context(), pods, client.InNamespace(namespace), client.MatchingLabels(labels)))
	running := slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return pod.Status.Phase != corev1.PodRunning })
	if len(running) == 0 {
		b.Fatalf("no pods with the labels %v run in namespace %s", labels, namespace)
	}
	return running
}

// elsewhere is the same test in another namespace.
func (b *bed) elsewhere() *bed {
	b.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-elsewhere-"}}
	b.Must(b.Create(b.Context(), namespace))
	b.Cleanup(func() { _ = b.Delete(context.Background(), namespace) })
	other := *b.Place
	other.Namespace = namespace.Name
	return &bed{&other}
}

// sleeper is a pod that does nothing by itself.
func (b *bed) sleeper(name string, labels map[string]string) {
	b.Helper()
	pod := &corev1.Pod{ObjectMeta: b.Meta(name), Spec: corev1.PodSpec{
		TerminationGracePeriodSeconds: ptr.To[int64](1), AutomountServiceAccountToken: ptr.To(false),
		Containers: []corev1.Container{{
			Name: "sleeper", Image: "registry.local/postgresql:17", ImagePullPolicy: corev1.PullIfNotPresent, Command: []string{"sleep", "infinity"},
		}},
	}}
	pod.Labels = labels
	b.Must(b.Create(b.Context(), pod))
	b.Await(pod, "running", func() bool { return pod.Status.Phase == corev1.PodRunning })
}

// store is the address of the object store.
func (b *bed) store() netip.Addr {
	b.Helper()
	endpoint, err := url.Parse(b.Store["S3_ENDPOINT"])
	b.Must(err)
	address, err := netip.ParseAddr(endpoint.Hostname())
	b.Must(err)
	return address
}

// guarded is a cluster that lets in pods with a label, and lets its own reach nothing but the store.
func (b *bed) guarded() *v1alpha1.PostgresCluster {
	b.Helper()
	store := b.store()
	cluster := b.NewCluster("shop", 17)
	cluster.Spec.Instances = 2
	cluster.Spec.NetworkPolicy = &v1alpha1.NetworkPolicy{
		Clients: []v1alpha1.NetworkPeer{{Pods: v1alpha1.NetworkLabels{"app": "web"}}},
		Egress: []v1alpha1.NetworkDestination{{
			NetworkPeer: v1alpha1.NetworkPeer{CIDR: netip.PrefixFrom(store, store.BitLen()).String()}, Ports: []v1alpha1.NetworkPort{9000},
		}},
	}
	return cluster
}

// TestPoliciesThatAreEnforcedLetInWhoIsNamedAndKeepNothingFromWorking needs a network that enforces them, as that of the test bed does.
func TestPoliciesThatAreEnforcedLetInWhoIsNamedAndKeepNothingFromWorking(t *testing.T) {
	subset.OneIn(t, 2)
	t.Parallel()
	place.NeedKube(t)
	b := newBed(t, "minio")
	other := b.elsewhere()
	cluster := b.guarded()
	b.Must(b.Create(t.Context(), cluster))
	pooler := &v1alpha1.Pooler{ObjectMeta: b.Meta("pool"), Spec: v1alpha1.PoolerSpec{Cluster: v1alpha1.LocalReference{Name: "shop"}, Instances: 1}}
	b.Must(b.Create(t.Context(), pooler))
	web := map[string]string{"app": "web"}
	b.sleeper("stranger", nil)
	other.sleeper("foreign", web)
	b.awaitInstances(cluster, 2)
	b.AwaitTrue(cluster, v1alpha1.ConditionArchiving)
	b.AwaitTrue(pooler, v1alpha1.ConditionReady)
	b.ClientPod("web", "shop", "registry.local/postgresql:17", "sleep", "infinity")
	b.Merge(b.Pod("web"), `{"metadata":{"labels":{"app":"web"}}}`)
	b.queries("web")

	labels := map[string]string{v1alpha1.LabelCluster: "shop", v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}
	own := b.pods(b.Namespace, labels) // instances, and the pooler's
	sql, agent, metrics := on("5432", own), on("8443", own), on("9187", own)
	controllers := on("8443", b.pods("howdah-system", map[string]string{"app.kubernetes.io/part-of": "howdah"}))
	names := on("8181", b.pods("kube-system", map[string]string{"k8s-app": "kube-dns"})) // no policy keeps anybody from it
	store := []string{b.store().String() + "/9000"}
	all := slices.Concat(sql, agent, metrics, controllers, names, store)
	open := slices.Concat(names, store)
	views := []view{{b, "web", slices.Concat(sql, open)}, {b, "stranger", open}, {other, "foreign", open}}
	for _, pod := range own {
		views = append(views, view{b, pod.Name, slices.Concat(sql, agent, on("9187", []corev1.Pod{pod}), store)})
	}
	b.see(all, views...)

	b.Merge(cluster, `{"spec":{"networkPolicy":{"metrics":[{"namespaces":{"kubernetes.io/metadata.name":"`+other.Namespace+`"}}]}}}`)
	b.Await(cluster, "the scraper to reach metrics", func() bool {
		found, err := other.reached("foreign", metrics...)
		return err == nil && len(found) == len(metrics)
	})
	b.see(all, view{b, "stranger", open}, view{other, "foreign", slices.Concat(agent, metrics, open)})

	former := b.Primary("shop")
	b.Must(b.Delete(t.Context(), &corev1.Pod{ObjectMeta: b.Meta(former)}, client.GracePeriodSeconds(0)))
	b.awaitLeader("shop", former)
	b.queries("web")
	b.awaitInstances(cluster, 2)
	b.AwaitTrue(cluster, v1alpha1.ConditionArchiving)
	b.Backup("guarded", "shop")
	labels[v1alpha1.LabelComponent] = "instance"
	again := on("5432", b.pods(b.Namespace, labels))
	b.see(again, view{b, "web", again}, view{b, "stranger", nil})
}

// queries waits until a client's query is answered.
func (b *bed) queries(client string) {
	b.Helper()
	began := time.Now()
	b.Await(b.Pod(client), "an answer by way of the Service", func() bool {
		out, err := b.Exec(client, "psql", "-XAtqc", "SELECT 1")
		return err == nil && out == "1"
	})
	b.Logf("%s was answered after %s", client, time.Since(began).Round(time.Second/10))
}
