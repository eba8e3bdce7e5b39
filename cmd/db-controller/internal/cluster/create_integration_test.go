//go:build integration

package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/apply"
	"howdah.dev/howdah/cmd/db-controller/internal/pace"
	"howdah.dev/howdah/cmd/db-controller/internal/secretcache"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/workload"
)

func TestAClusterConsistsOfEverythingThatTheArchitectureNames(t *testing.T) {
	l := newLab(t)
	shop := l.shop(nil)
	l.awaitRunning(shop)
	for name, object := range map[string]client.Object{
		"shop": &appsv1.StatefulSet{}, "data-shop-0": &corev1.PersistentVolumeClaim{}, "shop-rw": &corev1.Service{},
		"shop-ro": &corev1.Service{}, "shop-r": &corev1.Service{},
		"shop-config": &corev1.ConfigMap{}, "shop-connection": &corev1.ConfigMap{}, "shop-ca": &corev1.Secret{},
		"shop-app": &corev1.Secret{}, "shop-backup": &corev1.Secret{}, "shop-upgrade": &corev1.Secret{}, "shop-instance": &corev1.Secret{},
	} {
		if !l.there(object, name) {
			t.Errorf("%T %s is missing", object, name)
			continue
		}
		if object.GetLabels()[v1alpha1.LabelCluster] != "shop" || object.GetLabels()[v1alpha1.LabelManagedBy] != "howdah" {
			t.Errorf("%T %s has labels %v", object, name, object.GetLabels())
		}
		_, isClaim := object.(*corev1.PersistentVolumeClaim)
		if metav1.IsControlledBy(object, shop) == isClaim {
			t.Errorf("%T %s: owned: %v", object, name, !isClaim)
		}
	}
	if !l.there(&corev1.ServiceAccount{}, "shop-instance") {
		t.Error("the ServiceAccount is missing")
	}
	for name, object := range map[string]client.Object{"shop-instance": &rbacv1.RoleBinding{}, "shop": &policyv1.PodDisruptionBudget{}, "shop-rw": &discoveryv1.EndpointSlice{}} {
		if !l.there(object, name) {
			t.Errorf("%T %s is missing", object, name)
		}
	}
	if l.there(&corev1.Secret{}, "shop-superuser") {
		t.Error("a Secret for the superuser was made, and nobody asked for it")
	}
	l.eventually("the init Job is cleared away", func() bool { return !l.there(&batchv1.Job{}, "shop-init") })
}

func TestWhatTheClusterIsIsPinnedAndPublished(t *testing.T) {
	l := newLab(t)
	shop := l.shop(nil)
	l.awaitRunning(shop)
	s := shop.Status
	if s.DataGeneration != protocol.DataGeneration(shop.UID, 0) || s.MajorVersion != 17 || s.Image != "postgres:17" || s.AgentImage != "agent:1" {
		t.Errorf("pinned: %+v", s)
	}
	if s.Version != "17.5" || s.Primary != "shop-0" || s.ReadyInstances != 1 || s.SystemIdentifier == "" || s.Timeline != 1 {
		t.Errorf("published: %+v", s)
	}
	if len(s.Instances) != 1 || s.Instances[0].Node != "w1" || s.Instances[0].Volume != "data-shop-0" || s.Instances[0].Role != v1alpha1.RolePrimary {
		t.Errorf("instances: %+v", s.Instances)
	}
	app := &corev1.Secret{}
	l.there(app, s.Connection.AppSecret)
	if uri := string(app.Data["uri"]); !strings.HasPrefix(uri, "postgresql://app:") || !strings.Contains(uri, "@shop-rw."+l.ns+".svc:5432/app?sslmode=") {
		t.Errorf("the uri is wrong (length %d)", len(uri))
	}
}

func TestAnIdleClusterCausesNoWrites(t *testing.T) {
	l := newLab(t)
	shop := l.shop(nil)
	l.awaitRunning(shop)
	l.eventually("the init Job is cleared away", func() bool { return !l.there(&batchv1.Job{}, "shop-init") })
	l.settle()
	mark := l.writes.mark()
	l.passes(shop, 5)
	l.clock.forward(2 * secretcache.SecretAge)
	l.passes(shop, 1)
	if wrote := l.writes.since(mark); len(wrote) > 0 {
		t.Errorf("wrote %v", wrote)
	}
}

func TestARestartedControllerGoesOnWithoutTouchingAnything(t *testing.T) {
	l := newLab(t)
	shop := l.shop(nil)
	l.awaitRunning(shop)
	l.settle()
	pod := &corev1.Pod{}
	l.there(pod, "shop-0")
	l.stop()
	l.startController()
	time.Sleep(time.Second)
	if wrote := l.writes.since(0); len(wrote) > 0 {
		t.Errorf("wrote %v", wrote)
	}
	after := &corev1.Pod{}
	l.there(after, "shop-0")
	if after.UID != pod.UID {
		t.Error("the pod was replaced")
	}
}

func TestAFailedInitJobSaysWhyAndIsCreatedAgainWhenItIsDeleted(t *testing.T) {
	l := newLab(t)
	l.kube.set(func(s *standIn) {
		s.initError = &agentapi.JobError{Reason: "X", Message: "The volume is read-only", Final: true}
	})
	shop := l.shop(nil)
	message := l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonInitFailed)
	if !strings.Contains(message, "The volume is read-only") {
		t.Errorf("message: %s", message)
	}
	l.kube.set(func(s *standIn) { s.initError = nil })
	job := &batchv1.Job{}
	l.there(job, "shop-init")
	if err := l.Delete(context.Background(), job, client.PropagationPolicy("Background")); err != nil {
		t.Fatal(err)
	}
	if err := l.Delete(context.Background(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: "shop-init-x"}}, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	l.awaitRunning(shop)
}

func TestAnInitJobThatCouldNotRunIsCreatedAgainWithTheNewImage(t *testing.T) {
	l := newLab(t)
	l.kube.set(func(s *standIn) {
		s.initError = &agentapi.JobError{Reason: "X", Message: "PostgreSQL 17 is not installed"}
	})
	shop := l.shop(func(c *v1alpha1.PostgresCluster) { c.Spec.Image = "postgres:wrong" })
	l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonInitFailed)
	l.kube.set(func(s *standIn) { s.initError = nil })
	l.change(shop, func() { shop.Spec.Image = "postgres:right" })
	l.awaitRunning(shop)
	if shop.Status.Image != "postgres:right" {
		t.Errorf("image %s", shop.Status.Image)
	}
}

func TestAnInitJobThatNoNodeTakesIsCreatedAgainWhereItMayRunNow(t *testing.T) {
	l := newLab(t)
	l.kube.set(func(s *standIn) { s.initError = &agentapi.JobError{Reason: "X", Message: "It ran on the wrong node"} })
	shop := l.shop(func(c *v1alpha1.PostgresCluster) { c.Spec.Scheduling.NodeSelector = map[string]string{"disk": "fast"} })
	l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonInitFailed)
	job := &batchv1.Job{}
	if l.there(job, "shop-init"); job.Spec.Template.Spec.NodeSelector["disk"] != "fast" {
		t.Errorf("the init Job runs on nodes with %v", job.Spec.Template.Spec.NodeSelector)
	}
	l.kube.set(func(s *standIn) { s.initError = nil })
	l.change(shop, func() {
		shop.Spec.Scheduling.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
	})
	l.awaitRunning(shop)
}

func TestASuperuserSecretComesAndGoesAsAsked(t *testing.T) {
	l := newLab(t)
	shop := l.shop(func(c *v1alpha1.PostgresCluster) { c.Spec.SuperuserAccess = true })
	l.awaitRunning(shop)
	if shop.Status.Connection.SuperuserSecret != "shop-superuser" || !l.there(&corev1.Secret{}, "shop-superuser") {
		t.Fatal("there is none")
	}
	l.change(shop, func() { shop.Spec.SuperuserAccess = false })
	l.eventually("the Secret goes", func() bool { return !l.there(&corev1.Secret{}, "shop-superuser") })
	l.awaitRunning(shop)
	pod := &corev1.Pod{}
	l.there(pod, "shop-0")
	for _, v := range pod.Spec.Volumes {
		if v.Name == "superuser" {
			t.Error("the pod still mounts it")
		}
	}
}

func TestParametersReachTheAgentWithoutANewPod(t *testing.T) {
	l := newLab(t)
	shop := l.shop(nil)
	l.awaitRunning(shop)
	before, after := &corev1.Pod{}, &corev1.Pod{}
	l.there(before, "shop-0")
	l.change(shop, func() { shop.Spec.PostgreSQL.Parameters = map[string]v1alpha1.ParameterValue{"work_mem": "8MB"} })
	l.eventually("the pod is told", func() bool {
		l.there(after, "shop-0")
		return after.Annotations[v1alpha1.AnnotationConfigHash] != before.Annotations[v1alpha1.AnnotationConfigHash]
	})
	l.awaitRunning(shop)
	if after.UID != before.UID {
		t.Error("the pod was replaced")
	}
	configMap, config := &corev1.ConfigMap{}, agentapi.Config{}
	l.there(configMap, "shop-config")
	if err := json.Unmarshal([]byte(configMap.Data["agent.json"]), &config); err != nil || config.Parameters["work_mem"] != "8MB" {
		t.Errorf("agent.json: %v %v", config.Parameters, err)
	}
}

func TestAParameterThatTakesARestartGetsOne(t *testing.T) {
	l := newLab(t)
	shop := l.shop(nil)
	l.awaitRunning(shop)
	l.kube.set(func(s *standIn) {
		s.answer = func(status *agentapi.Status) {
			if len(s.restarts) == 0 {
				status.PendingRestart = []string{"max_connections"}
			}
		}
	})
	l.change(shop, func() { shop.Spec.PostgreSQL.Parameters = map[string]v1alpha1.ParameterValue{"max_connections": "50"} })
	l.eventually("the agent is asked", func() bool {
		asked := 0
		l.kube.set(func(s *standIn) { asked = len(s.restarts) })
		return asked > 0
	})
	l.awaitRunning(shop)
}

func TestARefusedParameterShowsTheAgentsSentence(t *testing.T) {
	l := newLab(t)
	shop := l.shop(nil)
	l.awaitRunning(shop)
	good := shop.Status.Instances[0].ConfigHash
	l.kube.set(func(s *standIn) {
		s.answer = func(status *agentapi.Status) {
			if status.ConfigHash != good {
				status.ConfigErrorHash, status.ConfigHash, status.ConfigError = status.ConfigHash, good, "work_mem is not a number"
			}
		}
	})
	l.change(shop, func() { shop.Spec.PostgreSQL.Parameters = map[string]v1alpha1.ParameterValue{"work_mem": "much"} })
	message := l.awaitCondition(shop, v1alpha1.ConditionUpToDate, metav1.ConditionFalse, v1alpha1.ReasonConfigurationInvalid)
	if !strings.Contains(message, "work_mem is not a number") {
		t.Errorf("message: %s", message)
	}
	l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRunning)
}

func TestANewImageReplacesThePod(t *testing.T) {
	l := newLab(t)
	shop := l.shop(nil)
	l.awaitRunning(shop)
	before, after := &corev1.Pod{}, &corev1.Pod{}
	l.there(before, "shop-0")
	l.change(shop, func() { shop.Spec.Image = "postgres:17.6" })
	l.eventually("another pod", func() bool { return l.there(after, "shop-0") && after.UID != before.UID })
	l.awaitRunning(shop)
	if shop.Status.Image != "postgres:17.6" || after.Spec.Containers[0].Image != "postgres:17.6" {
		t.Errorf("image %s, in the pod %s", shop.Status.Image, after.Spec.Containers[0].Image)
	}
}

func TestANewSuiteWithAnotherAgentReplacesNoPod(t *testing.T) {
	l := newLab(t)
	shop := l.shop(nil)
	l.awaitRunning(shop)
	before, after := &corev1.Pod{}, &corev1.Pod{}
	l.there(before, "shop-0")
	l.stop()
	l.agent.Image = "agent:2"
	l.startController()
	set := &appsv1.StatefulSet{}
	l.eventually("pods that start from now on get the new agent", func() bool {
		return l.there(set, "shop") && set.Spec.Template.Spec.InitContainers[0].Image == "agent:2"
	})
	l.settle()
	l.there(after, "shop-0")
	if after.UID != before.UID {
		t.Error("the pod was replaced")
	}
	l.awaitRunning(shop)
	if shop.Status.AgentImage != "agent:1" {
		t.Errorf("status says %s runs", shop.Status.AgentImage)
	}
}

func TestWhatWasCreatedWithoutALookLosesAFieldThatIsNotWantedAnyMore(t *testing.T) {
	l := newLab(t)
	shop := l.shop(func(c *v1alpha1.PostgresCluster) {
		c.Spec.SuperuserAccess = true
		c.Spec.Scheduling.Tolerations = []corev1.Toleration{{Key: "database"}}
	})
	l.awaitRunning(shop)
	for name, object := range map[string]client.Object{
		"shop": &appsv1.StatefulSet{}, "shop-rw": &corev1.Service{}, "shop-config": &corev1.ConfigMap{}, "shop-instance": &rbacv1.Role{},
	} {
		l.there(object, name)
		ours := slices.DeleteFunc(object.GetManagedFields(), func(f metav1.ManagedFieldsEntry) bool { return f.Manager != apply.FieldManager })
		if len(ours) != 1 || ours[0].Operation != metav1.ManagedFieldsOperationApply {
			t.Errorf("%T %s: our fields are %v", object, name, ours)
		}
	}
	l.change(shop, func() { shop.Spec.SuperuserAccess, shop.Spec.Scheduling.Tolerations = false, nil })
	set := &appsv1.StatefulSet{}
	l.eventually("the fields go", func() bool {
		l.there(set, "shop")
		pod := set.Spec.Template.Spec
		return len(pod.Tolerations) == 0 && !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == "superuser" })
	})
}

func TestPodsGetTheAgentAnotherWayOnlyWhenTheyAreReplaced(t *testing.T) {
	l := newLab(t)
	shop := l.shop(nil)
	l.awaitRunning(shop)
	before, after := &corev1.Pod{}, &corev1.Pod{}
	for _, mounted := range []bool{true, false} {
		l.there(before, "shop-0")
		l.stop()
		l.agent = workload.Agent{Image: fmt.Sprint("agent:mounted-", mounted), Mounted: mounted}
		l.startController()
		set := &appsv1.StatefulSet{}
		l.eventually("pods that start from now on get the agent otherwise", func() bool {
			return l.there(set, "shop") && workload.AgentImage(&corev1.Pod{Spec: set.Spec.Template.Spec}) == l.agent.Image
		})
		l.settle()
		if l.there(after, "shop-0"); after.UID != before.UID {
			t.Errorf("mounted %v: the pod was replaced", mounted)
		}
		if err := l.Delete(t.Context(), after); err != nil {
			t.Fatal(err)
		}
		l.eventually("another pod", func() bool { return l.there(after, "shop-0") && after.UID != before.UID })
		if inits := len(after.Spec.InitContainers); mounted != (inits == 0) {
			t.Errorf("mounted %v: the next pod has %d init containers", mounted, inits)
		}
		l.eventually("status says which agent it has", func() bool { return l.there(shop, "shop") && shop.Status.AgentImage == l.agent.Image })
		l.awaitRunning(shop)
	}
}

// settle waits until the controller has written nothing for a while.
func (l *lab) settle() {
	l.Helper()
	last, since := l.writes.mark(), time.Now()
	l.eventually("the controller comes to rest", func() bool {
		if now := l.writes.mark(); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > pace.Patience+time.Second/2 // no small news wait any more
	})
}
