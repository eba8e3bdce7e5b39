package workload

import (
	corev1 "k8s.io/api/core/v1"

	"howdah.dev/howdah/pkg/agentapi"
)

const (
	// oldImageVolume is at agentapi.OldImageDir.
	oldImageVolume = "old-image"
	// oldImageCopier is the init container that fills it where Jobs mount no images.
	oldImageCopier = "copy-old-image"
)

// mountsImages says whether the pod may have image volumes. Kubernetes has them from 1.35 on, if the container runtime does.
func (j Job) mountsImages() bool { return j.Agent.Mounted || j.Agent.MountedInJobs }

func (j Job) oldImage() corev1.VolumeSource {
	if j.mountsImages() {
		return image(j.OldImage)
	}
	return corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
}

// copyOldImage runs after the installer, which has brought the agent into the run volume.
func (j Job) copyOldImage() corev1.Container {
	return corev1.Container{
		Name: oldImageCopier, Image: j.OldImage, Command: []string{agentapi.AgentPath, "upgrade", "copy-image"},
		SecurityContext: ContainerSecurity(), Resources: j.Resources,
		VolumeMounts: []corev1.VolumeMount{
			{Name: runVolume, MountPath: agentapi.RunDir, ReadOnly: true},
			{Name: oldImageVolume, MountPath: agentapi.OldImageDir},
		},
	}
}
