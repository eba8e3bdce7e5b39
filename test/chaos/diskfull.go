package chaos

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
)

// limitedSize of a volume that can be filled without filling the machine's disk: it is memory.
const limitedSize = "512Mi"

// limitVolumes gives a cluster volumes with a limit, one on each worker.
func limitVolumes(s *Subject, cluster *v1alpha1.PostgresCluster) {
	s.Helper()
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}, Provisioner: "kubernetes.io/no-provisioner",
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
	}
	s.Must(s.Create(s.Context(), class))
	s.Cleanup(func() { _ = s.Delete(context.Background(), class) })
	for i := range instances {
		s.limitedVolume(class.Name, fmt.Sprintf("w%d", i+1))
	}
	cluster.Spec.Storage = v1alpha1.StorageSpec{Size: resource.MustParse(limitedSize), StorageClassName: &class.Name}
}

func (s *Subject) limitedVolume(class, node string) {
	s.Helper()
	folder := "/run/" + class
	s.Kube("exec", node, "mkdir", "-p", folder)
	s.Kube("exec", node, "mount", "-t", "tmpfs", "-o", "mode=0777,size="+strings.TrimSuffix(limitedSize, "i"), class, folder)
	s.Cleanup(func() { s.Kube("exec", node, "umount", "--lazy", folder) })
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: class + "-" + node},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(limitedSize)},
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: folder}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
			}}}},
		},
	}
	s.Must(s.Create(s.Context(), volume))
	s.Cleanup(func() { _ = s.Delete(context.Background(), volume) })
}

// diskFull fills the primary's volume, and then has it write WAL until it falls over, past what keeps clients from writing.
// Whoever is primary then can be read, and once there is space all is as before.
func diskFull(r *round) {
	const filler = "/var/lib/howdah/filler"
	node := r.primary.Spec.NodeName
	heal := r.healing(func() { r.Kube("exec", node, "rm", "-f", "/run/"+r.Namespace+"/filler") })
	r.strike()
	_, err := r.Exec(r.primary.Name, "sh", "-c",
		"fallocate -l $(( $(df --output=avail -B1 /var/lib/howdah | tail -n1) - 8388608 )) "+filler)
	r.Must(err)
	r.awaitSpace("the volume to be seen full", true)
	// The messages go into WAL and nowhere else; the server is expected to fall over them.
	_, err = r.SQLOn(r.primary.Name, "SELECT count(pg_logical_emit_message(false, 'fill', repeat('x', 1000000))) FROM generate_series(1, 400)")
	r.Logf("writing WAL to a full volume: %v", err)
	r.until("the database to be read", mend, func(ctx context.Context) error {
		_, err := ask[time.Time](ctx, r.target, startTime)
		return err
	})
	r.pass(after)
	heal()
	r.awaitSpace("space", false)
}

// awaitSpace waits until clients are kept from writing, or no longer are, and until the condition Space says so.
func (r *round) awaitSpace(what string, full bool) {
	r.Helper()
	r.until(what, mend, func(ctx context.Context) error {
		shut, err := ask[bool](ctx, r.target, "SELECT current_setting('default_transaction_read_only')::bool")
		if err == nil && shut != full {
			err = fmt.Errorf("default_transaction_read_only is %t", shut)
		}
		return err
	})
	if r.alone {
		return
	}
	cluster := &v1alpha1.PostgresCluster{ObjectMeta: r.Meta(name)}
	r.Await(cluster, what, func() bool {
		condition := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ConditionSpace)
		return condition != nil && (condition.Reason == v1alpha1.ReasonDiskFull) == full
	})
}
