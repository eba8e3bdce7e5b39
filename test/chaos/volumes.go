package chaos

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// copyVolume keeps that of an instance as it is, and returns what puts it back and kills the instance, as a storage system does that is
// restored from a snapshot. The instance stands still while its volume is copied, so that the copy is one of a single moment.
func (r *round) copyVolume(name string) (putBack func() error, err error) {
	node, folder, err := r.volume(name)
	if err != nil {
		return nil, err
	}
	old := folder + ".old"
	if err := r.standingStill(name, func() error { return bed("exec", node, "cp", "-a", folder, old) }); err != nil {
		return nil, err
	}
	return func() error {
		return r.standingStill(name, func() error {
			script := `find "$0" -mindepth 1 -delete && cp -a "$1/." "$0" && rm -rf "$1"`
			return errors.Join(bed("exec", node, "sh", "-c", script, folder, old), bed("signal", r.Namespace+"/"+name, "KILL"))
		})
	}, nil
}

// oldVolume puts that of the primary back to what it was a while ago.
func oldVolume(r *round) {
	putBack, err := r.copyVolume(r.primary.Name)
	r.Must(err)
	r.pass(after)
	r.strike()
	r.Must(putBack())
	r.awaitFailover()
}

// lostVolume deletes the primary with its volume.
func lostVolume(r *round) {
	r.strike()
	r.Must(r.loseVolume(r.primary.Name))
	r.awaitFailover()
}

// loseVolume deletes an instance with its volume: the next one of that name has an empty one.
func (r *round) loseVolume(name string) error {
	if err := r.Delete(r.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: r.Meta("data-" + name)}); err != nil {
		return err
	}
	return r.Delete(r.Context(), &corev1.Pod{ObjectMeta: r.Meta(name)}, client.GracePeriodSeconds(0))
}

// standingStill stops all processes of an instance while something is done, and lets them continue if they are still there.
func (r *round) standingStill(name string, do func() error) error {
	pod := r.Namespace + "/" + name
	if err := bed("signal", pod, "STOP"); err != nil {
		return err
	}
	defer func() { _ = bed("signal", pod, "CONT") }()
	return do()
}

// volume says where that of an instance lies, and on which node.
func (r *round) volume(name string) (node, folder string, err error) {
	pod, err := r.pod(name)
	if err != nil {
		return "", "", err
	}
	claim, volume := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}
	if err := r.Get(r.Context(), client.ObjectKey{Namespace: r.Namespace, Name: "data-" + name}, claim); err != nil {
		return "", "", err
	}
	if err := r.Get(r.Context(), client.ObjectKey{Name: claim.Spec.VolumeName}, volume); err != nil {
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
