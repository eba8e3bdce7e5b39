package imagechange

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/pkg/workload"
	"howdah.dev/howdah/test/testkit/fakeapi"
)

// follows is a cluster that is given the suite's image by itself, which is another one than it runs in.
func follows(o *observed.Cluster) {
	o.Images = map[int32]string{17: "postgres:17.6"}
	o.Cluster.Spec.Updates = &v1alpha1.Updates{Minor: v1alpha1.UpdateAutomatic}
}

// updating is one of three instances of which these run in the new image already.
func updating(done ...int) func(*observed.Cluster) {
	return func(o *observed.Cluster) {
		follows(o)
		observedtest.NewImage(done...)(o)
		o.Cluster.Status.ImageChange = &v1alpha1.ImageChange{From: "postgres:17", To: "postgres:17.6", MajorVersion: 17, Automatic: true}
		for _, ordinal := range done {
			o.Pod(ordinal).CreationTimestamp = metav1.NewTime(o.Now.Add(-time.Hour))
		}
	}
}

// refusedPod is a Job whose pod is refused.
func refusedPod(t *testing.T, o *observed.Cluster) workload.State {
	t.Helper()
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "shop-image"}}
	job.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(o.Cluster, v1alpha1.GroupVersion.WithKind("PostgresCluster"))}
	api := fakeapi.New(job)
	state, err := workload.Observe(t.Context(), api, api, o.Cluster, job.Name)
	if err != nil {
		t.Fatal(err)
	}
	state.Refuse("exceeded quota", "Raise the quota.")
	return state
}

func TestTheConditionUpdatedSaysWhatAnUpdateWaitsFor(t *testing.T) {
	also := func(changes ...func(*observed.Cluster)) func(*observed.Cluster) {
		return observedtest.All(append([]func(*observed.Cluster){follows}, changes...)...)
	}
	for name, c := range map[string]struct {
		change               func(*observed.Cluster)
		status, reason, says string
		pending              bool
	}{
		"the suite has no image and nobody asks": {func(*observed.Cluster) {}, "", "", "", false},
		"the suite has no image":                 {also(func(o *observed.Cluster) { o.Images = nil }), "False", "UnknownVersion", "postgres.images", false},
		"spec names one and nobody asks":         {also(func(o *observed.Cluster) { o.Cluster.Spec.Image, o.Cluster.Spec.Updates = "mine:17", nil }), "", "", "", false},
		"spec names one":                         {also(func(o *observed.Cluster) { o.Cluster.Spec.Image = "mine:17" }), "True", "ImagePinned", "remove spec.image", false},
		"it runs in it":                          {also(func(o *observed.Cluster) { o.Images[17] = "postgres:17" }), "True", "Current", "the suite's image for PostgreSQL 17", false},
		"by hand": {also(func(o *observed.Cluster) { o.Cluster.Spec.Updates = nil }), "False", "UpdatePending",
			"is postgres:17.6, and the cluster runs in postgres:17. To roll it out, set spec.updates.minor: Automatic, or spec.image: postgres:17.6.", true},
		"its window is shut": {also(func(o *observed.Cluster) {
			o.Cluster.Spec.Updates.Window = observedtest.WindowOf("0 3 * * *", "UTC", time.Hour)
		}),
			"False", "UpdatePending", "postgres:17.6 is going to replace postgres:17. It waits until 2026-03-02 at 03:00 UTC.", true},
		"its window is none": {also(func(o *observed.Cluster) {
			o.Cluster.Spec.Updates.Window = observedtest.WindowOf("a", "UTC", time.Hour)
		}),
			"False", "InvalidWindow", "No update is rolled out: spec.updates.window.schedule", true},
		"a replica is down":   {also(func(o *observed.Cluster) { observedtest.Unready(o, 2) }), "False", "UpdatePending", "It waits until all instances are healthy", true},
		"it is tried":         {also(func(o *observed.Cluster) { o.ImageJob = workload.State{Exists: true} }), "False", "Applying", "is being tried", true},
		"somebody else's Job": {also(func(o *observed.Cluster) { o.ImageJob.Foreign = true }), "False", "NameConflict", "shop-image", true},
		"a quota refuses its pod": {also(func(o *observed.Cluster) { o.ImageJob = refusedPod(t, o) }), "False", "PodRefused",
			"The image postgres:17.6 can't be tried before an instance runs in it. Kubernetes refuses to create the pod of the Job: exceeded quota. Raise the quota.", true},
		"it was refused": {also(func(o *observed.Cluster) {
			o.Cluster.Status.RefusedImage = &v1alpha1.RefusedImage{Image: "postgres:17.6", Message: "no such library", Automatic: true}
		}), "False", "ImageRefused", "no such library. It isn't tried again. To try it, set spec.image: postgres:17.6.", true},
		"under way": {updating(2), "False", "Applying", "1 of 3 instances run in the new image postgres:17.6.", false},
		"stopped on its way": {observedtest.All(updating(2), func(o *observed.Cluster) { o.Cluster.Spec.Updates.Minor = v1alpha1.UpdateManual }), "False", "UpdatePending",
			"The others are not updated yet: spec.updates.minor is not Automatic. To update them now, set spec.image: postgres:17.6. To go back, set spec.image: postgres:17.", false},
	} {
		t.Run(name, func(t *testing.T) {
			o := observedtest.Trio(c.change)
			found := Updated(o)
			if string(found.Status) != c.status || found.Reason != c.reason || !strings.Contains(found.Message, c.says) {
				t.Errorf("%s %s: %s", found.Status, found.Reason, found.Message)
			}
			if pending := Pending(o); (pending != nil) != c.pending {
				t.Errorf("pending: %+v", pending)
			}
			if about := Condition(o); about.Reason != "" && o.Cluster.Spec.Image == "" {
				t.Errorf("spec requests nothing, and it is not up to date: %+v", about)
			}
		})
	}
}

func TestAnUpdateThatNobodyAskedForIsTakenBackWhereAnyReplicaDoesNotComeUp(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*observed.Cluster)
		image  string
		again  bool // it would be tried once more
	}{
		"the first crashes":  {observedtest.All(updating(2), crashing), "postgres:17", false},
		"the second crashes": {observedtest.All(updating(2, 1), crashing), "postgres:17", false},
		"the former primary crashes, and another one is primary in it": {observedtest.All(updating(2, 1), crashing, func(o *observed.Cluster) {
			o.Agents["shop-0"].Role, o.Agents["shop-1"].Role = "replica", "primary"
		}), "postgres:17.6", false},
		"a person took it over": {observedtest.All(updating(2, 1), crashing, func(o *observed.Cluster) { o.Cluster.Spec.Image = "postgres:17.6" }), "postgres:17.6", false},
	} {
		t.Run(name, func(t *testing.T) {
			o := observedtest.Trio(c.change)
			TakeBack(t.Context(), o)
			if o.Cluster.Status.Image != c.image {
				t.Fatalf("it is to run %s: %+v", o.Cluster.Status.Image, o.Cluster.Status)
			}
			if again, _ := wantedImage(o); again != "" {
				t.Errorf("%s would be tried again and again", again)
			}
			if refused := o.Cluster.Status.RefusedImage; c.image == "postgres:17" && (refused == nil || !refused.Automatic) {
				t.Errorf("refused: %+v", refused)
			}
		})
	}
}

func TestARefusedUpdateIsTriedAgainOnlyIfAPersonNamesItOrTheSuiteHasAnother(t *testing.T) {
	refused := func(byItself bool, change func(*observed.Cluster)) *observed.Cluster {
		return observedtest.Trio(func(o *observed.Cluster) {
			follows(o)
			o.Cluster.Status.RefusedImage = &v1alpha1.RefusedImage{Image: "postgres:17.6", Message: "x", Automatic: byItself}
			change(o)
		})
	}
	named := func(o *observed.Cluster) { o.Cluster.Spec.Image = "postgres:17.6" }
	for name, c := range map[string]struct {
		o    *observed.Cluster
		want string
	}{
		"nothing has changed":            {refused(true, func(*observed.Cluster) {}), ""},
		"by hand and back":               {refused(true, func(o *observed.Cluster) { o.Cluster.Spec.Updates.NotBefore = nil }), ""},
		"a person names it":              {refused(true, named), "postgres:17.6"},
		"a person named it before":       {refused(false, named), ""},
		"what a person named is removed": {refused(false, func(*observed.Cluster) {}), ""},
		"the suite has another":          {refused(true, func(o *observed.Cluster) { o.Images[17] = "postgres:17.7" }), "postgres:17.7"},
	} {
		if got, _ := wantedImage(c.o); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
