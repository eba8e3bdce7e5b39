package restore

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/workload"
	"howdah.dev/howdah/test/testkit/fakeapi"
)

func TestARestoreWhosePodIsRefusedSaysSo(t *testing.T) {
	restore := &v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "back", UID: "r"}}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: jobName(restore)}}
	job.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(restore, v1alpha1.GroupVersion.WithKind(v1alpha1.KindRestore))}
	api := fakeapi.New(job)
	state, err := workload.Observe(t.Context(), api, api, restore, job.Name)
	if err != nil {
		t.Fatal(err)
	}
	if outcome := awaitJob(t.Context(), &observed{restore: restore, job: state}); outcome.Reason != v1alpha1.ReasonRunning {
		t.Errorf("while its pod is being created: %+v", outcome)
	}
	state.Refuse("exceeded quota: all", "Raise the quota.")
	outcome := awaitJob(t.Context(), &observed{restore: restore, job: state})
	if outcome.Reason != v1alpha1.ReasonPodRefused || !strings.Contains(outcome.Message, "exceeded quota: all. Raise the quota.") || outcome.After == 0 {
		t.Errorf("%+v", outcome)
	}
}
