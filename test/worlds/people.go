package worlds

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
)

// fate is what becomes of an Upgrade.
type fate struct{ fails, obstacle bool }

// people wish for things, and change their minds.
type people struct {
	world    *World
	upgrades int
	fates    map[string]*fate
	// undone are the data generations that were decided to be given up, by what is to come back.
	undone map[string]string
}

func newPeople(w *World) *people {
	return &people{world: w, fates: map[string]*fate{}, undone: map[string]string{}}
}

// begin with a cluster.
func (p *people) begin() {
	cluster := &v1alpha1.PostgresCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: clusterName},
		Spec:       v1alpha1.PostgresClusterSpec{Version: 17, Storage: v1alpha1.StorageSpec{Size: resource.MustParse("1Gi")}},
	}
	cluster.Spec.Instances = int32(1 + p.world.random.IntN(3))
	if cluster.Spec.Instances == 3 && p.world.chance(2) {
		cluster.Spec.Synchronous = &v1alpha1.Synchronous{Number: 1}
	}
	_ = p.world.api.Create(p.world.control.ctx, cluster)
	p.world.say("A cluster of %d is created", cluster.Spec.Instances)
}

func (p *people) fateOf(pod string) *fate {
	if f := p.fates[jobOwner(pod)]; f != nil {
		return f
	}
	return &fate{}
}

func (p *people) cluster() *v1alpha1.PostgresCluster {
	cluster := &v1alpha1.PostgresCluster{}
	if p.world.get(clusterName, cluster) != nil {
		return nil
	}
	return cluster
}

// act as people do.
func (p *people) act() {
	cluster := p.cluster()
	if cluster == nil || cluster.Status.SystemIdentifier == "" {
		return
	}
	upgrades := each[*v1alpha1.Upgrade](p.world)
	switch p.world.random.IntN(8) {
	case 0, 1:
		if p.upgrades < 2 {
			p.upgrade()
		}
	case 2, 3, 7:
		if len(upgrades) > 0 {
			p.decide(upgrades[p.world.random.IntN(len(upgrades))].DeepCopy())
		}
	case 4:
		p.disturb(cluster)
		p.replace(cluster)
	case 5:
		p.edit(cluster)
	case 6:
		p.world.kube.quota = !p.world.kube.quota
		p.world.say("the quota of claims is used up: %t", p.world.kube.quota)
	}
}

func (p *people) upgrade() {
	name := fmt.Sprint("up", p.upgrades)
	p.upgrades++
	p.fates[name] = &fate{fails: p.world.chance(4), obstacle: p.world.chance(8)}
	upgrade := &v1alpha1.Upgrade{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.UpgradeSpec{Cluster: v1alpha1.LocalReference{Name: clusterName}, Version: 18},
	}
	if p.world.chance(2) {
		upgrade.Spec.MaxDowntime = &metav1.Duration{Duration: time.Duration(1+p.world.random.IntN(20)) * time.Minute}
	}
	_ = p.world.api.Create(p.world.control.ctx, upgrade)
	p.world.say("Upgrade %s is created: %+v", name, *p.fates[name])
}

// decide about an Upgrade: to cancel it or delete it, or, once it is up, to confirm it or roll it back.
func (p *people) decide(u *v1alpha1.Upgrade) {
	before := u.DeepCopy()
	switch {
	case u.DeletionTimestamp != nil:
		return
	case u.Status.UpAt != nil && u.Spec.Decision == "":
		u.Spec.Decision = []v1alpha1.UpgradeDecision{v1alpha1.UpgradeConfirm, v1alpha1.UpgradeRollBack}[p.world.random.IntN(2)]
		if u.Spec.Decision == v1alpha1.UpgradeRollBack {
			p.undone[u.Status.Plan.ToGeneration] = u.Status.Plan.FromGeneration
		}
	case p.world.chance(6):
		p.world.say("Upgrade %s is deleted by a person", u.Name)
		_ = p.world.api.Delete(p.world.control.ctx, u)
		return
	case p.world.chance(5) && !u.Spec.Cancel:
		u.Spec.Cancel = true
	default:
		return
	}
	p.world.say("Upgrade %s: decision %q, cancel %t", u.Name, u.Spec.Decision, u.Spec.Cancel)
	_ = p.world.api.Patch(p.world.control.ctx, u, client.MergeFrom(before))
}

// rolledBack: a person has decided to give up the one data generation for the other.
func (p *people) rolledBack(from, to string) bool { return p.undone[from] == to }

// disturb deletes a pod.
func (p *people) disturb(cluster *v1alpha1.PostgresCluster) {
	pod := &corev1.Pod{}
	name := fmt.Sprintf("%s-%d", clusterName, p.world.random.IntN(int(cluster.Spec.Instances)))
	if p.world.get(name, pod) == nil {
		p.world.say("pod %s is deleted by a person", name)
		_ = p.world.api.Delete(p.world.control.ctx, pod)
	}
}

// replace the volume of a replica: a person deletes its claim and its pod, while a primary has every row and nobody works on the volumes.
func (p *people) replace(cluster *v1alpha1.PostgresCluster) {
	if len(cluster.Status.VolumeLocks) > 0 {
		return
	}
	replica := p.world.pg.of(fmt.Sprintf("%s-%d", clusterName, p.world.random.IntN(3)))
	if replica == nil || replica.leads || !replica.streams {
		return
	}
	claim, pod := &corev1.PersistentVolumeClaim{}, &corev1.Pod{}
	if p.world.get(replica.volume.claim, claim) == nil && p.world.get(replica.pod, pod) == nil {
		p.world.say("claim %s is deleted by a person, with its pod", claim.Name)
		_ = p.world.api.Delete(p.world.control.ctx, claim)
		_ = p.world.api.Delete(p.world.control.ctx, pod)
	}
}

// edit the cluster: another number of instances, a parameter, or that it sleeps.
func (p *people) edit(cluster *v1alpha1.PostgresCluster) {
	before := cluster.DeepCopy()
	switch p.world.random.IntN(3) {
	case 0:
		if cluster.Spec.Synchronous == nil {
			cluster.Spec.Instances = int32(1 + p.world.random.IntN(3))
		}
	case 1:
		p.wishForParameters()
		return
	case 2:
		cluster.Spec.Hibernate = !cluster.Spec.Hibernate
	}
	p.world.say("The cluster is to have %d instances, hibernate: %t", cluster.Spec.Instances, cluster.Spec.Hibernate)
	_ = p.world.api.Patch(p.world.control.ctx, cluster, client.MergeFrom(before))
}

// wishForParameters that the StatefulSet has to be written for.
func (p *people) wishForParameters() {
	cluster := p.cluster()
	if cluster == nil {
		return
	}
	before := cluster.DeepCopy()
	cluster.Spec.PostgreSQL.Parameters = map[string]v1alpha1.ParameterValue{"work_mem": v1alpha1.ParameterValue(fmt.Sprint(20+p.world.random.IntN(99), "MB"))}
	_ = p.world.api.Patch(p.world.control.ctx, cluster, client.MergeFrom(before))
	p.world.say("The cluster is to have work_mem %s", cluster.Spec.PostgreSQL.Parameters["work_mem"])
}

// settleDown wishes for nothing that keeps a cluster from running.
func (p *people) settleDown() {
	cluster := p.cluster()
	before := cluster.DeepCopy()
	cluster.Spec.Hibernate = false
	_ = p.world.api.Patch(p.world.control.ctx, cluster, client.MergeFrom(before))
}

// leave deletes everything.
func (p *people) leave() {
	p.world.say("Everything is deleted")
	for _, upgrade := range each[*v1alpha1.Upgrade](p.world) {
		_ = p.world.api.Delete(p.world.control.ctx, upgrade.DeepCopy())
	}
	_ = p.world.api.Delete(p.world.control.ctx, p.cluster())
}
