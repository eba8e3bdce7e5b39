package statefulset

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/workload"
)

// userInputs are what can only change with a new pod and what a person, a Restore or an Upgrade decides. The agent's
// image and whatever a newer suite writes differently into the template are not among them. How they are marshalled must
// never change: another hash for the same inputs would restart every database with the upgrade of the suite.
type userInputs struct {
	Image           string              `json:"image"`
	DataGeneration  string              `json:"dataGeneration"`
	Requests        corev1.ResourceList `json:"requests,omitempty"`
	Limits          corev1.ResourceList `json:"limits,omitempty"`
	SuperuserAccess bool                `json:"superuserAccess,omitempty"`
	S3Secret        string              `json:"s3Secret,omitempty"`
	KeysSecret      string              `json:"keysSecret,omitempty"`
	Pods            string              `json:"pods,omitempty"`
	// Extensions are the images of extensions.
	Extensions []v1alpha1.ExtensionImage `json:"extensions,omitempty"`
}

// Hash of what can only change with a new pod.
func Hash(cluster *v1alpha1.PostgresCluster, in Inputs) string {
	return hashOf(userInputs{
		cluster.Status.Image, cluster.Status.DataGeneration, cluster.Spec.Resources.Requests, cluster.Spec.Resources.Limits,
		cluster.Spec.SuperuserAccess, in.S3Secret, in.KeysSecret, podsHash(cluster), extensionsOf(cluster),
	})
}

// extensionsSince is the first version that finds extensions in mounted images.
const extensionsSince = 18

// extensionsOf the pods of a cluster. Those of an earlier version, which waits for its Upgrade, mount none.
func extensionsOf(cluster *v1alpha1.PostgresCluster) []v1alpha1.ExtensionImage {
	if cluster.Status.MajorVersion < extensionsSince {
		return nil
	}
	return cluster.Spec.PostgreSQL.ExtensionImages
}

func hashOf(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain structs always marshal
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// Changes says in words for what a pod has to be replaced; empty: it doesn't have to be.
func Changes(pod *corev1.Pod, cluster *v1alpha1.PostgresCluster, in Inputs) string {
	changes := outgrown(pod, cluster, in)
	if pod.Annotations[v1alpha1.AnnotationTemplateHash] == Hash(cluster, in) {
		return strings.Join(changes, " and ")
	}
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; c.Name == ContainerName && c.Image != cluster.Status.Image {
			changes = append(changes, fmt.Sprintf("the image %s instead of %s", cluster.Status.Image, c.Image))
		}
	}
	if g := pod.Annotations[AnnotationDataGeneration]; g != cluster.Status.DataGeneration {
		changes = append(changes, fmt.Sprintf("the data generation %s instead of %s", cluster.Status.DataGeneration, g))
	}
	if pod.Annotations[annotationPods] != podsHash(cluster) {
		changes = append(changes, "what spec.pods says")
	}
	if !slices.Equal(workload.ExtensionImages(&pod.Spec), extensionsOf(cluster)) {
		changes = append(changes, "other images of extensions")
	}
	if len(changes) == 0 {
		return "other resources or mounted Secrets"
	}
	return strings.Join(changes, " and ")
}

// outgrown says for what a pod has to be replaced that was current when it was created.
func outgrown(pod *corev1.Pod, cluster *v1alpha1.PostgresCluster, in Inputs) []string {
	var changes []string
	if in.Electing && !mounts(pod, instanceVolume) {
		changes = append(changes, "an agent that takes part in elections (that of the pod is too old)")
	}
	if in.Declaring && !mounts(pod, instanceVolume) {
		changes = append(changes, "an agent that applies declared roles, databases and rules of pg_hba.conf (that of the pod is too old)")
	}
	if misplaced(pod, cluster) {
		changes = append(changes, "where it may run")
	}
	if unpullable(pod, cluster) {
		changes = append(changes, "the Secrets that its images are pulled with")
	}
	return changes
}

// unpullable: no container of the pod has started yet, and it was created without the Secrets that spec names now. Where spec names
// none, a pod has those of its ServiceAccount.
func unpullable(pod *corev1.Pod, cluster *v1alpha1.PostgresCluster) bool {
	wanted := workload.PullSecrets(&cluster.Spec)
	return pod.Status.Phase == corev1.PodPending && len(wanted) > 0 && !slices.Equal(pod.Spec.ImagePullSecrets, wanted)
}

// mounts: the pod was created by a suite that knows the volume. An earlier one continues as long as nobody asks for what is new.
func mounts(pod *corev1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == name })
}
