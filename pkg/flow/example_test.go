package flow_test

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
)

// observed is everything that a pass goes by.
type observed struct {
	backup *v1alpha1.Backup
	// cluster is nil where there is none of that name.
	cluster *v1alpha1.PostgresCluster
}

// reconciler keeps Backups waiting for their cluster.
type reconciler struct {
	client client.Client
	events events.EventRecorder
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	return flow.Loop[*v1alpha1.Backup, *observed]{
		Client: r.client, Events: r.events, Object: &v1alpha1.Backup{}, Summary: v1alpha1.ConditionSucceeded,
		Observe: r.observe, Plan: r.plan, Report: report,
	}.Reconcile(ctx, request)
}

// observe does every read of a pass.
func (r *reconciler) observe(ctx context.Context, backup *v1alpha1.Backup) (*observed, error) {
	o := &observed{backup: backup}
	cluster := &v1alpha1.PostgresCluster{}
	err := r.client.Get(ctx, client.ObjectKey{Namespace: backup.Namespace, Name: backup.Spec.Cluster.Name}, cluster)
	if err == nil {
		o.cluster = cluster
	}
	return o, client.IgnoreNotFound(err)
}

// plan is the algorithm.
func (r *reconciler) plan(*observed) []flow.Step[*observed] {
	return []flow.Step[*observed]{r.requireCluster, r.pinPlan}
}

// requireCluster stops a Backup of a cluster that doesn't exist.
func (r *reconciler) requireCluster(_ context.Context, o *observed) flow.Outcome {
	if o.cluster == nil {
		return flow.Stop(v1alpha1.ReasonClusterNotFound, fmt.Sprintf("There is no PostgresCluster %s.", o.backup.Spec.Cluster.Name))
	}
	return flow.Next
}

// pinPlan records what is read before anything is created.
func (r *reconciler) pinPlan(_ context.Context, o *observed) flow.Outcome {
	o.backup.Status.Plan = &v1alpha1.BackupPlan{ID: o.backup.Name, Attempt: 1}
	return flow.Save(v1alpha1.ReasonRunning, "The Backup begins.")
}

// report is pure: it says in the status what was observed and how the pass ended.
func report(o *observed, outcome flow.Outcome) {
	o.backup.Status.ObservedGeneration = o.backup.Generation
	flow.SetCondition(&o.backup.Status.Conditions, o.backup, v1alpha1.ConditionSucceeded, outcome.Status(), outcome.Reason, outcome.Message)
}

// A reconciler gives its Loop three functions. One pass over an object writes the status once, and then announces the
// transition with an event.
func ExampleLoop() {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		panic(err)
	}
	nightly := &v1alpha1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "nightly"},
		Spec:       v1alpha1.BackupSpec{Cluster: v1alpha1.LocalReference{Name: "shop"}},
	}
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(nightly).WithStatusSubresource(nightly).Build()
	recorder := events.NewFakeRecorder(1)
	ctx, key := context.Background(), client.ObjectKeyFromObject(nightly)

	r := &reconciler{client: api, events: recorder}
	if _, err := r.Reconcile(ctx, ctrl.Request{NamespacedName: key}); err != nil {
		panic(err)
	}
	if err := api.Get(ctx, key, nightly); err != nil {
		panic(err)
	}
	for _, c := range nightly.Status.Conditions {
		fmt.Printf("%s=%s %s: %s\n", c.Type, c.Status, c.Reason, c.Message)
	}
	fmt.Println(<-recorder.Events)
	// Output:
	// Succeeded=False ClusterNotFound: There is no PostgresCluster shop.
	// Warning ClusterNotFound There is no PostgresCluster shop.
}
