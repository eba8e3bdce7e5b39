package volumemove

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/apply"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/fakeapi"
)

// terminating is the claim of an instance after it was deleted, while its pod keeps it.
func terminating(name string) func(*observed.Cluster) {
	return func(o *observed.Cluster) {
		claim := o.Claim(o.Names.Ordinal(name))
		claim.DeletionTimestamp, claim.Finalizers = &metav1.Time{Time: observedtest.Noon}, []string{"kubernetes.io/pvc-protection"}
	}
}

func TestAVolumeGoesOnlyWhileNobodyCountsOnIt(t *testing.T) {
	primary := func(o *observed.Cluster) *agentapi.Status { return o.Agents["shop-0"] }
	for name, c := range map[string]struct {
		change        func(*observed.Cluster)
		claim, pod    bool // goes
		staysOn, says string
	}{
		"fenced, and out of the Lease":              {change: nil, claim: true},
		"its claim was deleted":                     {change: terminating("shop-2"), pod: true},
		"the Lease names it":                        {change: func(o *observed.Cluster) { primary(o).Election.Members = []string{"shop-1", "shop-2"} }, says: "no longer names it"},
		"its claim was deleted, the Lease names it": {change: observedtest.All(terminating("shop-2"), func(o *observed.Cluster) { primary(o).Election.Members = []string{"shop-1", "shop-2"} }), says: "no longer names it"},
		"the primary does not respond":              {change: func(o *observed.Cluster) { delete(o.Agents, "shop-0"); o.Pod(0).Labels[v1alpha1.LabelRole] = "primary" }, says: "no longer names it"},
		"another one has the Lease":                 {change: func(o *observed.Cluster) { primary(o).Election.Leader = "shop-1" }, says: "no longer names it"},
		"it still runs":                             {change: func(o *observed.Cluster) { o.Agents["shop-2"].State = agentapi.StateRunning }, says: "is being stopped"},
		"it is down for another reason":             {change: func(o *observed.Cluster) { o.Agents["shop-2"].ConfigHash = "before" }, says: "is being stopped"},
		"it does not respond":                       {change: func(o *observed.Cluster) { delete(o.Agents, "shop-2") }, says: "doesn't respond"},
		"there is no primary":                       {change: func(o *observed.Cluster) { observedtest.Unready(o, 0) }, staysOn: "There is no primary"},
		"there is none, and its claim was deleted":  {change: observedtest.All(terminating("shop-2"), func(o *observed.Cluster) { observedtest.Unready(o, 0) }), staysOn: "There is no primary"},
		"it became the primary": {change: func(o *observed.Cluster) {
			observedtest.SwitchedTo(o, "shop-2")
			o.Pod(2).Status.Conditions[0].Status = corev1.ConditionTrue
			o.Agents["shop-2"].State = agentapi.StateRunning
		}, staysOn: "became the primary"},
		"the other replica is lost":     {change: func(o *observed.Cluster) { o.Agents["shop-1"].Replication = nil }, staysOn: "no replica streams"},
		"a clone has replaced its data": {change: observedtest.All(keepsCopies, twoCopies("shop-2"), observedtest.Tell), staysOn: "shop-2 stays on its volume. spec.repair.keepReplacedCopies keeps the data"},
		"it is no longer approved":      {change: func(o *observed.Cluster) { o.Cluster.Spec.Storage.Move = nil }, staysOn: "no longer approves"},
		"the cluster is being deleted":  {change: func(o *observed.Cluster) { o.Cluster.DeletionTimestamp = &metav1.Time{Time: observedtest.Noon} }, staysOn: "no longer approves"},
	} {
		o := asked(observedtest.All(approve, out("shop-2"), observedtest.OrNothing(c.change)))
		claim, pod := o.Claim(2), o.Pod(2)
		pod.Namespace = claim.Namespace
		api := fakeapi.New(claim.DeepCopy(), pod.DeepCopy())
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
			t.Fatal(err)
		}
		outcome := (&Steps{Applier: &apply.Applier{Client: api}}).Continue(t.Context(), o)
		gone := func(object client.Object) bool {
			err := api.Get(t.Context(), client.ObjectKeyFromObject(object), object.DeepCopyObject().(client.Object))
			return apierrors.IsNotFound(err)
		}
		if gone(claim) != c.claim || gone(pod) != c.pod {
			t.Errorf("%s: the claim goes: %v, the pod: %v; %+v", name, gone(claim), gone(pod), outcome)
		}
		if stays := o.Cluster.Status.StorageMove.Current == nil; stays != (c.staysOn != "") || !strings.Contains(outcome.Message, c.staysOn+c.says) {
			t.Errorf("%s: it stays: %v; %+v", name, stays, outcome)
		}
	}
}

// A controller that was held up between its look and its write deletes no pod that was told meanwhile to run again.
func TestAPodThatHasChangedSinceItWasSeenIsNotDeleted(t *testing.T) {
	o := asked(observedtest.All(approve, out("shop-2"), terminating("shop-2")))
	pod := o.Pod(2)
	api := fakeapi.New(pod.DeepCopy())
	key := client.ObjectKeyFromObject(pod)
	if err := api.Get(t.Context(), key, pod); err != nil {
		t.Fatal(err)
	}
	later := pod.DeepCopy()
	metav1.SetMetaDataAnnotation(&later.ObjectMeta, v1alpha1.AnnotationConfigHash, "unfenced")
	if err := api.Update(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	outcome := (&Steps{Applier: &apply.Applier{Client: api}}).Continue(t.Context(), o)
	if err := api.Get(t.Context(), key, &corev1.Pod{}); err != nil {
		t.Errorf("%v; %+v", err, outcome)
	}
}
