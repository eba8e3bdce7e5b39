package verify

import (
	"context"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/test/testkit/fakeapi"
)

// refusing is an API server where a quota refuses every pod.
type refusing struct{ client.Client }

func (r refusing) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if events, is := list.(*corev1.EventList); is {
		events.Items = []corev1.Event{{Reason: "FailedCreate", Message: "Error creating: exceeded quota: all"}}
		return nil
	}
	return r.Client.List(ctx, list, options...)
}

func TestAVerificationWhosePodIsRefusedSaysSoAndTakesOtherResources(t *testing.T) {
	backup, repo := newBackup("a", asked("t"), running), &v1alpha1.BackupRepository{}
	repo.Namespace, repo.Name = "demo", "minio"
	api := refusing{fakeapi.New(backup, repo)}
	r := &Reconciler{Dependencies: manager.Dependencies{Client: api, Live: api, Now: func() time.Time { return noon }}}
	if err := r.job(&observed{backup: backup, repo: repo}).Ensure(t.Context(), api); err != nil {
		t.Fatal(err)
	}
	o, err := r.observe(t.Context(), backup)
	if err != nil {
		t.Fatal(err)
	}
	if outcome := r.ensureJob(t.Context(), o); !outcome.Finished() {
		t.Fatalf("nothing has changed, and %+v", outcome)
	}
	outcome := r.awaitJob(t.Context(), o)
	if outcome.Reason != v1alpha1.ReasonPodRefused || !strings.Contains(outcome.Message, "exceeded quota: all. Raise the quota, or lower what counts against it, such as spec.resources.") {
		t.Errorf("%s: %s", outcome.Reason, outcome.Message)
	}
	o.backup.Spec.Resources = &v1alpha1.Resources{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")}}
	outcome = r.ensureJob(t.Context(), o)
	err = api.Get(t.Context(), client.ObjectKey{Namespace: "demo", Name: jobName(backup, 1)}, &batchv1.Job{})
	if outcome.Err != nil || outcome.After == 0 || !apierrors.IsNotFound(err) {
		t.Errorf("%+v; it is there: %v", outcome, err)
	}
}
