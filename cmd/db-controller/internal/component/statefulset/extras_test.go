package statefulset

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/workload"
)

// everything that spec.pods may have.
func everything() v1alpha1.Pods {
	size := resource.MustParse("1Gi")
	return v1alpha1.Pods{
		PodMetadata: v1alpha1.PodMetadata{
			Labels: map[string]v1alpha1.LabelValue{"team": "a"}, Annotations: map[string]string{"example.com/scrape": "true"},
			ServiceAccountAnnotations: map[string]string{"example.com/role": "backup"}, RuntimeClassName: "gvisor",
		},
		Env: []v1alpha1.EnvVar{
			{Name: "HTTPS_PROXY", Value: "http://proxy:3128"},
			{Name: "LICENSE", ValueFrom: &v1alpha1.EnvSource{SecretKeyRef: &v1alpha1.KeyReference{Name: "license", Key: "key", Optional: true}}},
		},
		Volumes: []v1alpha1.PodVolume{
			{Name: "dictionaries", ConfigMap: &v1alpha1.ConfigMapVolume{Name: "dictionaries", Items: []v1alpha1.KeyPath{{Key: "a", Path: "b"}}}},
			{Name: "login", Secret: &v1alpha1.SecretVolume{SecretName: "shop-app"}},
			{Name: "both", Projected: &v1alpha1.ProjectedVolume{Sources: []v1alpha1.ProjectedSource{
				{Secret: &v1alpha1.ConfigMapVolume{Name: "s"}}, {ConfigMap: &v1alpha1.ConfigMapVolume{Name: "c", Optional: true}},
			}}},
			{Name: "scratch", EmptyDir: &v1alpha1.EmptyDirVolume{Medium: "Memory", SizeLimit: &size}},
			{Name: "vault", CSI: &v1alpha1.CSIVolume{Driver: "secrets-store.csi.k8s.io", ReadOnly: true, VolumeAttributes: map[string]string{"a": "b"}}},
			{Name: "large", Ephemeral: &v1alpha1.EphemeralVolume{Size: size, StorageClassName: ptr.To("fast")}},
		},
		VolumeMounts: []v1alpha1.PodVolumeMount{{Name: "dictionaries", MountPath: "/mnt/dictionaries", ReadOnly: true}},
		Containers: []v1alpha1.PodContainer{{
			Name: "metrics", Image: "exporter:1", Args: []string{"--web"}, Ports: []v1alpha1.PodPort{{Name: "metrics", ContainerPort: 9188}},
			Env:          []v1alpha1.EnvVar{{Name: "ME", ValueFrom: &v1alpha1.EnvSource{FieldRef: &v1alpha1.FieldReference{FieldPath: "metadata.name"}}}},
			Resources:    v1alpha1.Resources{Limits: corev1.ResourceList{corev1.ResourceMemory: size}},
			VolumeMounts: []v1alpha1.PodVolumeMount{{Name: "login", MountPath: "/mnt/login", ReadOnly: true}},
		}},
		InitContainers: []v1alpha1.PodContainer{{Name: "fetch", Image: "fetch:1", Command: []string{"/fetch"}}},
	}
}

func extended(change func(*v1alpha1.Pods)) corev1.PodTemplateSpec {
	cluster := shop()
	cluster.Spec.Pods = everything()
	if change != nil {
		change(&cluster.Spec.Pods)
	}
	return Build(cluster, inputs).Spec.Template
}

func TestPodsHaveWhatSpecPodsSays(t *testing.T) {
	template := extended(nil)
	pod, plain := template.Spec, Build(shop(), inputs).Spec.Template.Spec
	if template.Labels["team"] != "a" || template.Annotations["example.com/scrape"] != "true" || ptr.Deref(pod.RuntimeClassName, "") != "gvisor" {
		t.Errorf("labels %v, annotations %v, runtime class %v", template.Labels, template.Annotations, pod.RuntimeClassName)
	}
	volumes := map[string]corev1.VolumeSource{}
	for _, v := range pod.Volumes[len(plain.Volumes):] {
		volumes[v.Name] = v.VolumeSource
	}
	size := resource.MustParse("1Gi")
	if want := map[string]corev1.VolumeSource{
		"extra-dictionaries": {ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: named("dictionaries"), Items: []corev1.KeyToPath{{Key: "a", Path: "b"}}}},
		"extra-login":        {Secret: &corev1.SecretVolumeSource{SecretName: "shop-app", DefaultMode: ptr.To[int32](0o440)}},
		"extra-both": {Projected: &corev1.ProjectedVolumeSource{DefaultMode: ptr.To[int32](0o440), Sources: []corev1.VolumeProjection{
			{Secret: &corev1.SecretProjection{LocalObjectReference: named("s")}},
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: named("c"), Optional: ptr.To(true)}},
		}}},
		"extra-scratch": {EmptyDir: &corev1.EmptyDirVolumeSource{Medium: "Memory", SizeLimit: &size}},
		"extra-vault":   {CSI: &corev1.CSIVolumeSource{Driver: "secrets-store.csi.k8s.io", ReadOnly: ptr.To(true), VolumeAttributes: map[string]string{"a": "b"}}},
		"extra-large": {Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"}, StorageClassName: ptr.To("fast"),
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": size}},
		}}}},
		"no-token": {EmptyDir: &corev1.EmptyDirVolumeSource{}},
	}; !equality.Semantic.DeepEqual(volumes, want) {
		t.Errorf("volumes %+v", volumes)
	}
	postgres := pod.Containers[0]
	more := postgres.VolumeMounts[len(plain.Containers[0].VolumeMounts):]
	if want := []corev1.VolumeMount{{Name: "extra-dictionaries", MountPath: "/mnt/dictionaries", ReadOnly: true}}; !equality.Semantic.DeepEqual(more, want) {
		t.Errorf("PostgreSQL mounts %+v", more)
	}
	license := &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: named("license"), Key: "key", Optional: ptr.To(true)}}
	if want := []corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://proxy:3128"}, {Name: "LICENSE", ValueFrom: license}}; !equality.Semantic.DeepEqual(
		postgres.Env[len(workload.PodIdentity()):], want) {
		t.Errorf("PostgreSQL has %+v", postgres.Env)
	}
}

// TestContainersOfSpecPodsGetNothingOfTheInstances: neither a volume nor the token of their account, and no more rights.
func TestContainersOfSpecPodsGetNothingOfTheInstances(t *testing.T) {
	pod := extended(nil).Spec
	if names := []string{pod.Containers[0].Name, pod.Containers[1].Name}; !slices.Equal(names, []string{"postgres", "metrics"}) {
		t.Fatalf("containers %v", names)
	}
	if c := pod.Containers[1]; c.Image != "exporter:1" || c.Ports[0].ContainerPort != 9188 || c.Env[0].ValueFrom.FieldRef.FieldPath != "metadata.name" ||
		c.Resources.Limits.Memory().String() != "1Gi" || !slices.Equal(c.Args, []string{"--web"}) {
		t.Errorf("%+v", c)
	}
	for _, c := range []corev1.Container{pod.Containers[1], pod.InitContainers[len(pod.InitContainers)-1]} {
		if !equality.Semantic.DeepEqual(c.SecurityContext, workload.ContainerSecurity()) {
			t.Errorf("%s has %+v", c.Name, c.SecurityContext)
		}
		covered := false
		for _, m := range c.VolumeMounts {
			covered = covered || m.Name == noTokenVolume && m.MountPath == tokenDir
			if m.Name != noTokenVolume && !strings.HasPrefix(m.Name, extraPrefix) {
				t.Errorf("%s mounts %s", c.Name, m.Name)
			}
		}
		if !covered {
			t.Errorf("%s gets the token of the instances", c.Name)
		}
	}
}

func TestEachChangeOfSpecPodsTakesANewPodAndNothingElseDoes(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.Pods){
		"a label":      func(p *v1alpha1.Pods) { p.Labels["team"] = "b" },
		"a variable":   func(p *v1alpha1.Pods) { p.Env = p.Env[:1] },
		"a container":  func(p *v1alpha1.Pods) { p.Containers = nil },
		"all of it":    func(p *v1alpha1.Pods) { *p = v1alpha1.Pods{} },
		"an image":     func(p *v1alpha1.Pods) { p.InitContainers[0].Image = "fetch:2" },
		"more memory":  func(p *v1alpha1.Pods) { p.Containers[0].Resources = v1alpha1.Resources{} },
		"its accounts": func(p *v1alpha1.Pods) { p.ServiceAccountAnnotations = nil },
		"nothing":      func(*v1alpha1.Pods) {},
		"other words":  func(p *v1alpha1.Pods) { p.Volumes[5].Ephemeral.Size = resource.MustParse("1024Mi") },
	} {
		template := extended(nil)
		pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
		pod.Spec.NodeName = "w1"
		cluster := shop()
		cluster.Spec.Pods = everything()
		change(&cluster.Spec.Pods)
		want := "what spec.pods says"
		if name == "nothing" || name == "other words" {
			want = ""
		}
		if got := Changes(pod, cluster, inputs); got != want {
			t.Errorf("%s: %q", name, got)
		}
		cluster.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2Gi")}
		pod.Spec.Containers[0].Resources, pod.Status.Phase = Resources(shop()), corev1.PodRunning
		if state, _ := Resize(pod, cluster, inputs, time.Now()); (state == ResizeDue) != (want == "") {
			t.Errorf("%s, and more memory for PostgreSQL: %v", name, state)
		}
	}
}

// TestPodsOfAClusterWithoutSpecPodsAreAsBefore: an upgrade of the suite must not restart a database.
func TestPodsOfAClusterWithoutSpecPodsAreAsBefore(t *testing.T) {
	if got := Hash(shop(), inputs); got != hashOf(userInputs{
		Image: "postgres:17", DataGeneration: "g1", Limits: shop().Spec.Resources.Limits, SuperuserAccess: true, S3Secret: "s3",
	}) {
		t.Errorf("another hash: %s", got)
	}
	if _, annotated := Build(shop(), inputs).Spec.Template.Annotations[annotationPods]; annotated {
		t.Error("another annotation")
	}
}
