// Package workload builds what every pod of Howdah has in common, and the Jobs that do long work: restricted security,
// the agent, mounted or copied in, an identity that may patch the progress of one object, job.json in a
// ConfigMap, and the reading of what came of it.
package workload

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
)

// PostgresUID is the user, group and fsGroup of every pod that touches a data volume, as in PostgreSQL's official images, unless
// spec.runAs says otherwise.
const PostgresUID = 999

// PodSecurity is the restricted profile for a pod that touches a data volume.
func PodSecurity() *corev1.PodSecurityContext {
	policy := corev1.FSGroupChangeOnRootMismatch
	return &corev1.PodSecurityContext{
		RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](PostgresUID), RunAsGroup: ptr.To[int64](PostgresUID),
		FSGroup: ptr.To[int64](PostgresUID), FSGroupChangePolicy: &policy,
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

// runAs has a pod run as the user that the spec of its cluster wants.
func runAs(pod *corev1.PodSpec, user *v1alpha1.RunAs) {
	if user == nil {
		return
	}
	if pod.SecurityContext == nil {
		pod.SecurityContext = PodSecurity()
	}
	s := pod.SecurityContext
	s.RunAsUser, s.RunAsGroup, s.FSGroup = user.UserID, user.UserID, user.UserID
}

// isStock says whether a pod runs as the user that PostgreSQL's official images know.
func isStock(pod *corev1.PodSpec) bool {
	return pod.SecurityContext != nil && ptr.Deref(pod.SecurityContext.RunAsUser, 0) == PostgresUID
}

// ContainerSecurity is the restricted profile for a container.
func ContainerSecurity() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true), RunAsNonRoot: ptr.To(true),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// ScratchVolumes are the emptyDirs that a pod with a read-only root needs: the agent's, PostgreSQL's sockets, /tmp, and
// /dev/shm in memory, where the runtime's 64 MiB are too few for parallel queries.
func ScratchVolumes() ([]corev1.Volume, []corev1.VolumeMount) {
	empty := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	return []corev1.Volume{
			{Name: runVolume, VolumeSource: empty},
			{Name: "sockets", VolumeSource: empty},
			{Name: "tmp", VolumeSource: empty},
			{Name: "shm", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}},
		}, []corev1.VolumeMount{
			{Name: runVolume, MountPath: agentapi.RunDir},
			{Name: "sockets", MountPath: agentapi.SocketDir},
			{Name: "tmp", MountPath: "/tmp"},
			{Name: "shm", MountPath: "/dev/shm"},
		}
}

// PodIdentity are the environment variables by which an agent knows its pod.
func PodIdentity() []corev1.EnvVar {
	field := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
	}
	return []corev1.EnvVar{
		field("POD_NAME", "metadata.name"), field("POD_NAMESPACE", "metadata.namespace"),
		field("POD_UID", "metadata.uid"), field("POD_IP", "status.podIP"), field("NODE_NAME", "spec.nodeName"),
	}
}
