package workload

import (
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
)

// extensionPrefix of the names of volumes with the images of extensions.
const extensionPrefix = "extension-"

// BringExtensions mounts the images of extensions into the first container of a pod.
func BringExtensions(pod *corev1.PodSpec, spec *v1alpha1.PostgresClusterSpec) {
	for _, extension := range spec.PostgreSQL.ExtensionImages {
		name := extensionPrefix + extension.Name
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: name, VolumeSource: image(extension.Image)})
		pod.Containers[0].VolumeMounts = append(pod.Containers[0].VolumeMounts, corev1.VolumeMount{
			Name: name, MountPath: filepath.Join(agentapi.ExtensionsDir, extension.Name), ReadOnly: true,
		})
	}
}

// ExtensionImages are the images of extensions that a pod mounts, as spec would have them.
func ExtensionImages(pod *corev1.PodSpec) (images []v1alpha1.ExtensionImage) {
	for _, mount := range pod.Containers[0].VolumeMounts {
		if filepath.Dir(mount.MountPath) != agentapi.ExtensionsDir {
			continue
		}
		at := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
		if at >= 0 && pod.Volumes[at].Image != nil {
			images = append(images, v1alpha1.ExtensionImage{Name: filepath.Base(mount.MountPath), Image: pod.Volumes[at].Image.Reference})
		}
	}
	return images
}
