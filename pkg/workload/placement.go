package workload

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
)

// Fit has a pod of a cluster run where and in what its spec says, with images from where only its Secrets lead.
func Fit(pod *corev1.PodSpec, spec *v1alpha1.PostgresClusterSpec) {
	place(pod, spec.Scheduling)
	pod.ImagePullSecrets = PullSecrets(spec)
	runAs(pod, spec.RunAs)
	if spec.Pods.RuntimeClassName != "" {
		pod.RuntimeClassName = &spec.Pods.RuntimeClassName
	}
}

// PullSecrets are the Secrets that images of a cluster's pods are pulled with.
func PullSecrets(spec *v1alpha1.PostgresClusterSpec) (secrets []corev1.LocalObjectReference) {
	for _, secret := range spec.ImagePullSecrets {
		secrets = append(secrets, corev1.LocalObjectReference{Name: secret.Name})
	}
	return secrets
}

// place has a pod run where spec.scheduling says. How instances are kept apart is not part of it: a Job has one pod.
func place(pod *corev1.PodSpec, scheduling v1alpha1.Scheduling) {
	pod.NodeSelector = scheduling.NodeSelector
	pod.Tolerations = scheduling.Tolerations
	pod.PriorityClassName = scheduling.PriorityClassName
	if scheduling.NodeAffinity != nil {
		pod.Affinity = &corev1.Affinity{NodeAffinity: scheduling.NodeAffinity}
	}
}

// fit has the pod of the Job run where those of the cluster do, or on the one node that it must run on. Of that node only one
// thing counts: an instance runs there. So spec may have meanwhile come to select others, and the pod tolerates what the
// instance was created to tolerate.
func (j Job) fit(pod *corev1.PodSpec) {
	if j.ClusterSpec != nil {
		Fit(pod, j.ClusterSpec)
	}
	if j.Replaceable {
		pod.Tolerations = leaveSoon(pod.Tolerations)
	}
	if j.Node == "" {
		return
	}
	pod.NodeSelector, pod.Affinity = nil, onNode(j.Node)
	if j.Beside != nil {
		pod.Tolerations = tolerateToo(pod.Tolerations, j.Beside.Spec.Tolerations)
	}
}

// leavesAfter is how many seconds a Replaceable Job stays on a node that doesn't respond, where Kubernetes would give it five minutes.
const leavesAfter = 30

func leaveSoon(tolerations []corev1.Toleration) []corev1.Toleration {
	all := slices.Clone(tolerations)
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		if !slices.ContainsFunc(all, func(t corev1.Toleration) bool { return toleratesEviction(t, key) }) {
			all = append(all, corev1.Toleration{
				Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](leavesAfter),
			})
		}
	}
	return all
}

func toleratesEviction(t corev1.Toleration, key string) bool {
	return (t.Key == key || t.Key == "" && t.Operator == corev1.TolerationOpExists) && (t.Effect == "" || t.Effect == corev1.TaintEffectNoExecute)
}

func tolerateToo(tolerations, more []corev1.Toleration) []corev1.Toleration {
	all := slices.Clone(tolerations)
	for _, toleration := range more {
		if !slices.ContainsFunc(all, func(t corev1.Toleration) bool { return equality.Semantic.DeepEqual(t, toleration) }) {
			all = append(all, toleration)
		}
	}
	return all
}

// Fits says whether the pods of a Job that exists run the image, with the resources and where this one says. A webhook may have made
// something else of what was asked for, such as other resources on GKE's Autopilot or an image of a mirror, and makes the same of any
// Job that is created instead. So what was asked for counts, and what was made of it only where that isn't known, or where what a
// digest is made of has changed with a version of Howdah.
func (j Job) Fits(live *batchv1.Job) bool {
	return live.Spec.Template.Annotations[annotationPodDigest] == j.podDigest() || j.resembles(live)
}

// annotationPodDigest of the pods of a Job has a digest of what Fits compares, as it was asked for. Nobody can change it later, because it
// stands where the rest of a Job's template does.
const annotationPodDigest = "howdah.dev/pod-digest"

// podDigest is that digest.
func (j Job) podDigest() string {
	pod, meta := j.pod(), j.template()
	return digest(pod.Containers[0].Image, pod.Containers[0].Resources, ExtensionImages(&pod), fitting(pod), meta.Labels, meta.Annotations)
}

// resembles says whether a Job that exists has what this one would be created with.
func (j Job) resembles(live *batchv1.Job) bool {
	have, want := live.Spec.Template.Spec, j.pod()
	return have.Containers[0].Image == want.Containers[0].Image &&
		equality.Semantic.DeepEqual(have.Containers[0].Resources, want.Containers[0].Resources) &&
		slices.Equal(ExtensionImages(&have), ExtensionImages(&want)) &&
		equality.Semantic.DeepEqual(fitting(have), fitting(want)) && adorned(live.Spec.Template.ObjectMeta, j.template())
}

// adorned says whether the pods of a Job that exists have the labels and annotations. More are of Kubernetes' own.
func adorned(have, want metav1.ObjectMeta) bool {
	return subset(want.Labels, have.Labels) && subset(want.Annotations, have.Annotations)
}

func subset(some, all map[string]string) bool {
	for name, value := range some {
		if got, found := all[name]; !found || got != value {
			return false
		}
	}
	return true
}

// fitting is all of a pod that Fit sets.
func fitting(pod corev1.PodSpec) corev1.PodSpec {
	return corev1.PodSpec{
		NodeSelector: pod.NodeSelector, Affinity: pod.Affinity, Tolerations: pod.Tolerations, PriorityClassName: pod.PriorityClassName,
		ImagePullSecrets: pod.ImagePullSecrets, RuntimeClassName: pod.RuntimeClassName,
	}
}

// annotationPlacement of a Job has a digest of what decides where its pods run and whether there is room for them.
const annotationPlacement = "howdah.dev/placement"

// placement is that digest. What a webhook makes of a Job doesn't matter to it.
func (j Job) placement() string {
	pod := j.pod()
	return digest(fitting(pod), pod.Containers[0].Resources)
}

func digest(parts ...any) string {
	content, err := json.Marshal(parts)
	if err != nil {
		panic(err) // all are types of Kubernetes' API, or made of strings
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:8])
}

// Unplaced says that the Job runs, and that none of its pods has ever had a node, if it has any.
func (s State) Unplaced() bool { return s.Exists && s.unplaced }

// Misplaced says whether the Job of a state waits for a node, or for room, with other settings than this one has: it can be deleted, and
// created as this one is.
func (j Job) Misplaced(state State) bool {
	return state.unplaced && !state.Deleting && state.placement != "" && state.placement != j.placement()
}

func onNode(node string) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{
				Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
			}},
		}}},
	}}
}
