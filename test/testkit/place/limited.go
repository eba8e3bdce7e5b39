package place

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
)

// ownSize is that of a volume which is a file system of its own.
const ownSize = "512Mi"

// LimitVolumes gives a cluster volumes with a limit of 512 MiB, one on each of this many workers. They can be filled without filling
// the machine's disk: they are memory.
func (p *Place) LimitVolumes(cluster *v1alpha1.PostgresCluster, workers int) {
	p.Helper()
	p.ownVolumes(cluster, workers, func(node, folder string) { p.mountLimited(node, folder, ownSize) })
}

func (p *Place) mountLimited(node, folder, size string) {
	p.Helper()
	p.Kube("exec", node, "mount", "-t", "tmpfs", "-o", "mode=0777,size="+strings.TrimSuffix(size, "i"), "limited", folder)
}

// LimitedClass is a StorageClass with a volume of that size on each of this many workers, to which the instances of a cluster that has
// LimitVolumes can move.
func (p *Place) LimitedClass(size string, workers int) string {
	p.Helper()
	name := p.Namespace + "-other"
	p.ownClass(name, "/run/"+name, size, workers, func(node, folder string) { p.mountLimited(node, folder, size) })
	return name
}

// StallVolumes gives a cluster volumes that StallVolume can make hang, one on each of this many workers: each is an ext4 file system in
// a file, on a loop device.
func (p *Place) StallVolumes(cluster *v1alpha1.PostgresCluster, workers int) {
	p.Helper()
	p.ownVolumes(cluster, workers, func(node, folder string) {
		const script = `truncate -s "$1" "$0.img" && mkfs.ext4 -q "$0.img" && mount -o loop "$0.img" "$0" && rm "$0.img" && rmdir "$0/lost+found" && chmod 0777 "$0"`
		p.Kube("exec", node, "sh", "-c", script, folder, strings.TrimSuffix(ownSize, "i"))
	})
}

// StallVolume has every write to the volume of a cluster on a node hang in the kernel, until heal is called.
func (p *Place) StallVolume(node string) (heal func()) {
	p.Helper()
	p.Kube("exec", node, "fsfreeze", "--freeze", p.ownFolder())
	return func() { p.Kube("exec", node, "fsfreeze", "--unfreeze", p.ownFolder()) }
}

// ownFolder is where a file system of a volume is mounted on each node.
func (p *Place) ownFolder() string { return "/run/" + p.Namespace }

// ownVolumes gives a cluster volumes that are file systems of their own, as mount mounts them.
func (p *Place) ownVolumes(cluster *v1alpha1.PostgresCluster, workers int, mount func(node, folder string)) {
	p.Helper()
	p.ownClass(p.Namespace, p.ownFolder(), ownSize, workers, mount)
	cluster.Spec.Storage = v1alpha1.StorageSpec{Size: resource.MustParse(ownSize), StorageClassName: ptr.To(p.Namespace)}
}

// ownClass is a StorageClass with such volumes.
func (p *Place) ownClass(name, folder, size string, workers int, mount func(node, folder string)) {
	p.Helper()
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "kubernetes.io/no-provisioner",
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
	}
	p.Must(p.Create(p.Context(), class))
	p.Cleanup(func() { _ = p.Delete(context.Background(), class) })
	for i := range workers {
		node := fmt.Sprintf("w%d", i+1)
		p.Kube("exec", node, "mkdir", "-p", folder)
		mount(node, folder)
		p.Cleanup(func() { p.Kube("exec", node, "umount", "--lazy", folder) })
		p.ownVolume(name, node, folder, size)
	}
}

func (p *Place) ownVolume(class, node, folder, size string) {
	p.Helper()
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: class + "-" + node},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)},
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: folder}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
			}}}},
		},
	}
	p.Must(p.Create(p.Context(), volume))
	p.Cleanup(func() { _ = p.Delete(context.Background(), volume) })
}
