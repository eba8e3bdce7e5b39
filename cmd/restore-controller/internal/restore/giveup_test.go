package restore

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/workload"
	"howdah.dev/howdah/test/testkit/fakeapi"
)

func TestOnlyItsOwnJobIsStopped(t *testing.T) {
	o := seenInPlace(grant)
	own := func(uid types.UID) *batchv1.Job {
		return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
			Namespace: o.restore.Namespace, Name: jobName(o.restore), UID: uid,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(o.restore, v1alpha1.GroupVersion.WithKind(v1alpha1.KindRestore))},
		}}
	}
	var err error
	if o.job, err = workload.Observe(t.Context(), fakeapi.New(own("seen")), fakeapi.New(), o.restore, jobName(o.restore)); err != nil {
		t.Fatal(err)
	}
	r := &Reconciler{Dependencies: manager.Dependencies{Client: fakeapi.New(own("other"))}}
	outcome := r.stopJob(t.Context(), o)
	if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(own("")), &batchv1.Job{}); err != nil {
		t.Errorf("another Job of that name was deleted: %v (%+v)", err, outcome)
	}
}

func TestARestoreExpiresAsItWasSeen(t *testing.T) {
	ended := seenInPlace(run)
	ended.restore.Spec.TTLSecondsAfterFinished = ptr.To[int32](1)
	ended.restore.Status.CompletedAt = &metav1.Time{Time: ended.now.Add(-time.Hour)}
	ended.restore.ResourceVersion = "1"
	now := ended.restore.DeepCopy()
	now.Spec.TTLSecondsAfterFinished, now.ResourceVersion = nil, "2" // a person wants it to stay
	r := &Reconciler{Dependencies: manager.Dependencies{Client: fakeapi.New(now)}}
	outcome := r.expire(t.Context(), ended)
	if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(now), &v1alpha1.Restore{}); err != nil {
		t.Errorf("it was deleted: %v (%+v)", err, outcome)
	}
}

func TestAClusterThatGotDataMeanwhileIsNotDeleted(t *testing.T) {
	o := seen(func(o *observed) {
		o.cluster = made()
		o.cluster.Namespace, o.cluster.ResourceVersion = o.restore.Namespace, "1"
		o.restore.Status.Plan = &v1alpha1.RestorePlan{DataGeneration: "g1"}
	})
	now := o.cluster.DeepCopy()
	now.Status.DataGeneration, now.ResourceVersion = "g1", "2"
	r := &Reconciler{Dependencies: manager.Dependencies{Client: fakeapi.New(now)}}
	outcome := r.deleteUnfinished(t.Context(), o)
	if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(now), &v1alpha1.PostgresCluster{}); err != nil {
		t.Errorf("it was deleted: %v (%+v)", err, outcome)
	}
}
