package instances

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/apply"
	"howdah.dev/howdah/cmd/db-controller/internal/component/statefulset"
	"howdah.dev/howdah/cmd/db-controller/internal/desired"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/flow"
)

// Resize gives running pods other resources, all at once: nothing is taken down for it.
func (s *Steps) Resize(ctx context.Context, o *observed.Cluster) flow.Outcome {
	for i := range o.Pods {
		pod := &o.Pods[i]
		var err error
		switch state, _ := desired.ResizeOf(o, pod); state {
		case statefulset.ResizeDue:
			err = s.requestResize(ctx, o, pod)
		case statefulset.ResizeDone:
			log.FromContext(ctx).Info("Resized pod", "pod", pod.Name)
			err = s.annotatePod(ctx, pod, map[string]string{v1alpha1.AnnotationTemplateHash: desired.TemplateHash(o)})
		}
		if err != nil {
			return flow.Retry(err)
		}
	}
	return flow.Next
}

// requestResize requests other resources of Kubernetes. What it says against it is noted on the pod, which is then replaced.
func (s *Steps) requestResize(ctx context.Context, o *observed.Cluster, pod *corev1.Pod) error {
	// Noted first: from now on it is not known what the pod has, even if spec is changed back.
	noted := map[string]string{statefulset.AnnotationResized: o.Now.UTC().Format(time.RFC3339), v1alpha1.AnnotationTemplateHash: "resizing"}
	if err := s.annotatePod(ctx, pod, noted); err != nil {
		return err
	}
	refused, err := s.giveResources(ctx, o, pod)
	if refused != "" {
		return s.annotatePod(ctx, pod, map[string]string{statefulset.AnnotationResizeRefused: desired.TemplateHash(o) + " " + refused})
	}
	return err
}

// giveResources requests those that are wanted of Kubernetes, or says what it has against them.
func (s *Steps) giveResources(ctx context.Context, o *observed.Cluster, pod *corev1.Pod) (refused string, err error) {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"containers": []any{
		map[string]any{"name": statefulset.ContainerName, "resources": statefulset.Resources(o.Cluster)},
	}}})
	if err != nil {
		return "", fmt.Errorf("marshal resources of pod %s: %w", pod.Name, err)
	}
	err = s.Client.SubResource("resize").Patch(ctx, pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, patch), client.FieldOwner(apply.FieldManager))
	switch {
	case err == nil:
		log.FromContext(ctx).Info("Requested other resources", "pod", pod.Name)
		return "", nil
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err), apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
		return err.Error(), nil
	}
	return "", fmt.Errorf("resize pod %s: %w", pod.Name, err)
}

func (s *Steps) annotatePod(ctx context.Context, pod *corev1.Pod, annotations map[string]string) error {
	changed := pod.DeepCopy()
	for name, value := range annotations {
		metav1.SetMetaDataAnnotation(&changed.ObjectMeta, name, value)
	}
	if err := s.Client.Patch(ctx, changed, client.MergeFrom(pod), client.FieldOwner(apply.FieldManager)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("annotate pod %s: %w", pod.Name, err)
	}
	return nil
}
