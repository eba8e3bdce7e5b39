package statefulset

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/workload"
)

const (
	// annotationPods on a database pod is the hash of spec.pods that it was created with; one without had none.
	annotationPods = "howdah.dev/pods"
	// extraPrefix of the names of volumes of spec.pods. A container of spec.pods mounts no others, which the admission policies
	// hold, too.
	extraPrefix = "extra-"
	// noTokenVolume is empty. It is mounted where Kubernetes would otherwise put the token of the instances into a container.
	noTokenVolume = "no-token"
	tokenDir      = "/var/run/secrets/kubernetes.io/serviceaccount"
)

// podsHash of spec.pods; empty: there is nothing in it. How it is marshalled must never change, as with userInputs.
func podsHash(cluster *v1alpha1.PostgresCluster) string {
	if reflect.ValueOf(cluster.Spec.Pods).IsZero() {
		return ""
	}
	return hashOf(cluster.Spec.Pods)
}

// extend adds to the pods of instances what spec.pods has.
func extend(template *corev1.PodTemplateSpec, cluster *v1alpha1.PostgresCluster) {
	pods, spec := cluster.Spec.Pods, &template.Spec
	workload.Adorn(&template.ObjectMeta, pods.Labels, pods.Annotations)
	if hash := podsHash(cluster); hash != "" {
		metav1.SetMetaDataAnnotation(&template.ObjectMeta, annotationPods, hash)
	}
	for _, v := range pods.Volumes {
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: extraPrefix + v.Name, VolumeSource: sourceOf(v)})
	}
	postgres := &spec.Containers[0]
	postgres.Env = append(postgres.Env, workload.Environment(pods.Env)...)
	postgres.VolumeMounts = append(postgres.VolumeMounts, mountsOf(pods.VolumeMounts)...)
	if len(pods.Containers)+len(pods.InitContainers) == 0 {
		return
	}
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: noTokenVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	for _, c := range pods.Containers {
		spec.Containers = append(spec.Containers, containerOf(c))
	}
	for _, c := range pods.InitContainers {
		spec.InitContainers = append(spec.InitContainers, containerOf(c))
	}
}

// containerOf spec.pods has what spec says, and of the pod nothing else.
func containerOf(c v1alpha1.PodContainer) corev1.Container {
	container := corev1.Container{
		Name: c.Name, Image: c.Image, Command: c.Command, Args: c.Args, Env: workload.Environment(c.Env),
		Resources:       corev1.ResourceRequirements{Requests: c.Resources.Requests, Limits: c.Resources.Limits},
		SecurityContext: workload.ContainerSecurity(),
		VolumeMounts:    append(mountsOf(c.VolumeMounts), corev1.VolumeMount{Name: noTokenVolume, MountPath: tokenDir, ReadOnly: true}),
	}
	for _, p := range c.Ports {
		container.Ports = append(container.Ports, corev1.ContainerPort{Name: p.Name, ContainerPort: p.ContainerPort, Protocol: corev1.ProtocolTCP})
	}
	return container
}

func mountsOf(mounts []v1alpha1.PodVolumeMount) (all []corev1.VolumeMount) {
	for _, m := range mounts {
		all = append(all, corev1.VolumeMount{Name: extraPrefix + m.Name, MountPath: m.MountPath, ReadOnly: m.ReadOnly, SubPath: m.SubPath})
	}
	return all
}

func named(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }

// sourceOf a volume of spec.pods. Files of Secrets can be read by the group of the pod alone.
func sourceOf(v v1alpha1.PodVolume) (source corev1.VolumeSource) {
	switch {
	case v.Secret != nil:
		source.Secret = &corev1.SecretVolumeSource{
			SecretName: v.Secret.SecretName, Items: itemsOf(v.Secret.Items), Optional: workload.Optional(v.Secret.Optional), DefaultMode: ptr.To[int32](0o440),
		}
	case v.ConfigMap != nil:
		source.ConfigMap = &corev1.ConfigMapVolumeSource{
			LocalObjectReference: named(v.ConfigMap.Name), Items: itemsOf(v.ConfigMap.Items), Optional: workload.Optional(v.ConfigMap.Optional),
		}
	case v.Projected != nil:
		source.Projected = &corev1.ProjectedVolumeSource{Sources: projections(v.Projected.Sources), DefaultMode: ptr.To[int32](0o440)}
	case v.EmptyDir != nil:
		source.EmptyDir = &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMedium(v.EmptyDir.Medium), SizeLimit: v.EmptyDir.SizeLimit}
	case v.CSI != nil:
		source.CSI = &corev1.CSIVolumeSource{Driver: v.CSI.Driver, ReadOnly: workload.Optional(v.CSI.ReadOnly), VolumeAttributes: v.CSI.VolumeAttributes}
	case v.Ephemeral != nil:
		source.Ephemeral = ephemeral(*v.Ephemeral)
	}
	return source
}

func itemsOf(items []v1alpha1.KeyPath) (all []corev1.KeyToPath) {
	for _, i := range items {
		all = append(all, corev1.KeyToPath{Key: i.Key, Path: i.Path})
	}
	return all
}

func projections(sources []v1alpha1.ProjectedSource) (all []corev1.VolumeProjection) {
	for _, s := range sources {
		projection := corev1.VolumeProjection{}
		if from := s.Secret; from != nil {
			projection.Secret = &corev1.SecretProjection{LocalObjectReference: named(from.Name), Items: itemsOf(from.Items), Optional: workload.Optional(from.Optional)}
		}
		if from := s.ConfigMap; from != nil {
			projection.ConfigMap = &corev1.ConfigMapProjection{LocalObjectReference: named(from.Name), Items: itemsOf(from.Items), Optional: workload.Optional(from.Optional)}
		}
		all = append(all, projection)
	}
	return all
}

func ephemeral(v v1alpha1.EphemeralVolume) *corev1.EphemeralVolumeSource {
	return &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: v.StorageClassName,
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: v.Size}},
	}}}
}
