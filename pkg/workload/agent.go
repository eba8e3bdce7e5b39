package workload

import (
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"howdah.dev/howdah/pkg/agentapi"
)

// Agent says which agent pods get, and how.
type Agent struct {
	Image string
	// Mounted: pods mount the image as a volume. Otherwise an init container copies the agent out of it, which any Kubernetes
	// can, and which is one container more to start in each pod.
	Mounted bool
	// MountedInJobs: Jobs mount it whatever Mounted says. For as long as such a pod runs kubelet writes events, and a Job ends.
	MountedInJobs bool
}

const (
	// installer is the init container that copies the agent into the RunVolume.
	installer = "install-agent"
	// agentVolume is the image of the agent.
	agentVolume = "agent"
	// runVolume is the emptyDir at agentapi.RunDir.
	runVolume = "run"
	// inImage is where the image has the agent.
	inImage = "/agent"
)

// Bring puts the agent into the first container of a pod. It is at agentapi.AgentPath either way, since that is written into
// what outlives the pod, such as the configuration of PostgreSQL.
//
// A user that the image doesn't know gets an entry in /etc/passwd: initdb and pg_upgrade look up their own name, and so does psql. Who
// the user is may be known only in the pod, so the copying container writes the file, and is there whatever Mounted says.
func (a Agent) Bring(pod *corev1.PodSpec) {
	if !isStock(pod) {
		install := a.install(pod)
		install.Command = append(install.Command, "--passwd="+agentapi.PasswdFile)
		pod.InitContainers = append(pod.InitContainers, install)
		pod.Containers[0].VolumeMounts = append(pod.Containers[0].VolumeMounts, corev1.VolumeMount{
			Name: runVolume, MountPath: "/etc/passwd", SubPath: filepath.Base(agentapi.PasswdFile), ReadOnly: true,
		})
		return
	}
	if !a.Mounted {
		pod.InitContainers = append(pod.InitContainers, a.install(pod))
		return
	}
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: agentVolume, VolumeSource: image(a.Image)})
	pod.Containers[0].VolumeMounts = append(pod.Containers[0].VolumeMounts, corev1.VolumeMount{
		Name: agentVolume, MountPath: agentapi.BinDir, ReadOnly: true,
	})
}

// The most that the copying container gets. A request is less than its limit: how Kubernetes ranks the pod doesn't depend on it, so
// that the resources of PostgreSQL can be changed in a running pod.
var (
	installRequests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi")}
	installLimits   = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("128Mi")}
)

// besides are resources of which a container beside has some, and no more than it has: a quota wants them of every container or of none,
// and the pod needs no more for it.
func besides(has, most corev1.ResourceList) corev1.ResourceList {
	var all corev1.ResourceList
	for name, quantity := range most {
		beside, is := has[name]
		if !is {
			continue
		}
		if beside.Cmp(quantity) < 0 {
			quantity = beside
		}
		if all == nil {
			all = corev1.ResourceList{}
		}
		all[name] = quantity
	}
	return all
}

func (a Agent) install(pod *corev1.PodSpec) corev1.Container {
	beside := pod.Containers[0].Resources
	return corev1.Container{
		Name: installer, Image: a.Image,
		Command:         []string{inImage, "install", agentapi.BinDir},
		SecurityContext: ContainerSecurity(),
		Resources:       corev1.ResourceRequirements{Requests: besides(beside.Requests, installRequests), Limits: besides(beside.Limits, installLimits)},
		VolumeMounts:    []corev1.VolumeMount{{Name: runVolume, MountPath: agentapi.RunDir}},
	}
}

// AgentImage is that of the agent in a pod, however it came there; empty: it has none.
func AgentImage(pod *corev1.Pod) string {
	for _, c := range pod.Spec.InitContainers {
		if c.Name == installer {
			return c.Image
		}
	}
	for _, v := range pod.Spec.Volumes {
		if v.Name == agentVolume && v.Image != nil {
			return v.Image.Reference
		}
	}
	return ""
}

func image(reference string) corev1.VolumeSource {
	return corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: reference, PullPolicy: corev1.PullIfNotPresent}}
}
