//go:build integration

package cluster

import (
	"encoding/json"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
)

func three(c *v1alpha1.PostgresCluster) { c.Spec.Instances = 3 }

// awaitReplicated waits until all instances are there and current, and every replica follows.
func (l *lab) awaitReplicated(shop *v1alpha1.PostgresCluster) {
	l.Helper()
	l.awaitRunning(shop)
	l.awaitCondition(shop, v1alpha1.ConditionReplicated, metav1.ConditionTrue, v1alpha1.ReasonFollowing)
}

// told is what the agents are told.
func (l *lab) told() agentapi.Config {
	l.Helper()
	configMap, config := &corev1.ConfigMap{}, agentapi.Config{}
	l.there(configMap, "shop-config")
	if err := json.Unmarshal([]byte(configMap.Data["agent.json"]), &config); err != nil {
		l.Fatal(err)
	}
	return config
}

func TestThreeInstancesHaveAllThatTheyElectWith(t *testing.T) {
	l := newLab(t)
	shop := l.shop(func(c *v1alpha1.PostgresCluster) {
		three(c)
		c.Spec.Synchronous = &v1alpha1.Synchronous{Number: 1}
		c.Spec.Scheduling.Spread = v1alpha1.SpreadRequired
	})
	l.awaitReplicated(shop)
	set, lease, secret, role := &appsv1.StatefulSet{}, &coordinationv1.Lease{}, &corev1.Secret{}, &rbacv1.Role{}
	if !l.there(set, "shop") || *set.Spec.Replicas != 3 || set.Spec.Template.Labels[v1alpha1.LabelRole] != "" ||
		set.Spec.Template.Spec.TopologySpreadConstraints[1].WhenUnsatisfiable != corev1.DoNotSchedule {
		t.Errorf("the StatefulSet: %+v", set.Spec)
	}
	if !l.there(lease, "shop") || !metav1.IsControlledBy(lease, shop) || ptr.Deref(lease.Spec.HolderIdentity, "") != "shop-0" {
		t.Errorf("the Lease: %+v", lease)
	}
	if !l.there(secret, "shop-instance") || len(secret.Data) != 8 {
		t.Errorf("the Secret of pods has %d keys", len(secret.Data))
	}
	for i := range 3 {
		if !l.there(&corev1.PersistentVolumeClaim{}, []string{"data-shop-0", "data-shop-1", "data-shop-2"}[i]) {
			t.Errorf("volume %d is missing", i)
		}
	}
	l.there(role, "shop-instance")
	if rule := role.Rules[1]; !slices.Equal(rule.ResourceNames, []string{"shop"}) || !slices.Equal(rule.Verbs, []string{"get", "list", "watch", "patch", "create"}) {
		t.Errorf("leases: %+v", rule)
	}
	if rule := role.Rules[2]; !slices.Equal(rule.ResourceNames, []string{"shop-0", "shop-1", "shop-2"}) || !slices.Equal(rule.Verbs, []string{"get", "patch"}) {
		t.Errorf("pods: %+v", rule)
	}
	config := l.told()
	if config.Instances != 3 || config.Lease != "shop" || config.PodDomain != "shop-pods."+l.ns+".svc" || config.MaxLagBytes != 16<<20 ||
		config.Synchronous == nil || config.Synchronous.Number != 1 || !config.Synchronous.Required {
		t.Errorf("told: %+v", config)
	}
	if s := shop.Status; s.Primary != "shop-0" || s.ReadyInstances != 3 || len(s.Instances) != 3 || s.Synchronous.Quorum != 1 ||
		!slices.Equal(s.Synchronous.Members, []string{"shop-1", "shop-2"}) || s.Instances[1].Role != v1alpha1.RoleReplica || !s.Instances[1].Eligible {
		t.Errorf("status: %+v", s)
	}
}

func TestASingleInstanceIsToldNothingOfElections(t *testing.T) {
	l := newLab(t)
	shop := l.shop(nil)
	l.awaitRunning(shop)
	if config := l.told(); config.Instances > 1 || config.Lease != "" || config.MaxLagBytes != 0 || l.there(&coordinationv1.Lease{}, "shop") {
		t.Errorf("told %+v, or there is a Lease", config)
	}
	if meta.FindStatusCondition(shop.Status.Conditions, v1alpha1.ConditionReplicated) != nil {
		t.Error("it has a condition about replicas")
	}
}

func TestTheLeaseIsTheAgentsOnceItIsCreated(t *testing.T) {
	l := newLab(t)
	shop := l.shop(three)
	l.awaitReplicated(shop)
	lease := &coordinationv1.Lease{}
	l.there(lease, "shop")
	l.change(lease, func() {
		lease.Spec.LeaseTransitions = ptr.To[int32](7)
		lease.Labels["example.com/mine"] = "yes"
	})
	before := lease.ResourceVersion
	l.change(shop, func() { shop.Spec.PostgreSQL.Parameters = map[string]v1alpha1.ParameterValue{"work_mem": "8MB"} })
	l.settle()
	if l.get(lease); lease.ResourceVersion != before {
		t.Errorf("it was written: %+v", lease)
	}
}

func TestAnIdleClusterOfThreeCausesNoWrites(t *testing.T) {
	l := newLab(t)
	shop := l.shop(three)
	l.awaitReplicated(shop)
	l.settle()
	mark, at := l.writes.mark(), int64(0)
	l.kube.set(func(s *standIn) {
		s.answer = func(status *agentapi.Status) {
			if status.Replication != nil {
				at++
				status.Replication.LagBytes, status.Replication.LagSeconds = at*1000, float64(at%9)
			}
		}
	})
	answers := func() (n int64) {
		l.kube.set(func(*standIn) { n = at })
		return n
	}
	l.passes(shop, 5)
	l.eventually("agents have said something else, and passes have seen that", func() bool {
		l.passes(shop, 1)
		return answers() > 4
	})
	if wrote := l.writes.since(mark); len(wrote) > 0 {
		t.Errorf("wrote %v", wrote)
	}
}
