//go:build integration

package restore

import (
	"context"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
)

// TestWhatSomebodyElseHasUnderTheNameOfTheJobEndsTheRestore: an account may have rights that nobody here gave it. It has no label of
// Howdah, so no cache shows it.
func TestWhatSomebodyElseHasUnderTheNameOfTheJobEndsTheRestore(t *testing.T) {
	for kind, theirs := range map[string]client.Object{
		"ServiceAccount": &corev1.ServiceAccount{}, "Role": &rbacv1.Role{},
	} {
		t.Run(kind, func(t *testing.T) {
			l := newLab(t)
			shop := l.running()
			meta := l.meta("r-restore")
			theirs.SetNamespace(meta.Namespace)
			theirs.SetName(meta.Name)
			if err := l.Create(context.Background(), theirs); err != nil {
				t.Fatal(err)
			}
			uid := theirs.GetUID()
			restore := l.inPlace(nil)
			message := l.await(restore, metav1.ConditionFalse, v1alpha1.ReasonNameConflict)
			if !strings.Contains(message, kind+" r-restore already exists and belongs to somebody else") {
				t.Error(message)
			}
			l.expectShop(string(shop.UID), "g0", restore.Status.Plan.DataGeneration)
			if !l.there(theirs) || theirs.GetUID() != uid || !theirs.GetDeletionTimestamp().IsZero() {
				t.Error("it was touched")
			}
			if l.there(&batchv1.Job{ObjectMeta: meta}) {
				t.Error("the Job was created")
			}
		})
	}
}

// TestARestoreWithANameThatWasUsedBeforeWaitsForWhatIsLeftOfIt: the Job of a Restore that had ended goes only after the Restore has.
func TestARestoreWithANameThatWasUsedBeforeWaitsForWhatIsLeftOfIt(t *testing.T) {
	l := newLab(t)
	left := &batchv1.Job{ObjectMeta: l.meta("r-restore"), Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "worker", Image: "x"}},
	}}}}
	left.Labels = map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}
	left.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindRestore, Name: "r", UID: "00000000-0000-0000-0000-000000000001", Controller: ptr.To(true),
	}}
	if err := l.Create(context.Background(), left); err != nil {
		t.Fatal(err)
	}
	restore := l.restore(nil)
	message := l.await(restore, metav1.ConditionUnknown, flow.ReasonError)
	if !strings.Contains(message, "Job r-restore of a former owner is being deleted") {
		t.Error(message)
	}
	if err := l.Delete(context.Background(), left, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
	l.jobEnds(success(restore)) // only now: the pod of the one that is left would stay, as nothing collects garbage here
	l.await(restore, metav1.ConditionTrue, v1alpha1.ReasonCompleted)
}
