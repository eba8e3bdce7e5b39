package failover

import (
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/kubectl-howdah/internal/switchover"
)

// observed is what is known of a cluster before anything is decided.
type observed struct {
	cluster *v1alpha1.PostgresCluster
	lease   *coordinationv1.Lease
	known   election
	pods    map[string]*corev1.Pod
	read    time.Time // when the Lease was, or later
	// node of the last primary's pod; nil: it doesn't exist, or may not be read.
	node   *corev1.Node
	noNode bool // it doesn't exist any more
}

// last is the instance that was primary last.
func (o *observed) last() string { return o.known.LastHolder }

// serving says whether there is a primary that accepts connections. The condition alone may be old, where no controller runs.
func (o *observed) serving() bool {
	pod := o.pods[o.cluster.Status.Primary]
	if pod == nil || !meta.IsStatusConditionTrue(o.cluster.Status.Conditions, v1alpha1.ConditionReady) {
		return false
	}
	return podReady(pod)
}

func podReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// off says how it is known that the last primary can't accept writes any more; empty: it isn't known.
func (o *observed) off() string {
	pod := o.pods[o.last()]
	switch {
	case pod == nil:
		return "" // its node may be cut off, and the pod deleted by force
	case o.noNode:
		return fmt.Sprintf("Node %s of pod %s was removed from Kubernetes.", pod.Spec.NodeName, pod.Name)
	case o.node != nil && outOfService(o.node):
		return fmt.Sprintf("Node %s of pod %s has the taint %s.", o.node.Name, pod.Name, corev1.TaintNodeOutOfService)
	case o.node != nil && !ready(o.node):
		return "" // its last word is old
	}
	for i := range pod.Status.ContainerStatuses {
		if c := &pod.Status.ContainerStatuses[i]; c.Name == "postgres" && c.State.Running == nil && o.node != nil {
			return fmt.Sprintf("The container of pod %s does not run, says its node, which answers.", pod.Name)
		}
	}
	return ""
}

func outOfService(node *corev1.Node) bool {
	for _, taint := range node.Spec.Taints {
		if taint.Key == corev1.TaintNodeOutOfService {
			return true
		}
	}
	return false
}

func ready(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// runs says whether the pod of an instance does, as far as Kubernetes knows. A pod on a dead node runs for that, too, but it is not ready. Nor is
// one that works, and whose server waits for somebody to decide: so what is not ready is said, and refused nowhere.
func (o *observed) runs(name string) bool {
	pod := o.pods[name]
	return pod != nil && pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp.IsZero()
}

// silent says whether the pod of an instance may never take the lease.
func (o *observed) silent(name string) bool { return o.runs(name) && !podReady(o.pods[name]) }

// doubt says why an instance may never take the lease; empty: nothing is known against it.
func (o *observed) doubt(name string) string {
	if !o.silent(name) {
		return ""
	}
	pod, node := o.pods[name], ""
	if pod.Spec.NodeName != "" {
		node = " " + pod.Spec.NodeName
	}
	return fmt.Sprintf("Pod %s is not ready. If its node%s or its agent doesn't work, it never takes the lease, and there is still no primary: "+
		"make sure first that they do, or choose another instance with --to.", name, node)
}

func (o *observed) instance(name string) *v1alpha1.InstanceStatus {
	for i := range o.cluster.Status.Instances {
		if instance := &o.cluster.Status.Instances[i]; instance.Name == name {
			return instance
		}
	}
	return nil
}

// timeline is one that no instance has.
func (o *observed) timeline() int64 {
	highest := max(o.known.Timeline, o.cluster.Status.Timeline)
	for i := range o.cluster.Status.Instances {
		highest = max(highest, o.cluster.Status.Instances[i].Timeline)
	}
	return highest + 1
}

// candidates are the instances that may be proposed.
func (o *observed) candidates() []string {
	var names []string
	for _, name := range o.names() {
		never := o.cluster.Spec.Failover.IsFenced(name) || o.cluster.Spec.Failover.Never(name) || o.cluster.Spec.Delay(name) > 0
		if name != o.last() && o.runs(name) && !never {
			names = append(names, name)
		}
	}
	return names
}

// best is the instance that had most, of those whose pods run; empty: there is none, or it isn't known.
func (o *observed) best() string {
	if o.known.unrecorded {
		return ""
	}
	candidates, highest, best := o.candidates(), int64(0), ""
	for _, name := range candidates {
		highest = max(highest, o.instance(name).Timeline)
	}
	for _, name := range candidates {
		if on := o.instance(name).Timeline; on > 0 && on < highest { // it hasn't followed the last primary that somebody else has
			continue
		}
		mine, member := o.known.had(name)
		others, other := o.known.had(best)
		if best == "" || member && !other || member == other && (others.before(mine) || others == mine && o.silent(best) && !o.silent(name)) {
			best = name
		}
	}
	if had, _ := o.known.had(best); had.LSN == 0 && len(candidates) > 1 {
		return "" // of none it is known what it had
	}
	return best
}

// compare says how a person finds out which instance has most.
const compare = "of those on the highest timeline, which kubectl howdah status shows, name the one with the highest " +
	"SELECT greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) with --to"

// refusal says why an instance can't be made primary; empty: it can.
func (o *observed) refusal(to string) string {
	switch {
	case o.serving():
		return fmt.Sprintf("%s is primary and accepts connections, so nothing has to be given up: use kubectl howdah switchover %s", o.cluster.Status.Primary, o.cluster.Name)
	case to == "" && o.known.unrecorded:
		return "it is not known which instance has the most WAL: " + compare
	case to == "" && len(o.candidates()) > 1:
		return "it is not known which instance has the most WAL, because the Lease names no position of those that could continue " +
			"(they lagged too far behind to be members, or were away): " + compare
	case to == "":
		return "no instance beside the last primary has a running pod: start one, or name it with --to"
	case o.instance(to) == nil:
		return fmt.Sprintf("there is no instance %s: write one of %s", to, strings.Join(o.names(), ", "))
	case o.cluster.Spec.Failover.IsFenced(to):
		return fmt.Sprintf("spec.failover.fenced names %s: remove it from there first", to)
	case o.cluster.Spec.Delay(to) > 0:
		return fmt.Sprintf("%s is a delayed replica: remove it from spec.delayedReplicas first", to)
	case !o.runs(to):
		return fmt.Sprintf("pod %s doesn't run", to)
	}
	return ""
}

func (o *observed) names() []string {
	var names []string
	for i := range o.cluster.Status.Instances {
		names = append(names, o.cluster.Status.Instances[i].Name)
	}
	return names
}

// loss says what is given up with everything that only others have.
func (o *observed) loss(to string) string {
	had, member := o.known.had(to)
	switch {
	case to == o.last():
		return fmt.Sprintf("Nothing is lost, if the volume of %s is the one that it had: it was primary last.", to)
	case o.known.unrecorded:
		return fmt.Sprintf("Acknowledged commits may be lost: for which instances commits waited is not known any more. Those that %s doesn't have are lost.", to)
	case o.known.Complete && o.known.End.before(had): // the last record begins there
		return fmt.Sprintf("Nothing is lost: %s was shut down cleanly, and %s has all of its WAL.", o.last(), to)
	case !member:
		return fmt.Sprintf("Acknowledged commits will probably be lost: %s followed too far behind to be a member, or was away. "+
			"Everything that %s wrote after that is lost.", to, o.last())
	case o.known.Quorum > 0:
		return fmt.Sprintf("Acknowledged commits may be lost: each is on %s and on at least %d of the members (%s). Those that %s doesn't have are lost. "+
			"If enough members respond, they elect a primary by themselves and lose none.", o.last(), o.known.Quorum, strings.Join(o.members(), ", "), to)
	}
	return fmt.Sprintf("Acknowledged commits may be lost: replication is asynchronous, so those that %s had not received when %s ended are lost.", to, o.last())
}

func (o *observed) members() []string {
	var names []string
	for _, m := range o.known.Members {
		names = append(names, m.Name)
	}
	return names
}

// holder is who holds the lease; empty: nobody does.
func (o *observed) holder() string { return ptr.Deref(o.lease.Spec.HolderIdentity, "") }

// pending says what a request for a switchover does that nobody has answered, once an instance is primary; empty: nothing. One that was begun ends
// by itself as soon as another instance is primary than the one that it was to replace.
func (o *observed) pending(primary string) string {
	asked, answer := o.cluster.Spec.Switchover, o.cluster.Status.Switchover
	if asked == nil || answer != nil && answer.Token == asked.Token && (answer.State != v1alpha1.SwitchoverRunning || answer.From != primary) {
		return ""
	}
	to := "another instance"
	if asked.To != "" {
		to = asked.To
	}
	return fmt.Sprintf("spec.switchover still asks for a switchover to %s. As soon as there is a primary, that moves the primary again. To take the request back first: %s",
		to, switchover.TakeBack(o.cluster))
}
