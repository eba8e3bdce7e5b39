//go:build integration

package cluster

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
)

// requestCounter counts what a controller asks of the API server, but for its watches.
type requestCounter struct {
	http.RoundTripper
	mu    sync.Mutex
	asked map[string]int
}

// wrap is for rest.Config.Wrap.
func (c *requestCounter) wrap(transport http.RoundTripper) http.RoundTripper {
	c.RoundTripper = transport
	return c
}

func (c *requestCounter) RoundTrip(request *http.Request) (*http.Response, error) {
	if query := request.URL.Query(); query.Get("watch") == "" {
		c.mu.Lock()
		c.asked[strings.ToLower(request.Method)+" "+resourceOf(request.URL.Path)]++
		c.mu.Unlock()
	}
	return c.RoundTripper.RoundTrip(request)
}

// resourceOf a path such as /apis/apps/v1/namespaces/test/statefulsets/shop is statefulsets/shop.
func resourceOf(path string) string {
	_, rest, _ := strings.Cut(path, "/namespaces/")
	_, resource, _ := strings.Cut(rest, "/")
	return resource
}

func (c *requestCounter) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = map[string]int{}
}

// count is how many there were whose name begins so, and a list of them.
func (c *requestCounter) count(prefix string) (total int, list string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, what := range slices.Sorted(maps.Keys(c.asked)) {
		if strings.HasPrefix(what, prefix) {
			total += c.asked[what]
			list += fmt.Sprintf("%4d %s\n", c.asked[what], what)
		}
	}
	return total, list
}

func TestMakingAClusterOfThreeAsksLittleOfTheAPIServer(t *testing.T) {
	l := newLab(t)
	l.requests.reset()
	shop := l.shop(three)
	l.awaitReplicated(shop)
	l.settle()
	for _, made := range []string{
		"configmaps/shop-config", "serviceaccounts/shop-instance", "services/shop-rw", "endpointslices/shop-rw", "persistentvolumeclaims/",
		"secrets/shop-ca", "secrets/shop-app",
	} {
		if looks, _ := l.requests.count("get " + made); looks > 0 {
			t.Errorf("%s was looked for %d times before it was made", made, looks)
		}
	}
	for _, known := range []string{"postgresclusters", "restores", "upgrades", "pods", "leases"} {
		if looks, list := l.requests.count("get " + known); looks > 0 {
			t.Errorf("%d looks past the cache for what is known:\n%s", looks, list)
		}
	}
	reads, readList := l.requests.count("get")
	all, list := l.requests.count("")
	t.Logf("%d requests, %d of them reads", all, reads)
	if reads > 5 || all > 37 {
		t.Errorf("%d reads, %d requests:\n%s\n%s", reads, all, readList, list)
	}
}

func TestAPassThatDecidesNothingAsksNothing(t *testing.T) {
	l := newLab(t)
	shop := l.shop(three)
	l.awaitReplicated(shop)
	l.settle()
	l.requests.reset()
	l.passes(shop, 5)
	if asked, list := l.requests.count(""); asked > 0 {
		t.Errorf("%d requests:\n%s", asked, list)
	}
}

func TestWhileTheInitJobRunsNextToNothingIsAsked(t *testing.T) {
	l := newLab(t)
	l.kube.set(func(s *standIn) { s.initRuns = true })
	l.create(repository(l.ns))
	l.create(credentials(l.ns))
	shop := l.shop(func(c *v1alpha1.PostgresCluster) {
		three(c)
		archived(c)
	})
	l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonInitializing)
	l.settle()
	l.requests.reset()
	l.passes(shop, 5)
	// The Lease and the repository's Secret are looked at again now and then.
	if asked, list := l.requests.count(""); asked > 4 {
		t.Errorf("%d requests:\n%s", asked, list)
	}
	l.kube.set(func(s *standIn) { s.initRuns = false })
	l.awaitReplicated(shop)
}

func TestPostgreSQLIsStartedAsSoonAsTheContainerOfTheInitJobHasEnded(t *testing.T) {
	l := newLab(t)
	l.kube.set(func(s *standIn) { s.initRuns = true })
	shop := l.shop(nil)
	l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonInitializing)
	job := &batchv1.Job{}
	l.eventually("the init Job is made", func() bool { return l.there(job, "shop-init") })
	pod := &corev1.Pod{ObjectMeta: *job.Spec.Template.ObjectMeta.DeepCopy(), Spec: *job.Spec.Template.Spec.DeepCopy()}
	pod.Namespace, pod.Name = l.ns, "shop-init-x"
	l.create(pod)
	l.say(pod, func() { pod.Status.Phase = corev1.PodRunning })
	l.settle()
	if l.there(&appsv1.StatefulSet{}, "shop") {
		t.Error("started while the init Job writes")
	}
	l.say(pod, func() {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "worker", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: 0},
		}}}
	})
	l.awaitRunning(shop)
}
