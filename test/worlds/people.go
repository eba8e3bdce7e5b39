package worlds

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/buckettest"
)

// fate is what becomes of an Upgrade.
type fate struct{ fails, obstacle bool }

// people change spec, and change their minds.
type people struct {
	world    *World
	upgrades int
	fates    map[string]*fate
	// undone are the data generations that were decided to be given up, by what is to come back.
	undone   map[string]string
	restores int
	// replaced is the instance whose volume was replaced last.
	replaced string
	// records of Restores, by name.
	records map[string]*record
}

// record of a Restore: what it wrote, in place of what, and what was decided about it.
type record struct{ wrote, previous, decision string }

func newPeople(w *World) *people {
	return &people{world: w, fates: map[string]*fate{}, undone: map[string]string{}, records: map[string]*record{}}
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
	p.backup()
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

// busy: somebody has the volumes, or is about to. That is when trouble hurts most.
func (p *people) busy() bool {
	cluster := p.cluster()
	return cluster != nil && len(cluster.Status.VolumeLocks) > 0
}

// act as people do.
func (p *people) act() {
	cluster := p.cluster()
	if cluster == nil || cluster.Status.SystemIdentifier == "" {
		return
	}
	upgrades, restores := each[*v1alpha1.Upgrade](p.world), each[*v1alpha1.Restore](p.world)
	if instance := p.wayBack(upgrades, restores); instance != "" && p.world.chance(3) {
		p.endanger(cluster, instance)
		return
	} else if instance != "" && instance == p.replaced && p.world.chance(2) {
		p.goBack(upgrades, restores)
		return
	}
	switch p.world.random.IntN(10) {
	case 0, 1:
		p.request()
	case 8, 9:
		if len(restores) > 0 {
			p.decideRestore(restores[p.world.random.IntN(len(restores))].DeepCopy())
		}
	case 2, 3, 7:
		if len(upgrades) > 0 {
			p.decide(upgrades[p.world.random.IntN(len(upgrades))].DeepCopy())
		}
	case 4:
		p.disturb()
		p.replace(cluster, fmt.Sprintf("%s-%d", clusterName, p.world.random.IntN(3)))
	case 5:
		p.edit(cluster)
		p.decideData()
	case 6:
		p.world.kube.quota = !p.world.kube.quota
		p.world.say("the quota of claims is used up: %t", p.world.kube.quota)
	}
}

// request the volumes, with an Upgrade or a Restore.
func (p *people) request() {
	if p.world.chance(2) && p.upgrades < 2 {
		p.upgrade()
	} else if p.restores < 2 {
		p.restore()
	}
}

// wayBack is the instance that has the previous data of whom a person has yet to decide about; empty: there is none.
func (p *people) wayBack(upgrades []*v1alpha1.Upgrade, restores []*v1alpha1.Restore) string {
	for _, u := range upgrades {
		if u.Status.UpAt != nil && u.Spec.Decision == "" && u.Status.Previous != nil {
			return u.Status.Previous.Instance
		}
	}
	for _, r := range restores {
		if r.Status.RestoredAt != nil && r.Spec.Decision == "" && r.Status.Previous != nil {
			return r.Status.Previous.Instance
		}
	}
	return ""
}

// endanger a way back: have another instance be primary than the one that has the previous data, or replace its volume.
func (p *people) endanger(cluster *v1alpha1.PostgresCluster, instance string) {
	if s := p.world.pg.of(instance); s != nil && s.leads {
		p.deletePod(instance)
		return
	}
	p.replace(cluster, instance)
}

// goBack decides to have the previous data again, although it may be gone.
func (p *people) goBack(upgrades []*v1alpha1.Upgrade, restores []*v1alpha1.Restore) {
	for _, u := range upgrades {
		if u.Status.UpAt != nil && u.Spec.Decision == "" {
			p.decideFor(u.DeepCopy(), v1alpha1.UpgradeRollBack)
			return
		}
	}
	for _, r := range restores {
		if r.Status.RestoredAt != nil && r.Spec.Decision == "" {
			p.decideRestoreFor(r.DeepCopy(), v1alpha1.DecisionUndo)
			return
		}
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
		upgrade.Spec.MaxDowntime = p.minutes()
	}
	if p.world.chance(3) {
		upgrade.Spec.ConfirmWithin = p.minutes()
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
		p.decideFor(u, []v1alpha1.UpgradeDecision{v1alpha1.UpgradeConfirm, v1alpha1.UpgradeRollBack}[p.world.random.IntN(2)])
		return
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

// decideFor what becomes of the new version.
func (p *people) decideFor(u *v1alpha1.Upgrade, decision v1alpha1.UpgradeDecision) {
	before := u.DeepCopy()
	if u.Spec.Decision = decision; decision == v1alpha1.UpgradeRollBack {
		p.undone[u.Status.Plan.ToGeneration] = u.Status.Plan.FromGeneration
	}
	p.world.say("Upgrade %s: decision %q", u.Name, decision)
	_ = p.world.api.Patch(p.world.control.ctx, u, client.MergeFrom(before))
}

// decided: a person has decided to give up the one data generation for the other.
func (p *people) decided(from, to string) bool {
	for _, r := range p.records {
		if r.wrote == to || r.decision == string(v1alpha1.DecisionUndo) && r.previous == to && p.world.rows.contains(from, r.wrote) {
			return true
		}
	}
	return p.undone[from] == to
}

// abandoned: a person has decided that a data generation may be deleted.
func (p *people) abandoned(generation string) bool {
	rows := p.world.rows
	for _, r := range p.records {
		switch {
		case r.decision == string(v1alpha1.DecisionUndo) && rows.contains(generation, r.wrote):
			return true
		case r.decision != "" && rows.served[r.wrote] && rows.contains(r.previous, generation) && !rows.contains(rows.serving, generation):
			return true
		}
	}
	return p.undone[generation] != ""
}

// note what Restores write, before they are deleted. That the time for a decision is over gives nothing up: nothing is archived here, so the
// previous data is the only copy of its rows.
func (p *people) note() {
	for _, restore := range each[*v1alpha1.Restore](p.world) {
		r := p.records[restore.Name]
		if r != nil && restore.Status.Plan != nil && restore.Status.Previous != nil {
			r.wrote, r.previous = restore.Status.Plan.DataGeneration, restore.Status.Previous.DataGeneration
		}
	}
}

// minutes are some, of which there may be that many while a controller is away.
func (p *people) minutes() *metav1.Duration {
	return &metav1.Duration{Duration: time.Duration(1+p.world.random.IntN(20)) * time.Minute}
}

// restore in place, from a backup that was taken before there were rows.
func (p *people) restore() {
	name := fmt.Sprint("re", p.restores)
	p.restores++
	p.fates[name], p.records[name] = &fate{fails: p.world.chance(4)}, &record{}
	restore := &v1alpha1.Restore{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.RestoreSpec{
			Source:      v1alpha1.RestoreSource{Backup: &v1alpha1.LocalReference{Name: "base"}},
			Destination: v1alpha1.RestoreDestination{InPlace: &v1alpha1.InPlace{Name: clusterName}}, Mode: v1alpha1.RestoreExecute,
		},
	}
	if p.world.chance(2) {
		restore.Spec.MaxDowntime = p.minutes()
	}
	if p.world.chance(3) {
		restore.Spec.ConfirmWithin = p.minutes()
	}
	_ = p.world.api.Create(p.world.control.ctx, restore)
	p.world.say("Restore %s is created: %+v", name, *p.fates[name])
}

// decideRestore cancels a Restore or deletes it, or, once its data runs, confirms or undoes it.
func (p *people) decideRestore(restore *v1alpha1.Restore) {
	before, r := restore.DeepCopy(), p.records[restore.Name]
	switch {
	case restore.DeletionTimestamp != nil:
		return
	case restore.Status.RestoredAt != nil && restore.Spec.Decision == "":
		p.decideRestoreFor(restore, []v1alpha1.RestoreDecision{v1alpha1.DecisionConfirm, v1alpha1.DecisionUndo}[p.world.random.IntN(2)])
		return
	case p.world.chance(6):
		p.world.say("Restore %s is deleted by a person", restore.Name)
		if r.decision == "" {
			r.decision = "Delete"
		}
		_ = p.world.api.Delete(p.world.control.ctx, restore)
		return
	case p.world.chance(5) && !restore.Spec.Cancel:
		restore.Spec.Cancel = true
	default:
		return
	}
	p.world.say("Restore %s: decision %q, cancel %t", restore.Name, restore.Spec.Decision, restore.Spec.Cancel)
	_ = p.world.api.Patch(p.world.control.ctx, restore, client.MergeFrom(before))
}

// decideRestoreFor what becomes of the restored data.
func (p *people) decideRestoreFor(restore *v1alpha1.Restore, decision v1alpha1.RestoreDecision) {
	before := restore.DeepCopy()
	restore.Spec.Decision, p.records[restore.Name].decision = decision, string(decision)
	p.world.say("Restore %s: decision %q", restore.Name, decision)
	_ = p.world.api.Patch(p.world.control.ctx, restore, client.MergeFrom(before))
}

// backup is one of the cluster in a repository.
func (p *people) backup() {
	repository := &v1alpha1.BackupRepository{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "repo"},
		Spec:       v1alpha1.BackupRepositorySpec{S3: v1alpha1.S3Spec{Bucket: "bucket"}},
	}
	backup := &v1alpha1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "base"}, Spec: v1alpha1.BackupSpec{Cluster: v1alpha1.LocalReference{Name: clusterName}},
	}
	ready := func(kind, reason string) []metav1.Condition {
		return []metav1.Condition{{Type: kind, Status: metav1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.Now()}}
	}
	_ = p.world.api.Create(p.world.control.ctx, repository)
	repository.Status.ObservedGeneration, repository.Status.Conditions = 1, ready(v1alpha1.ConditionReady, v1alpha1.ReasonAvailable)
	_ = p.world.api.Status().Update(p.world.control.ctx, repository)
	_ = p.world.api.Create(p.world.control.ctx, backup)
	backup.Status.ObservedGeneration, backup.Status.Conditions = 1, ready(v1alpha1.ConditionSucceeded, v1alpha1.ReasonCompleted)
	backup.Status.Plan = &v1alpha1.BackupPlan{ID: "b", Repository: "repo", Lineage: buckettest.Lineage, ClusterUID: "u"}
	_ = p.world.api.Status().Update(p.world.control.ctx, backup)
}

// disturb deletes a pod.
func (p *people) disturb() {
	p.deletePod(fmt.Sprintf("%s-%d", clusterName, p.world.random.IntN(3)))
}

func (p *people) deletePod(name string) {
	pod := &corev1.Pod{}
	if p.world.get(name, pod) == nil {
		p.world.say("pod %s is deleted by a person", name)
		_ = p.world.api.Delete(p.world.control.ctx, pod)
	}
}

// replace the volume of a replica: a person deletes its claim and its pod, while a primary has every row and nobody works on the volumes.
func (p *people) replace(cluster *v1alpha1.PostgresCluster, instance string) {
	if len(cluster.Status.VolumeLocks) > 0 {
		return
	}
	replica := p.world.pg.of(instance)
	if replica == nil || !replica.streams || !p.world.pg.led(replica.generation) {
		return
	}
	claim, pod := &corev1.PersistentVolumeClaim{}, &corev1.Pod{}
	if p.world.get(replica.volume.claim, claim) == nil && p.world.get(replica.pod, pod) == nil {
		p.world.say("claim %s is deleted by a person, with its pod", claim.Name)
		p.world.rows.giveUpOn(replica.volume)
		p.replaced = instance
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
		p.changeParameters()
		return
	case 2:
		cluster.Spec.Hibernate = !cluster.Spec.Hibernate
	}
	p.world.say("The cluster is to have %d instances, hibernate: %t", cluster.Spec.Instances, cluster.Spec.Hibernate)
	_ = p.world.api.Patch(p.world.control.ctx, cluster, client.MergeFrom(before))
}

// changeParameters sets some that the StatefulSet has to be written for.
func (p *people) changeParameters() {
	cluster := p.cluster()
	if cluster == nil {
		return
	}
	before := cluster.DeepCopy()
	cluster.Spec.PostgreSQL.Parameters = map[string]v1alpha1.ParameterValue{"work_mem": v1alpha1.ParameterValue(fmt.Sprint(20+p.world.random.IntN(99), "MB"))}
	_ = p.world.api.Patch(p.world.control.ctx, cluster, client.MergeFrom(before))
	p.world.say("The cluster is to have work_mem %s", cluster.Spec.PostgreSQL.Parameters["work_mem"])
}

// settleDown takes back from spec what keeps a cluster from running.
func (p *people) settleDown() {
	cluster := p.cluster()
	before := cluster.DeepCopy()
	cluster.Spec.Hibernate = false
	_ = p.world.api.Patch(p.world.control.ctx, cluster, client.MergeFrom(before))
}

// leave deletes everything.
func (p *people) leave() {
	p.world.say("Everything is deleted")
	for _, object := range p.world.server.All() {
		switch object.(type) {
		case *v1alpha1.Upgrade, *v1alpha1.Restore, *v1alpha1.Backup, *v1alpha1.BackupRepository, *v1alpha1.PostgresCluster:
			if r := p.records[object.GetName()]; r != nil && r.decision == "" {
				r.decision = "Delete"
			}
			_ = p.world.api.Delete(p.world.control.ctx, object.DeepCopyObject().(client.Object))
		}
	}
}
