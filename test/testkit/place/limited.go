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

// limitedSize of a volume that can be filled without filling the machine's disk: it is memory.
const limitedSize = "512Mi"

// LimitVolumes gives a cluster volumes with a limit of 512 MiB, one on each of this many workers.
func (p *Place) LimitVolumes(cluster *v1alpha1.PostgresCluster, workers int) {
	p.Helper()
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: p.Namespace}, Provisioner: "kubernetes.io/no-provisioner",
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
	}
	p.Must(p.Create(p.Context(), class))
	p.Cleanup(func() { _ = p.Delete(context.Background(), class) })
	for i := range workers {
		p.limitedVolume(class.Name, fmt.Sprintf("w%d", i+1))
	}
	cluster.Spec.Storage = v1alpha1.StorageSpec{Size: resource.MustParse(limitedSize), StorageClassName: &class.Name}
}

func (p *Place) limitedVolume(class, node string) {
	p.Helper()
	folder := "/run/" + class
	p.Kube("exec", node, "mkdir", "-p", folder)
	p.Kube("exec", node, "mount", "-t", "tmpfs", "-o", "mode=0777,size="+strings.TrimSuffix(limitedSize, "i"), class, folder)
	p.Cleanup(func() { p.Kube("exec", node, "umount", "--lazy", folder) })
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
	p.Must(p.Create(p.Context(), volume))
	p.Cleanup(func() { _ = p.Delete(context.Background(), volume) })
}
