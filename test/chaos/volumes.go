package chaos

import (
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// rollBackVolume gives an instance the volume that it had a while ago, as a storage system does that is restored from a snapshot. The
// instance stands still while its volume is copied, so that the copy is one of a single moment. After that a checkpoint is written: a primary
// whose volume is from after its last checkpoint is not recognised (docs/high-availability.md#limitations).
func rollBackVolume(n *nemesis, name string) (func(), error) {
	node, folder, err := n.volume(name)
	if err != nil {
		return nil, err
	}
	old := folder + ".old"
	if err := n.standingStill(name, func() error { return bed("exec", node, "cp", "-a", folder, old) }); err != nil {
		return nil, err
	}
	n.pass(n.between(3*time.Second, 12*time.Second)) // usually without a checkpoint, of which the Lease would tell
	err = n.standingStill(name, func() error {
		script := `find "$0" -mindepth 1 -delete && cp -a "$1/." "$0" && rm -rf "$1"`
		return errors.Join(bed("exec", node, "sh", "-c", script, folder, old), bed("signal", n.Namespace+"/"+name, "KILL"))
	})
	return nil, err
}

// standingStill stops all processes of an instance while something is done, and lets them continue if they are still there.
func (n *nemesis) standingStill(name string, do func() error) error {
	pod := n.Namespace + "/" + name
	if err := bed("signal", pod, "STOP"); err != nil {
		return err
	}
	defer func() { _ = bed("signal", pod, "CONT") }()
	return do()
}

// volume says where that of an instance lies, and on which node.
func (n *nemesis) volume(name string) (node, folder string, err error) {
	pod, err := n.pod(name)
	if err != nil {
		return "", "", err
	}
	claim, volume := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}
	if err := n.Get(n.Context(), client.ObjectKey{Namespace: n.Namespace, Name: "data-" + name}, claim); err != nil {
		return "", "", err
	}
	if err := n.Get(n.Context(), client.ObjectKey{Name: claim.Spec.VolumeName}, volume); err != nil {
		return "", "", err
	}
	if pod.Spec.NodeName == "" || volume.Spec.Local == nil {
		return "", "", errors.New("it has no node, or no volume of a node")
	}
	return pod.Spec.NodeName, volume.Spec.Local.Path, nil
}

// cancelCommits cancels all that wait for a replica, some times: their clients are warned, and nothing is promised to them.
func cancelCommits(n *nemesis, _ string) (func(), error) {
	for range 5 {
		_, err := ask[int64](n.Context(), n.target, "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND usename = current_user")
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}
