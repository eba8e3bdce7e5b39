//go:build integration

package boundaries

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"howdah.dev/howdah/test/testkit/apiserver"
)

// The policy that docs/security.md proposes for images, as it is written there.
func TestTheExampleOfAPolicyForImagesRefusesThoseFromElsewhere(t *testing.T) {
	admin := apiserver.Client(t)
	page, err := os.ReadFile("../../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	example, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("there is no example")
	}
	for document := range strings.SplitSeq(example, "---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			t.Fatal(err)
		}
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = admin.Delete(context.Background(), object) })
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "images-", Labels: map[string]string{"databases": "true"}}}
	if err := admin.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	pod := func(image, mounted string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "x"}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "c", Image: image}},
			Volumes:    []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: mounted}}}},
		}}
	}
	const own = "registry.example/postgres:17"
	dry := client.NewDryRunClient(admin)
	for deadline := time.Now().Add(time.Minute); dry.Create(t.Context(), pod("evil:1", own)) == nil; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("an image from elsewhere is accepted")
		}
	}
	refused(t, dry.Create(t.Context(), pod(own, "evil:1")))
	if err := dry.Create(t.Context(), pod(own, own)); err != nil {
		t.Errorf("an image of the company is refused: %v", err)
	}
}
