package instances

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/apply"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/pkg/workload"
	"howdah.dev/howdah/test/testkit/fakeapi"
)

func TestTheJobThatReleasesASourceIsCreatedAgainWhenItsNodeIsLost(t *testing.T) {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "shop-import-release", UID: "seen"}}
	for name, overdue := range map[string]time.Duration{"it is lost": time.Hour, "its pod was told to go a moment ago": time.Second} {
		t.Run(name, func(t *testing.T) {
			o := observedtest.Running(func(o *observed.Cluster) {
				o.Cluster.Spec.Bootstrap = &v1alpha1.Bootstrap{Import: &v1alpha1.BootstrapImport{Online: &v1alpha1.OnlineImport{}}}
				o.Cluster.Status.SystemIdentifier, o.Cluster.Status.Import = "", &v1alpha1.ImportStatus{SourceVersion: "15.18"}
				o.SourceRelease = workload.State{Exists: true, UID: "seen", LivePods: 1, Overdue: o.Now.Add(-overdue)}
			})
			job.Namespace, job.Name = o.Cluster.Namespace, o.Names.ImportReleaseJob()
			steps := &Steps{Applier: &apply.Applier{Client: fakeapi.New(job.DeepCopy())}}
			outcome := steps.ReleaseSource(t.Context(), o)
			err := steps.Client.Get(t.Context(), client.ObjectKeyFromObject(job), &batchv1.Job{})
			if deleted := err != nil; deleted != (overdue == time.Hour) {
				t.Errorf("deleted: %t (%v)", deleted, err)
			}
			if outcome.Reason != v1alpha1.ReasonReleasingSource || overdue == time.Second && outcome.After == 0 {
				t.Errorf("it waits: %+v", outcome)
			}
		})
	}
}
