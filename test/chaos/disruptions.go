package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
)

// What is disrupted besides instances and nodes.
const apiServer, theLease, theSpec = "the API server", "the Lease", "the spec"

// one thing is the same each time.
func one(thing string) func(*nemesis) (string, error) {
	return func(*nemesis) (string, error) { return thing, nil }
}

// disruptions are all there are. What is done may be half done, or refused: that is for the cluster to bear.
func disruptions() []disruption {
	instance, node := (*nemesis).instance, (*nemesis).node
	return []disruption{
		{name: "kill-postmaster", on: instance, do: signal("KILL", "--program", "postgres")},
		{name: "kill-agent", on: instance, do: signal("KILL", "--program", "agent")},
		{name: "kill-pod", on: instance, do: signal("KILL")},
		{name: "stop-postmaster", on: instance, do: signal("STOP", "--program", "postgres")},
		{name: "stop-agent", on: instance, do: signal("STOP", "--program", "agent")},
		{name: "graceful-delete", on: instance, do: deleteInstance()},
		{name: "force-delete", on: instance, do: deleteInstance(client.GracePeriodSeconds(0))},
		{name: "lost-volume", on: instance, do: loseVolume, takes: true},
		{name: "old-volume", on: instance, do: rollBackVolume, takes: true},
		{name: "node-kill", on: node, do: onNode([]string{"kill-node"}, []string{"start-node"})},
		{name: "node-freeze", on: node, do: onNode([]string{"freeze"}, []string{"thaw"})},
		{name: "partition", on: node, do: onNode([]string{"link", "", "down"}, []string{"link", "", "up"})},
		{name: "packet-loss", on: node, do: losePackets},
		{name: "api-away", on: one(apiServer), do: onNode([]string{"apiserver", "stop"}, []string{"apiserver", "start"})},
		{name: "old-lease", on: one(theLease), do: rollBackLease},
		{name: "deleted-lease", on: one(theLease), do: deleteLease},
		{name: "cancelled-commits", on: one("commits"), do: cancelCommits},
		{name: "switchover", on: one(theSpec), do: requestSwitchover},
		{name: "restart", on: one(theSpec), do: changeParameter},
		{name: "scale", on: one(theSpec), do: scaleIn},
		{name: "backup", on: one("a backup"), do: makeBackup},
	}
}

// signal sends one to a program of an instance, or to all of it. What is stopped continues when it is healed.
func signal(name string, program ...string) func(*nemesis, string) (func(), error) {
	return func(n *nemesis, pod string) (func(), error) {
		send := func(name string) error {
			return bed(append([]string{"signal", n.Namespace + "/" + pod, name}, program...)...)
		}
		if err := send(name); err != nil || name != "STOP" {
			return nil, err
		}
		return func() { _ = send("CONT") }, nil // it may be gone, and another one in its place
	}
}

func deleteInstance(options ...client.DeleteOption) func(*nemesis, string) (func(), error) {
	return func(n *nemesis, name string) (func(), error) {
		return nil, n.Delete(n.Context(), &corev1.Pod{ObjectMeta: n.Meta(name)}, options...)
	}
}

// loseVolume deletes an instance with its volume.
func loseVolume(n *nemesis, name string) (func(), error) { return nil, n.loseVolume(name) }

// rollBackVolume gives an instance the volume that it had a while ago.
func rollBackVolume(n *nemesis, name string) (func(), error) {
	putBack, err := n.copyVolume(name)
	if err != nil {
		return nil, err
	}
	n.pass(n.between(3*time.Second, 12*time.Second))
	return nil, putBack()
}

// onNode runs a command of the test bed, and another one to heal. The name of the node comes where there is an empty word, or last.
func onNode(do, undo []string) func(*nemesis, string) (func(), error) {
	return func(n *nemesis, node string) (func(), error) {
		if err := bed(naming(do, node)...); err != nil {
			return nil, err
		}
		return func() { n.Kube(naming(undo, node)...) }, nil
	}
}

func naming(command []string, node string) []string {
	if node == apiServer {
		return command
	}
	var out []string
	named := false
	for _, word := range command {
		if word == "" {
			word, named = node, true
		}
		out = append(out, word)
	}
	if !named {
		out = append(out, node)
	}
	return out
}

// losePackets has a node lose a share of the packets that come to it or to its pods.
func losePackets(n *nemesis, node string) (func(), error) {
	share := 10 + n.random.IntN(30)
	err := bed("exec", node, "nft", fmt.Sprintf("add table inet chaos; add chain inet chaos in { type filter hook prerouting priority -300; }; "+
		"add rule inet chaos in numgen random mod 100 < %d drop", share))
	return func() { n.Kube("exec", node, "nft", "delete", "table", "inet", "chaos") }, err
}

// rollBackLease writes the Lease again as it was a while ago.
func rollBackLease(n *nemesis, _ string) (func(), error) {
	old, err := n.lease()
	if err != nil {
		return nil, err
	}
	n.pass(n.between(4*time.Second, 12*time.Second))
	return nil, n.writeAgain(old)
}

// deleteLease as long as somebody holds it whose server runs: once the volume of the last primary is lost, too, nobody knows who has every commit, and a
// person has to decide.
func deleteLease(n *nemesis, _ string) (func(), error) {
	lease, err := n.lease()
	if err != nil {
		return nil, err
	}
	holder := ptr.Deref(lease.Spec.HolderIdentity, "")
	pod := &corev1.Pod{}
	if err := n.Get(n.Context(), client.ObjectKey{Namespace: n.Namespace, Name: holder}, pod); err != nil || !isReady(pod) {
		return nil, fmt.Errorf("the holder of the Lease, %q, is not ready, so it is not deleted", holder)
	}
	return nil, n.deleteLease()
}

func isReady(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func (n *nemesis) changeSpec(ctx context.Context, patch string) error {
	return n.Patch(ctx, &v1alpha1.PostgresCluster{ObjectMeta: n.Meta(name)}, client.RawPatch("application/merge-patch+json", []byte(patch)))
}

func requestSwitchover(n *nemesis, _ string) (func(), error) {
	return nil, n.changeSpec(n.Context(), fmt.Sprintf(`{"spec":{"switchover":{"token":"random-%d"}}}`, rand.Int64()))
}

// changeParameter changes one that needs a restart.
func changeParameter(n *nemesis, _ string) (func(), error) {
	return nil, n.changeSpec(n.Context(), fmt.Sprintf(`{"spec":{"postgresql":{"parameters":{"max_connections":"%d"}}}}`, 100+n.random.IntN(50)))
}

// scaleIn takes an instance away, and asks for it again.
func scaleIn(n *nemesis, _ string) (func(), error) {
	if err := n.changeSpec(n.Context(), fmt.Sprintf(`{"spec":{"instances":%d}}`, n.instances-1)); err != nil {
		return nil, err
	}
	return func() {
		n.until("the instance to be asked for again", recoveryTime, func(ctx context.Context) error {
			return n.changeSpec(ctx, fmt.Sprintf(`{"spec":{"instances":%d}}`, n.instances))
		})
	}, nil
}

func makeBackup(n *nemesis, _ string) (func(), error) {
	return nil, n.Create(n.Context(), &v1alpha1.Backup{
		ObjectMeta: n.Meta(fmt.Sprintf("random-%d", rand.Uint32())), Spec: v1alpha1.BackupSpec{Cluster: v1alpha1.LocalReference{Name: name}},
	})
}
