package backup

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/backup-controller/internal/queue"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/workload"
	"howdah.dev/howdah/test/testkit/fakeapi"
)

// refused has the Job of a planned Backup, whose pod a quota refuses.
func refused(t *testing.T) (*Reconciler, *observed) {
	t.Helper()
	backup, repo := newBackup("a", planned), &v1alpha1.BackupRepository{}
	repo.Namespace, repo.Name = "demo", "minio"
	api := fakeapi.New(backup, repo)
	r := &Reconciler{Dependencies: manager.Dependencies{Client: api, Live: api, Now: func() time.Time { return noon }}}
	o := &observed{backup: backup, planned: repo, cluster: newCluster(), now: noon}
	job, err := r.job(o)
	if err == nil {
		err = job.Ensure(t.Context(), api)
	}
	if err == nil {
		o.job, err = workload.Observe(t.Context(), api, api, backup, job.Name)
	}
	if err != nil {
		t.Fatal(err)
	}
	o.job.Refuse("exceeded quota: all", "Raise the quota.")
	return r, o
}

func TestABackupWhosePodIsRefusedSaysSo(t *testing.T) {
	_, o := refused(t)
	if outcome := awaitJob(t.Context(), o); outcome.Reason != v1alpha1.ReasonPodRefused || !strings.Contains(outcome.Message, "exceeded quota: all. Raise the quota.") || outcome.After == 0 {
		t.Errorf("%+v", outcome)
	}
}

func TestABackupWhosePodIsRefusedTakesNoPlaceOfOthers(t *testing.T) {
	r, o := refused(t)
	r.Queue = queue.New(queue.Limits{All: 1}, func() time.Time { return noon })
	must(t, r.Queue.Recover(func() ([]queue.Entry, error) { return []queue.Entry{o.entry()}, nil }))
	if running, _ := r.Queue.Counts(); running != 1 {
		t.Fatalf("%d run", running)
	}
	if outcome := r.ensureJob(t.Context(), o); !outcome.Finished() {
		t.Fatalf("%+v", outcome)
	}
	if running, _ := r.Queue.Counts(); running != 0 {
		t.Errorf("%d run", running)
	}
	o.job, _ = workload.Observe(t.Context(), r.Client, r.Live, o.backup, "a-backup") // which is not known to be refused
	r.ensureJob(t.Context(), o)
	if running, _ := r.Queue.Counts(); running != 1 {
		t.Errorf("once its pod is created, %d run", running)
	}
}

func TestAJobWithoutAPodIsCreatedAgainWithOtherResources(t *testing.T) {
	r, o := refused(t)
	there := func() bool {
		err := r.Client.Get(t.Context(), client.ObjectKey{Namespace: "demo", Name: "a-backup"}, &batchv1.Job{})
		if client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		return !apierrors.IsNotFound(err)
	}
	if r.misplaced(o) {
		t.Error("it is created again, as nothing has changed")
	}
	o.backup.Spec.Resources = &v1alpha1.Resources{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}
	if outcome := r.ensureJob(t.Context(), o); outcome.Err != nil || outcome.After == 0 || there() {
		t.Errorf("%+v; it is there: %t", outcome, there())
	}
}
