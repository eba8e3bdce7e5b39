package statefulset

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component"
	"howdah.dev/howdah/cmd/db-controller/internal/component/secret"
	"howdah.dev/howdah/cmd/db-controller/internal/component/volume"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/workload"
)

// AnnotationDataGeneration on a database pod is the data generation that it was started on.
const AnnotationDataGeneration = agentapi.AnnotationDataGeneration

// AnnotationPasswords on a database pod is the revision of the passwords that it is to have.
const AnnotationPasswords = "howdah.dev/roles-revision"

// ContainerName of PostgreSQL with the agent.
const ContainerName = "postgres"

// gracePeriod is how long a pod may take to end.
func gracePeriod(cluster *v1alpha1.PostgresCluster) int64 {
	return cmp.Or(cluster.Spec.StopTimeoutSeconds, agentapi.StopTimeoutSeconds)
}

// command tells the agent the grace period where it isn't the one that it goes by.
func command(cluster *v1alpha1.PostgresCluster) []string {
	words := []string{agentapi.AgentPath, "run"}
	if period := gracePeriod(cluster); period != agentapi.StopTimeoutSeconds {
		words = append(words, fmt.Sprintf("--grace-period=%ds", period))
	}
	return words
}

func template(cluster *v1alpha1.PostgresCluster, in Inputs) corev1.PodTemplateSpec {
	volumes, mounts := volumesOf(cluster, in)
	scheduling := cluster.Spec.Scheduling
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			// Who is primary is not said here: the agents label their pods.
			Labels: component.Labels(cluster, workload.ComponentInstance),
			Annotations: map[string]string{
				v1alpha1.AnnotationConfigHash:   in.ConfigHash,
				AnnotationPasswords:             in.PasswordRevision,
				v1alpha1.AnnotationTemplateHash: Hash(cluster, in),
				AnnotationDataGeneration:        cluster.Status.DataGeneration,
				annotationScheduling:            schedulingHash(scheduling),
				// `kubectl exec` and `kubectl logs` need no -c.
				"kubectl.kubernetes.io/default-container": ContainerName,
			},
		},
		Spec: corev1.PodSpec{
			ServiceAccountName:            component.NamesOf(cluster).Identity(),
			EnableServiceLinks:            ptr.To(false),
			TerminationGracePeriodSeconds: ptr.To(gracePeriod(cluster)),
			SecurityContext:               workload.PodSecurity(),
			Containers:                    []corev1.Container{container(cluster, mounts)},
			Volumes:                       volumes,
			TopologySpreadConstraints:     spread(cluster),
		},
	}
	workload.Fit(&template.Spec, &cluster.Spec)
	in.Agent.Bring(&template.Spec)
	if len(extensionsOf(cluster)) > 0 {
		workload.BringExtensions(&template.Spec, &cluster.Spec)
	}
	extend(&template, cluster)
	return template
}

func container(cluster *v1alpha1.PostgresCluster, mounts []corev1.VolumeMount) corev1.Container {
	return corev1.Container{
		Name: ContainerName, Image: cluster.Status.Image,
		Command: command(cluster),
		Env:     workload.PodIdentity(),
		Ports: []corev1.ContainerPort{
			{Name: "postgres", ContainerPort: agentapi.PostgresPort, Protocol: corev1.ProtocolTCP},
			{Name: "agent", ContainerPort: agentapi.AgentPort, Protocol: corev1.ProtocolTCP},
		},
		Resources: corev1.ResourceRequirements{Requests: Requests(cluster), Limits: cluster.Spec.Resources.Limits},
		ResizePolicy: []corev1.ContainerResizePolicy{
			{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.NotRequired},
			{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.NotRequired},
		},
		SecurityContext: workload.ContainerSecurity(),
		VolumeMounts:    mounts,
		// There is no startup probe, which would be one more change of the pod's status: the agent answers from its first
		// moment, and lives however long PostgreSQL recovers.
		ReadinessProbe: probe(agentapi.RouteReady, 2, 2),
		LivenessProbe:  probe(agentapi.RouteLive, 10, 6),
	}
}

func probe(path string, period, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Path: path, Port: intstr.FromInt32(agentapi.AgentPort), Scheme: corev1.URISchemeHTTPS,
		}},
		PeriodSeconds: period, TimeoutSeconds: 5, FailureThreshold: failures, SuccessThreshold: 1,
	}
}

func volumesOf(cluster *v1alpha1.PostgresCluster, in Inputs) ([]corev1.Volume, []corev1.VolumeMount) {
	names := component.NamesOf(cluster)
	volumes, mounts := workload.ScratchVolumes()
	add := func(name, path string, source corev1.VolumeSource) {
		volumes = append(volumes, corev1.Volume{Name: name, VolumeSource: source})
		mounts = append(mounts, corev1.VolumeMount{Name: name, MountPath: path, ReadOnly: true})
	}
	mounts = append(mounts, corev1.VolumeMount{Name: volume.TemplateName, MountPath: agentapi.VolumeDir})
	if cluster.Spec.Storage.WAL != nil {
		mounts = append(mounts, corev1.VolumeMount{Name: volume.WALTemplateName, MountPath: agentapi.WALVolumeDir})
	}
	add("config", filepath.Dir(agentapi.ConfigFile), corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: names.Config()}, DefaultMode: ptr.To[int32](0o444),
	}})
	add("podinfo", agentapi.PodInfoDir, podInfo())
	add(instanceVolume, agentapi.InstanceDir, instanceSource(names.InstanceSecret()))
	if cluster.Spec.SuperuserAccess {
		add(superuserVolume, agentapi.SuperuserDir, secretSource(names.Superuser()))
	}
	if in.S3Secret != "" {
		add(s3Volume, agentapi.S3Dir, secretSource(in.S3Secret))
	}
	if in.KeysSecret != "" {
		add(keysVolume, agentapi.KeysDir, secretSource(in.KeysSecret))
	}
	return volumes, mounts
}

// instanceVolume has the certificates of the server and of replication, and the passwords of the application and of declared
// roles.
const instanceVolume = "instance"

// superuserVolume has the password of the superuser, where it may connect with one.
const superuserVolume = "superuser"

// s3Volume has the credentials of the repository, keysVolume its keys.
const (
	s3Volume   = "s3"
	keysVolume = "keys"
)

// S3Secret is the Secret with credentials that a StatefulSet mounts; empty: none.
func S3Secret(set *appsv1.StatefulSet) string { return mountedSecret(set, s3Volume) }

// KeysSecret is the Secret with keys that a StatefulSet mounts; empty: none.
func KeysSecret(set *appsv1.StatefulSet) string { return mountedSecret(set, keysVolume) }

func mountedSecret(set *appsv1.StatefulSet, volume string) string {
	if set == nil {
		return ""
	}
	return secretOf(set.Spec.Template.Spec.Volumes, volume)
}

func secretOf(volumes []corev1.Volume, volume string) string {
	for _, v := range volumes {
		if v.Name == volume && v.Secret != nil {
			return v.Secret.SecretName
		}
	}
	return ""
}

// secretSource is read by the pod's group, which the agent runs in; PostgreSQL takes no key that others can read.
func secretSource(name string) corev1.VolumeSource {
	return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name, DefaultMode: ptr.To[int32](0o440)}}
}

// instanceSource lays the Secret of database pods out as the agent looks for it.
func instanceSource(name string) corev1.VolumeSource {
	source := secretSource(name)
	source.Secret.Items = []corev1.KeyToPath{
		{Key: secret.KeyServerCertificate, Path: within(agentapi.TLSDir, secret.KeyCertificate)},
		{Key: secret.KeyServerPrivate, Path: within(agentapi.TLSDir, secret.KeyPrivate)},
		{Key: secret.KeyAuthority, Path: within(agentapi.TLSDir, secret.KeyAuthority)},
		{Key: secret.KeyReplicationCertificate, Path: within(agentapi.PeerTLSDir, secret.KeyCertificate)},
		{Key: secret.KeyReplicationPrivate, Path: within(agentapi.PeerTLSDir, secret.KeyPrivate)},
		{Key: secret.KeyAuthority, Path: within(agentapi.PeerTLSDir, secret.KeyAuthority)},
		{Key: secret.KeyRoles, Path: within(agentapi.RolesFile)},
		{Key: secret.KeyAppPassword, Path: within(agentapi.AppDir, secret.KeyPassword)},
	}
	return source
}

// within is a path as seen from InstanceDir.
func within(path ...string) string {
	return strings.TrimPrefix(filepath.Join(path...), agentapi.InstanceDir+"/")
}

func podInfo() corev1.VolumeSource {
	return corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
		DefaultMode: ptr.To[int32](0o444),
		Items: []corev1.DownwardAPIVolumeFile{{
			Path: "annotations", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.annotations"},
		}},
	}}
}
