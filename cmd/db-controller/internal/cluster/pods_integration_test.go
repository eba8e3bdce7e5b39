//go:build integration

package cluster

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/workload"
	"howdah.dev/howdah/test/testkit/apiserver"
	"howdah.dev/howdah/test/testkit/subset"
)

// sidecars is spec.pods with some of everything.
func sidecars(c *v1alpha1.PostgresCluster) {
	c.Spec.Pods = v1alpha1.Pods{
		PodMetadata: v1alpha1.PodMetadata{
			Labels: map[string]v1alpha1.LabelValue{"team": "a"}, Annotations: map[string]string{"example.com/scrape": "true"},
			ServiceAccountAnnotations: map[string]string{"example.com/role": "backup"},
		},
		Env: []v1alpha1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://proxy:3128"}},
		Volumes: []v1alpha1.PodVolume{
			{Name: "login", Secret: &v1alpha1.SecretVolume{SecretName: "shop-app"}},
			{Name: "both", Projected: &v1alpha1.ProjectedVolume{Sources: []v1alpha1.ProjectedSource{{Secret: &v1alpha1.ConfigMapVolume{Name: "s"}}}}},
			{Name: "vault", CSI: &v1alpha1.CSIVolume{Driver: "secrets-store.csi.k8s.io"}},
			{Name: "large", Ephemeral: &v1alpha1.EphemeralVolume{Size: resource.MustParse("1Gi")}},
			{Name: "scratch", EmptyDir: &v1alpha1.EmptyDirVolume{}},
		},
		VolumeMounts: []v1alpha1.PodVolumeMount{{Name: "large", MountPath: "/mnt/large"}},
		Containers: []v1alpha1.PodContainer{{
			Name: "metrics", Image: "exporter:1", Ports: []v1alpha1.PodPort{{Name: "metrics", ContainerPort: 9188}},
			VolumeMounts: []v1alpha1.PodVolumeMount{{Name: "login", MountPath: "/mnt/login", ReadOnly: true}},
		}},
		InitContainers: []v1alpha1.PodContainer{{Name: "fetch", Image: "fetch:1", VolumeMounts: []v1alpha1.PodVolumeMount{{Name: "scratch", MountPath: "/mnt/scratch"}}}},
	}
}

// bound has the controller act with its own account.
func (l *lab) bound() {
	l.Helper()
	l.stop()
	l.agent.Image, l.account = "registry.local/howdah/agent:1", apiserver.As(l.T, "db-controller")
	l.startController()
}

func containersOf(pod *corev1.Pod) (names []string) {
	for _, c := range pod.Spec.Containers {
		names = append(names, c.Name)
	}
	return names
}

func TestSpecPodsReachesReplicasFirstAndGoesAgain(t *testing.T) {
	subset.OnlyInFull(t)
	l := newLab(t)
	l.bound()
	shop := l.shop(three)
	l.awaitReplicated(shop)
	l.kube.set(func(s *standIn) { s.made = nil })
	l.change(shop, func() { sidecars(shop) })
	l.awaitReplicated(shop)
	l.kube.set(func(s *standIn) {
		if !slices.Equal(s.made, []string{"shop-2", "shop-1", "shop-0"}) || len(s.switchovers) != 1 {
			t.Errorf("replaced in the order %v, switched over %+v", s.made, s.switchovers)
		}
	})
	pod, account := &corev1.Pod{}, &corev1.ServiceAccount{}
	for _, name := range []string{"shop-0", "shop-1", "shop-2"} {
		l.there(pod, name)
		if !slices.Equal(containersOf(pod), []string{"postgres", "metrics"}) || pod.Labels["team"] != "a" || pod.Annotations["example.com/scrape"] != "true" {
			t.Errorf("%s has %v, %v, %v", name, containersOf(pod), pod.Labels, pod.Annotations)
		}
	}
	if l.there(account, "shop-instance"); account.Annotations["example.com/role"] != "backup" {
		t.Errorf("the account has %v", account.Annotations)
	}

	l.kube.set(func(s *standIn) { s.made = nil })
	l.change(shop, func() { shop.Spec.Pods = v1alpha1.Pods{} })
	l.awaitReplicated(shop)
	l.kube.set(func(s *standIn) {
		if len(s.made) != 3 || s.made[2] != "shop-1" { // which is primary by now
			t.Errorf("replaced in the order %v", s.made)
		}
	})
	l.there(pod, "shop-0")
	if l.there(account, "shop-instance"); len(pod.Spec.Containers) != 1 || pod.Labels["team"] != "" || account.Annotations["example.com/role"] != "" {
		t.Errorf("something stays: %v, %v, %v", containersOf(pod), pod.Labels, account.Annotations)
	}
}

// TestImagesOfExtensionsReachReplicasFirstOnceNodesCanMountThem: until then the cluster says what is missing, and nothing is replaced.
func TestImagesOfExtensionsReachReplicasFirstOnceNodesCanMountThem(t *testing.T) {
	l := newLab(t)
	l.bound()
	shop := l.shop(func(c *v1alpha1.PostgresCluster) { three(c); c.Spec.Version = 18 })
	l.awaitReplicated(shop)
	l.kube.set(func(s *standIn) { s.made = nil })
	images := []v1alpha1.ExtensionImage{{Name: "pgvector", Image: "pgvector:1"}}
	l.change(shop, func() { shop.Spec.PostgreSQL.ExtensionImages = images })
	l.awaitCondition(shop, v1alpha1.ConditionUpToDate, metav1.ConditionFalse, v1alpha1.ReasonImageVolumesUnsupported)
	l.stop()
	l.kube.set(func(s *standIn) {
		if len(s.made) > 0 {
			t.Errorf("replaced: %v", s.made)
		}
	})
	l.agent.MountedInJobs = true
	l.startController()
	l.awaitReplicated(shop)
	l.kube.set(func(s *standIn) {
		if !slices.Equal(s.made, []string{"shop-2", "shop-1", "shop-0"}) || len(s.switchovers) != 1 {
			t.Errorf("replaced in the order %v, switched over %+v", s.made, s.switchovers)
		}
	})
	pod := &corev1.Pod{}
	for _, name := range []string{"shop-0", "shop-1", "shop-2"} {
		l.there(pod, name)
		if got := workload.ExtensionImages(&pod.Spec); !slices.Equal(got, images) {
			t.Errorf("%s mounts %v", name, got)
		}
	}
}

func TestAChangeOfSpecPodsWaitsForTheMaintenanceWindow(t *testing.T) {
	l := newLab(t)
	shop := l.shop(func(c *v1alpha1.PostgresCluster) {
		c.Spec.MaintenanceWindow = &v1alpha1.MaintenanceWindow{Schedule: "0 0 29 2 *", Duration: metav1.Duration{Duration: 600e9}}
	})
	l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRunning)
	l.kube.set(func(s *standIn) { s.made = nil })
	l.change(shop, func() { sidecars(shop) })
	l.eventually("it is said", func() bool {
		message := l.awaitCondition(shop, v1alpha1.ConditionUpToDate, metav1.ConditionFalse, v1alpha1.ReasonRestartPending)
		return strings.Contains(message, "what spec.pods says. It waits for the maintenance window")
	})
	l.kube.set(func(s *standIn) {
		if len(s.made) > 0 {
			t.Errorf("replaced: %v", s.made)
		}
	})
}

func TestTheInitJobHasTheLabelsOfTheClusterAndFollowsThem(t *testing.T) {
	subset.OnlyInFull(t)
	l := newLab(t)
	shop := l.initializing()
	job := &batchv1.Job{}
	l.eventually("the init Job", func() bool { return l.there(job, "shop-init") })
	before := job.UID
	l.change(shop, func() { sidecars(shop) })
	l.eventually("another init Job", func() bool {
		return l.there(job, "shop-init") && job.UID != before && job.Spec.Template.Labels["team"] == "a" && job.Spec.Template.Annotations["example.com/scrape"] == "true"
	})
	if containers := job.Spec.Template.Spec.Containers; len(containers) != 1 {
		t.Errorf("it has %d containers", len(containers))
	}
	l.endInit()
	l.awaitRunning(shop)
}

// TestNoContainerOfSpecPodsIsAWayOut tries what somebody could make of them who has the account of the db-controller.
func TestNoContainerOfSpecPodsIsAWayOut(t *testing.T) {
	l := newLab(t)
	l.bound()
	l.awaitRunning(l.shop(sidecars))
	set := &appsv1.StatefulSet{}
	l.there(set, "shop")
	as := client.NewDryRunClient(apiserver.ClientAs(t, "db-controller"))
	try := func(change func(*appsv1.StatefulSet)) error {
		other := set.DeepCopy()
		other.ObjectMeta = metav1.ObjectMeta{Namespace: set.Namespace, Name: "shop2", Labels: set.Labels}
		other.Spec.Template.Spec.ServiceAccountName, other.Spec.Template.Spec.DeprecatedServiceAccount = "shop2-instance", ""
		change(other)
		return as.Create(t.Context(), other)
	}
	if err := try(func(*appsv1.StatefulSet) {}); err != nil {
		t.Fatalf("what it creates itself is refused: %v", err)
	}
	for what, change := range waysOut() {
		if err := try(change); !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func waysOut() map[string]func(*appsv1.StatefulSet) {
	pod := func(change func(*corev1.PodSpec)) func(*appsv1.StatefulSet) {
		return func(s *appsv1.StatefulSet) { change(&s.Spec.Template.Spec) }
	}
	sidecar := func(change func(*corev1.Container)) func(*appsv1.StatefulSet) {
		return pod(func(p *corev1.PodSpec) { change(&p.Containers[1]) })
	}
	volume := func(name string, source corev1.VolumeSource) func(*appsv1.StatefulSet) {
		return pod(func(p *corev1.PodSpec) {
			p.Volumes = append(p.Volumes, corev1.Volume{Name: name, VolumeSource: source})
		})
	}
	mount := func(name, path string) func(*appsv1.StatefulSet) {
		return sidecar(func(c *corev1.Container) {
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: path})
		})
	}
	return map[string]func(*appsv1.StatefulSet){
		"the Secrets of the instances": mount("instance", "/mnt/instance"),
		"the data":                     mount("data", "/mnt/data"),
		"the token": sidecar(func(c *corev1.Container) {
			c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "no-token" })
		}),
		"the Secrets, under another name": volume("extra-x", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "shop2-ca"}}),
		"the Secrets, projected": volume("extra-x", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "shop2-instance"}}},
		}}}),
		"a token, projected": volume("extra-x", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
		}}}),
		"the data, under another name":       volume("extra-x", corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-shop-0"}}),
		"a host path":                        volume("extra-x", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}),
		"a volume that is none of spec.pods": volume("x", corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "d"}}),
		"a Secret as a variable": sidecar(func(c *corev1.Container) {
			c.Env = []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: "shop2-superuser"}, Key: "password",
			}}}}
		}),
		"more rights":        sidecar(func(c *corev1.Container) { c.SecurityContext.Privileged = ptr.To(true) }),
		"a port of the node": sidecar(func(c *corev1.Container) { c.Ports[0].HostPort = 9187 }),
		"the processes":      pod(func(p *corev1.PodSpec) { p.ShareProcessNamespace = ptr.To(true) }),
		"no AppArmor": func(s *appsv1.StatefulSet) {
			s.Spec.Template.Annotations["container.apparmor.security.beta.kubernetes.io/postgres"] = "unconfined"
		},
		"PostgreSQL without the agent": pod(func(p *corev1.PodSpec) { p.Containers[0].Command = []string{"/bin/sh"} }),
	}
}
