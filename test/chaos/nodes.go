package chaos

import (
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

func nodeKill(r *round) {
	node := r.primary.Spec.NodeName
	heal := r.healing(func() { r.Kube("start-node", node) })
	r.strike()
	r.Kube("kill-node", node)
	r.awaitFailover()
	heal()
}

// after is how long a part of the cluster that is frozen or cut off stays so after the others have continued: long enough
// for a mistake to show.
const after = 10 * time.Second

// nodeFreeze stops the primary's node. What its clients asked just before may be answered when it continues.
func nodeFreeze(r *round) {
	r.clientsInside()
	node := r.primary.Spec.NodeName
	heal := r.healing(func() { r.Kube("thaw", node) })
	r.strike()
	r.Kube("freeze", node)
	r.awaitFailover()
	r.pass(after)
	heal()
	r.pass(after)
}

// partition cuts the primary off from the other instances and from the API server, with clients on its side.
func partition(r *round) {
	r.clientsInside()
	node := r.primary.Spec.NodeName
	heal := r.healing(func() { r.Kube("link", node, "up") })
	r.strike()
	r.Kube("link", node, "down")
	r.awaitFailover()
	r.pass(after)
	heal()
	r.pass(after)
}

// pass lets time pass: that is what such a fault consists of.
func (r *round) pass(d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.Context().Done():
	}
}

// lossTime is how long packets are lost, and lossShare how many of a hundred in each direction.
const lossTime, lossShare = 40 * time.Second, 35

// packetLoss has the primary's node lose a third of all that it sends and receives.
func packetLoss(r *round) {
	node := r.primary.Spec.NodeName
	heal := r.healing(func() { r.Kube("exec", node, "nft", "delete", "table", "inet", "loss") })
	r.strike()
	r.Kube("exec", node, "nft", fmt.Sprintf("add table inet loss; "+
		"add chain inet loss in { type filter hook prerouting priority -400; }; add rule inet loss in iif eth0 numgen random mod 100 < %[1]d drop; "+
		"add chain inet loss out { type filter hook postrouting priority 400; }; add rule inet loss out oif eth0 numgen random mod 100 < %[1]d drop", lossShare))
	r.pass(lossTime)
	heal()
}

func apiAway(r *round) {
	heal := r.healing(func() { r.Kube("apiserver", "start") })
	r.strike()
	r.Kube("apiserver", "stop")
	r.pass(time.Minute)
	heal()
}

func apiFlapping(r *round) {
	r.strike()
	for range 6 {
		heal := r.healing(func() { r.Kube("apiserver", "start") })
		r.Kube("apiserver", "stop")
		r.pass(5 * time.Second)
		heal()
		r.pass(5 * time.Second)
	}
}

// apiSlow has every request to the API server wait for up to slowFor, as one that is overloaded does.
func apiSlow(r *round) {
	const slowFor, quick, times = 3 * time.Second, time.Second, 12
	r.strike()
	for range times {
		heal := r.healing(func() { r.Kube("exec", "cp", "pkill", "-CONT", "-x", "kube-apiserver") })
		r.Kube("exec", "cp", "pkill", "-STOP", "-x", "kube-apiserver")
		r.pass(slowFor)
		heal()
		r.pass(quick)
	}
}

// controllersDown takes every controller of the suite away, and then the primary.
func controllersDown(r *round) {
	heal := r.healing(r.stopControllers())
	r.deletePod(client.GracePeriodSeconds(0))
	r.awaitFailover()
	heal()
}

// double kills the primary's server while one of the replicas is cut off.
func double(r *round) {
	node := r.replica(r.primary).Spec.NodeName
	before := r.started(r.primary)
	heal := r.healing(func() { r.Kube("link", node, "up") })
	r.strike()
	r.Kube("link", node, "down")
	r.Kube("signal", id(r.primary), "KILL", "--program", "postgres")
	r.awaitServer(before)
	r.pass(after)
	heal()
}
