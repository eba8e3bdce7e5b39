package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/statefulset"
	"howdah.dev/howdah/pkg/flow"
)

func (w *world) resizeOf(pod *corev1.Pod) (statefulset.ResizeState, string) {
	return statefulset.Resize(pod, w.cluster, w.inputs(1), w.now)
}

// resize gives running pods other resources, all at once: nothing is taken down for it.
func (r *Reconciler) resize(ctx context.Context, w *world) flow.Outcome {
	for i := range w.pods {
		pod := &w.pods[i]
		var err error
		switch state, _ := w.resizeOf(pod); state {
		case statefulset.ResizeDue:
			err = r.askResize(ctx, w, pod)
		case statefulset.ResizeDone:
			log.FromContext(ctx).Info("Resized pod", "pod", pod.Name)
			err = r.annotatePod(ctx, pod, map[string]string{v1alpha1.AnnotationTemplateHash: w.templateHash()})
		}
		if err != nil {
			return flow.Retry(err)
		}
	}
	return flow.Next
}

// askResize asks Kubernetes for other resources. What it says against it is noted on the pod, which is then replaced.
func (r *Reconciler) askResize(ctx context.Context, w *world, pod *corev1.Pod) error {
	// Noted first: from now on it is not known what the pod has, even if spec is changed back.
	noted := map[string]string{statefulset.AnnotationResized: w.now.UTC().Format(time.RFC3339), v1alpha1.AnnotationTemplateHash: "resizing"}
	if err := r.annotatePod(ctx, pod, noted); err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"containers": []any{
		map[string]any{"name": statefulset.ContainerName, "resources": statefulset.Resources(w.cluster)},
	}}})
	if err != nil {
		return fmt.Errorf("marshal resources of pod %s: %w", pod.Name, err)
	}
	err = r.Client.SubResource("resize").Patch(ctx, pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, patch), client.FieldOwner(FieldManager))
	switch {
	case err == nil:
		log.FromContext(ctx).Info("Asked for other resources", "pod", pod.Name)
		return nil
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err), apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
		return r.annotatePod(ctx, pod, map[string]string{statefulset.AnnotationResizeRefused: w.templateHash() + " " + err.Error()})
	}
	return fmt.Errorf("resize pod %s: %w", pod.Name, err)
}

func (r *Reconciler) annotatePod(ctx context.Context, pod *corev1.Pod, annotations map[string]string) error {
	changed := pod.DeepCopy()
	for name, value := range annotations {
		metav1.SetMetaDataAnnotation(&changed.ObjectMeta, name, value)
	}
	if err := r.Client.Patch(ctx, changed, client.MergeFrom(pod), client.FieldOwner(FieldManager)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("annotate pod %s: %w", pod.Name, err)
	}
	return nil
}

// resizing says which pod is yet to have its other resources.
func resizing(w *world) finding {
	for i := range w.pods {
		if state, _ := w.resizeOf(&w.pods[i]); state != statefulset.ResizeNot {
			return no(v1alpha1.ReasonApplying, fmt.Sprintf("Pod %s is given other resources while it runs.", w.pods[i].Name))
		}
	}
	return finding{}
}

// sizedParameters follow the memory by themselves, take a restart, and do no harm while an instance has less of them than
// another one. max_worker_processes is not among them: a replica must not have less of it than its primary.
var sizedParameters = []string{"shared_buffers"}

// mayWait: all that waits for a restart is what follows the memory that the pod was given since PostgreSQL was started.
// Nobody has asked for a restart.
func (w *world) mayWait(pod *corev1.Pod, pending []string, started time.Time) bool {
	if pod == nil || len(pending) == 0 {
		return false
	}
	resized, err := time.Parse(time.RFC3339, pod.Annotations[statefulset.AnnotationResized])
	return err == nil && !started.IsZero() && started.Before(resized) && !slices.ContainsFunc(pending, func(name string) bool {
		_, asked := w.cluster.Spec.PostgreSQL.Parameters[name]
		return asked || !slices.Contains(sizedParameters, name)
	})
}

// waitsForRestart: what is pending in an instance comes with the next restart, whenever that is.
func (w *world) waitsForRestart(instance *v1alpha1.InstanceStatus) bool {
	ordinal, started := w.names.Ordinal(instance.Name), time.Unix(0, 0)
	if agent := w.agent(ordinal); agent != nil { // one that doesn't answer for a moment changes nothing
		started = agent.StartedAt
	}
	return w.mayWait(w.pod(ordinal), instance.PendingRestart, started)
}

// withNextRestart says what the next restart will bring.
func (w *world) withNextRestart() string {
	for i := range w.cluster.Status.Instances {
		if instance := &w.cluster.Status.Instances[i]; w.waitsForRestart(instance) {
			return fmt.Sprintf(" %s: follows the memory with the next restart of PostgreSQL, for which nothing is taken down.", commaList(instance.PendingRestart))
		}
	}
	return ""
}
