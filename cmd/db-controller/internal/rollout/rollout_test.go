package rollout

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/pkg/flow"
)

const newImage = "postgres:new"

func steps(t *testing.T, most int, others ...client.Object) *Steps {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(others...).Build()
	return &Steps{Client: reader, Limit: NewLimit(most, time.Now), CanaryNamespaces: []string{"canaries"}}
}

func admit(t *testing.T, s *Steps, o *observed.Cluster) flow.Outcome {
	t.Helper()
	outcome := s.Admit(context.Background(), o)
	if outcome.Err != nil {
		t.Fatal(outcome.Err)
	}
	return outcome
}

// other is a cluster beside the one that is looked at.
func other(namespace, name string, change func(*v1alpha1.PostgresCluster)) *v1alpha1.PostgresCluster {
	cluster := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	change(cluster)
	return cluster
}

func rolls(cluster *v1alpha1.PostgresCluster) {
	cluster.Status.Rollout = &v1alpha1.RolloutStatus{StartedAt: metav1.Now()}
}

func wantsImage(o *observed.Cluster) { o.Cluster.Spec.Image = newImage }

func TestARolloutIsRecordedBeforeItBegins(t *testing.T) {
	for name, change := range map[string]func(*observed.Cluster){
		"an image":                         wantsImage,
		"a parameter that takes a restart": observedtest.WaitsFor("max_connections", "200", "shop-0", "shop-1", "shop-2"),
	} {
		s, o := steps(t, 1), observedtest.Trio(change)
		if outcome := admit(t, s, o); outcome.Kind != flow.KindSave || o.Cluster.Status.Rollout == nil {
			t.Errorf("%s: %v, %v", name, outcome, o.Cluster.Status.Rollout)
		}
		if outcome := admit(t, s, o); outcome.Kind != flow.KindNext || !observed.RollsOut(o) {
			t.Errorf("%s, again: %v", name, outcome)
		}
	}
}

func TestAClusterWaitsForItsTurn(t *testing.T) {
	s := steps(t, 1, other("demo", "blog", rolls))
	o := observedtest.Trio(wantsImage)
	if outcome := admit(t, s, o); outcome.Kind != flow.KindNext || observed.RollsOut(o) || !strings.Contains(o.RolloutWait, "values: 1)") {
		t.Errorf("%v, %q", outcome, o.RolloutWait)
	}
}

func TestNothingIsRecordedWhereNothingIsTakenDown(t *testing.T) {
	for name, change := range map[string]func(*observed.Cluster){
		"nothing changed": func(*observed.Cluster) {},
		"it hibernates":   observedtest.All(wantsImage, func(o *observed.Cluster) { o.Cluster.Spec.Hibernate = true }),
		"the window is shut": observedtest.All(observedtest.WaitsFor("max_connections", "200", "shop-1"), func(o *observed.Cluster) {
			o.Cluster.Spec.MaintenanceWindow = observedtest.WindowOf("0 3 1 1 *", "UTC", time.Minute)
		}),
	} {
		s, o := steps(t, 1), observedtest.Trio(change)
		if outcome := admit(t, s, o); outcome.Kind != flow.KindNext || o.Cluster.Status.Rollout != nil || o.RolloutWait != "" {
			t.Errorf("%s: %v, %v, %q", name, outcome, o.Cluster.Status.Rollout, o.RolloutWait)
		}
	}
}

func TestARolloutEndsOnceAllInstancesAreWell(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*observed.Cluster)
		ended  bool
	}{
		"all are well":               {func(*observed.Cluster) {}, true},
		"one has yet to be replaced": {observedtest.NewImage(2), false},
		"one isn't ready":            {func(o *observed.Cluster) { observedtest.Unready(o, 1) }, false},
		"an agent doesn't respond":   {func(o *observed.Cluster) { delete(o.Agents, "shop-1") }, false},
		"it hibernates":              {func(o *observed.Cluster) { o.Cluster.Spec.Hibernate = true }, true},
	} {
		s, o := steps(t, 1), observedtest.Trio(observedtest.All(func(o *observed.Cluster) { rolls(o.Cluster) }, c.change))
		admit(t, s, o)
		if ended := o.Cluster.Status.Rollout == nil; ended != c.ended {
			t.Errorf("%s: ended: %v", name, ended)
		}
	}
}

// Until the end is written, others see the cluster in transition.
func TestTheNextBeginsOnlyOnceTheEndOfARolloutIsWritten(t *testing.T) {
	s := steps(t, 1)
	admit(t, s, observedtest.Trio(observedtest.All(func(o *observed.Cluster) { rolls(o.Cluster) }, func(o *observed.Cluster) { observedtest.Unready(o, 1) })))
	well := observedtest.Trio(func(o *observed.Cluster) { rolls(o.Cluster) })
	for _, rolling := range []int{1, 0} { // the second pass sees what the first has written
		admit(t, s, well)
		if now, _ := s.Limit.Counts(); now != rolling || well.Cluster.Status.Rollout != nil {
			t.Errorf("%d count as in transition, and not %d; status: %v", now, rolling, well.Cluster.Status.Rollout)
		}
	}
}

func TestCanariesRunInAnImageFirst(t *testing.T) {
	canary := func(change func(*v1alpha1.PostgresCluster)) func(*v1alpha1.PostgresCluster) {
		return func(cluster *v1alpha1.PostgresCluster) {
			cluster.Labels = map[string]string{v1alpha1.LabelCanary: "true"}
			cluster.Spec.Image = newImage
			change(cluster)
		}
	}
	runs := func(ready metav1.ConditionStatus) func(*v1alpha1.PostgresCluster) {
		return canary(func(cluster *v1alpha1.PostgresCluster) {
			cluster.Status.Image = newImage
			cluster.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: ready}}
		})
	}
	for name, c := range map[string]struct {
		others []client.Object
		wait   string
	}{
		"none":                       {nil, ""},
		"a neighbour that isn't one": {[]client.Object{other("demo", "blog", func(c *v1alpha1.PostgresCluster) { c.Spec.Image = newImage })}, ""},
		"one that has yet to":        {[]client.Object{other("demo", "blog", canary(func(*v1alpha1.PostgresCluster) {}))}, "until the canary demo/blog runs in that image"},
		"one that follows the suite": {[]client.Object{other("demo", "blog", canary(func(c *v1alpha1.PostgresCluster) {
			c.Spec.Image, c.Spec.Updates = "", &v1alpha1.Updates{Minor: v1alpha1.UpdateAutomatic}
			c.Status.PendingUpdate = &v1alpha1.PendingUpdate{Image: newImage}
		}))}, "until the canary demo/blog runs in that image"},
		"one that is updated by hand": {[]client.Object{other("demo", "blog", canary(func(c *v1alpha1.PostgresCluster) {
			c.Spec.Image, c.Status.PendingUpdate = "", &v1alpha1.PendingUpdate{Image: newImage}
		}))}, ""},
		"one that is at it": {[]client.Object{other("demo", "blog", canary(func(c *v1alpha1.PostgresCluster) {
			c.Status.Image, c.Status.ImageChange = newImage, &v1alpha1.ImageChange{To: newImage}
		}))}, "until the canary demo/blog runs in that image"},
		"one that runs in it":      {[]client.Object{other("demo", "blog", runs(metav1.ConditionTrue))}, ""},
		"one that runs in it, ill": {[]client.Object{other("demo", "blog", runs(metav1.ConditionFalse))}, "until the canary demo/blog, which runs in that image, is Ready"},
		"one that refused it": {[]client.Object{other("demo", "blog", canary(func(c *v1alpha1.PostgresCluster) {
			c.Status.RefusedImage = &v1alpha1.RefusedImage{Image: newImage, Message: "It doesn't start."}
		}))}, "refused that image: It doesn't start."},
		"one that hibernates":        {[]client.Object{other("demo", "blog", canary(func(c *v1alpha1.PostgresCluster) { c.Spec.Hibernate = true }))}, ""},
		"one with another image":     {[]client.Object{other("demo", "blog", canary(func(c *v1alpha1.PostgresCluster) { c.Spec.Image = "postgres:other" }))}, ""},
		"one of somebody else":       {[]client.Object{other("elsewhere", "blog", canary(func(*v1alpha1.PostgresCluster) {}))}, ""},
		"one of the administrator's": {[]client.Object{other("canaries", "blog", canary(func(*v1alpha1.PostgresCluster) {}))}, "until the canary canaries/blog runs"},
	} {
		o := observedtest.Trio(wantsImage)
		admit(t, steps(t, 0, c.others...), o)
		if (c.wait == "") != (o.RolloutWait == "") || !strings.Contains(o.RolloutWait, c.wait) {
			t.Errorf("%s: waits for %q, want %q", name, o.RolloutWait, c.wait)
		}
	}
	o := observedtest.Trio(observedtest.All(wantsImage, func(o *observed.Cluster) { o.Cluster.Labels = map[string]string{v1alpha1.LabelCanary: "true"} }))
	admit(t, steps(t, 0, other("demo", "blog", canary(func(*v1alpha1.PostgresCluster) {}))), o)
	if o.RolloutWait != "" {
		t.Errorf("a canary waits: %q", o.RolloutWait)
	}
}

func TestAParameterDoesNotWaitForCanaries(t *testing.T) {
	o := observedtest.Trio(observedtest.WaitsFor("max_connections", "200", "shop-1"))
	admit(t, steps(t, 0, other("demo", "blog", func(c *v1alpha1.PostgresCluster) {
		c.Labels, c.Spec.Image = map[string]string{v1alpha1.LabelCanary: "true"}, newImage
	})), o)
	if o.Cluster.Status.Rollout == nil {
		t.Errorf("it waits: %q", o.RolloutWait)
	}
}
