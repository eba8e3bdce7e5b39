package reading

import (
	"context"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/cmd/db-controller/internal/refusals"
	"howdah.dev/howdah/pkg/workload"
	"howdah.dev/howdah/test/testkit/fakeapi"
)

// refusing is an API server that says of each object that its pod was refused, and counts for which it was asked.
type refusing struct {
	client.Reader
	asked []string
}

func (r *refusing) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	options := client.ListOptions{}
	options.ApplyOptions(opts)
	owner, _ := options.FieldSelector.RequiresExactMatch("involvedObject.uid")
	r.asked = append(r.asked, owner)
	list.(*corev1.EventList).Items = []corev1.Event{{Reason: "FailedCreate", Message: "Error creating: " + owner + " is forbidden: exceeded quota: all"}}
	return nil
}

func TestEveryPodThatIsMissingIsAskedAboutAndNoOther(t *testing.T) {
	podless := func(o *observed.Cluster, uid types.UID) workload.State {
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "job", UID: uid}}
		job.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(o.Cluster, v1alpha1.GroupVersion.WithKind("PostgresCluster"))}
		api := fakeapi.New(job)
		state, err := workload.Observe(t.Context(), api, api, o.Cluster, "job")
		if err != nil {
			t.Fatal(err)
		}
		return state
	}
	api, memory := &refusing{}, &refusals.Memory{}
	read := func(o *observed.Cluster) {
		for range 2 {
			if err := (missing{api, memory}).read(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			o.Now = o.Now.Add(time.Minute)
		}
	}
	healthy := observedtest.Trio(nil)
	if read(healthy); len(api.asked) > 0 {
		t.Fatalf("of a cluster whose pods are there it was asked for events of %v", api.asked)
	}
	stopped := observedtest.Trio(func(o *observed.Cluster) { o.Pods = nil; observedtest.ReplicasOfSet(o, 0) })
	if read(stopped); len(api.asked) > 0 {
		t.Fatalf("of a cluster that has no pods it was asked for events of %v", api.asked)
	}
	lacking := observedtest.Trio(func(o *observed.Cluster) {
		observedtest.Lose(o, "shop-2")
		o.StatefulSet().UID = "set"
		o.InitJob, o.ImageJob, o.SourceRelease = podless(o, "init"), podless(o, "image"), podless(o, "release")
		o.Volumes = []observed.Volume{{Inspection: podless(o, "inspection")}}
	})
	if read(lacking); len(api.asked) != 5 {
		t.Errorf("asked for events of %v", api.asked)
	}
	if why := lacking.Refusals["set"].Of("shop-2"); !strings.HasPrefix(why, "set is forbidden") {
		t.Errorf("the StatefulSet: %q", why)
	}
	for uid, job := range map[string]*workload.State{"init": &lacking.InitJob, "image": &lacking.ImageJob, "release": &lacking.SourceRelease, "inspection": &lacking.Volumes[0].Inspection} {
		want := "Kubernetes refuses to create the pod of the Job: " + uid + " is forbidden: exceeded quota: all. Raise the quota, or lower what counts against it, such as spec.resources."
		if job.Trouble() != want || !job.PodRefused() {
			t.Errorf("%s: %s", uid, job.Trouble())
		}
	}
}
