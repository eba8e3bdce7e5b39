package pooler

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/workload"
)

// endSeconds is what a pod needs to end beside the time to drain: until no client is led to it any more, for the transactions that are open,
// and to spare.
const endSeconds = 30

// container is the name of PgBouncer's.
const container = "pgbouncer"

// annotationStart has the value of the parameter that decides what clients find in their sessions, and that PgBouncer reads only when it starts: a change
// of it replaces the pods.
const annotationStart, startParameter = "howdah.dev/track-extra-parameters", "track_extra_parameters"

// deployment of the pods. One is added before another one ends.
func (r *Reconciler) deployment(o *observed) client.Object {
	p := o.pooler
	template := metav1.ObjectMeta{Labels: labels(p), Annotations: map[string]string{"kubectl.kubernetes.io/default-container": container}}
	if value, set := p.Spec.PgBouncer.Parameters[startParameter]; set {
		template.Annotations[annotationStart] = string(value)
	}
	workload.Adorn(&template, p.Spec.Pods.Labels, p.Spec.Pods.Annotations)
	return &appsv1.Deployment{
		ObjectMeta: objectMeta(p),
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(p.Spec.Instances), Selector: &metav1.LabelSelector{MatchLabels: selector(p)}, RevisionHistoryLimit: ptr.To[int32](2),
			Strategy: appsv1.DeploymentStrategy{
				Type:          appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: ptr.To(intstr.FromInt32(0)), MaxSurge: ptr.To(intstr.FromInt32(1))},
			},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: template,
				Spec:       r.pod(o),
			},
		},
	}
}

func (r *Reconciler) pod(o *observed) corev1.PodSpec {
	p := o.pooler
	volumes, mounts := workload.ScratchVolumes()
	name := protocol.PoolerName(p.Name)
	volumes = append(volumes,
		corev1.Volume{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}},
		corev1.Volume{Name: "tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: protocol.PoolerSecret(p.Spec.Cluster.Name), DefaultMode: ptr.To[int32](0o440),
		}}},
	)
	mounts = append(mounts,
		corev1.VolumeMount{Name: "config", MountPath: "/etc/howdah/pooler", ReadOnly: true},
		corev1.VolumeMount{Name: "tls", MountPath: agentapi.PoolerTLSDir, ReadOnly: true},
	)
	pod := corev1.PodSpec{
		ServiceAccountName: name, AutomountServiceAccountToken: ptr.To(true), SecurityContext: workload.PodSecurity(),
		TerminationGracePeriodSeconds: ptr.To(drainSeconds(p) + endSeconds), Volumes: volumes,
		EnableServiceLinks: ptr.To(false), TopologySpreadConstraints: spread(p),
		Containers: []corev1.Container{{
			Name: container, Image: o.image, Command: []string{agentapi.AgentPath, "pooler"}, Env: workload.PodIdentity(), VolumeMounts: mounts,
			Resources:       corev1.ResourceRequirements{Requests: p.Spec.Resources.Requests, Limits: p.Spec.Resources.Limits},
			SecurityContext: workload.ContainerSecurity(),
			Ports: []corev1.ContainerPort{
				{Name: "postgres", ContainerPort: agentapi.PoolerPort, Protocol: corev1.ProtocolTCP},
				{Name: "metrics", ContainerPort: agentapi.MetricsPort, Protocol: corev1.ProtocolTCP},
			},
			LivenessProbe:  probe(agentapi.RouteLive, 20),
			ReadinessProbe: probe(agentapi.RouteReady, 2),
		}},
	}
	workload.Fit(&pod, &v1alpha1.PostgresClusterSpec{
		Scheduling: p.Spec.Scheduling, ImagePullSecrets: p.Spec.ImagePullSecrets, RunAs: runAs(o.cluster), Pods: v1alpha1.Pods{PodMetadata: p.Spec.Pods},
	})
	r.Agent.Bring(&pod)
	return pod
}

// runAs has the pods run as their namespace decides, where those of the cluster do. Another user is that of PostgreSQL's image, not of PgBouncer's.
func runAs(cluster *v1alpha1.PostgresCluster) *v1alpha1.RunAs {
	if user := cluster.Spec.RunAs; user != nil && user.FromNamespace {
		return user
	}
	return nil
}

func probe(path string, period int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(agentapi.AgentPort), Scheme: corev1.URISchemeHTTPS}},
		PeriodSeconds: period, TimeoutSeconds: 5, FailureThreshold: 3,
	}
}

// spread keeps the pods apart: by zone where that is possible, by node as strictly as is asked, and as spec says itself.
func spread(p *v1alpha1.Pooler) []corev1.TopologySpreadConstraint {
	pods := &metav1.LabelSelector{MatchLabels: selector(p)}
	byNode := corev1.ScheduleAnyway
	if p.Spec.Scheduling.Spread == v1alpha1.SpreadRequired {
		byNode = corev1.DoNotSchedule
	}
	asked := p.Spec.Scheduling.TopologySpreadConstraints
	var all []corev1.TopologySpreadConstraint
	for _, c := range []struct {
		key       string
		otherwise corev1.UnsatisfiableConstraintAction
	}{{corev1.LabelTopologyZone, corev1.ScheduleAnyway}, {corev1.LabelHostname, byNode}} {
		if !slices.ContainsFunc(asked, func(a corev1.TopologySpreadConstraint) bool { return a.TopologyKey == c.key }) {
			all = append(all, corev1.TopologySpreadConstraint{
				MaxSkew: 1, TopologyKey: c.key, WhenUnsatisfiable: c.otherwise, LabelSelector: pods, MatchLabelKeys: []string{appsv1.DefaultDeploymentUniqueLabelKey},
			})
		}
	}
	for _, constraint := range asked {
		if constraint.LabelSelector == nil {
			constraint.LabelSelector = pods
		}
		all = append(all, constraint)
	}
	return all
}
