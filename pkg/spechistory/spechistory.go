// Package spechistory keeps the specs with which a PostgresCluster was Ready, as ControllerRevisions: the db-controller writes them, and a
// person looks at them and goes back to one.
package spechistory

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
)

// Limit is how many specs of a cluster are kept.
const Limit = 10

// Component is the value of v1alpha1.LabelComponent on what this package keeps.
const Component = "history"

// Labels of the revisions of a cluster.
func Labels(cluster string) map[string]string {
	return map[string]string{
		v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelCluster: cluster, v1alpha1.LabelComponent: Component,
	}
}

// Revision is what is kept of a cluster's spec. Its name follows from the spec, so the same one is kept once; its number is set by Keep.
func Revision(cluster *v1alpha1.PostgresCluster) (*appsv1.ControllerRevision, error) {
	data, err := json.Marshal(withoutRequests(&cluster.Spec))
	if err != nil {
		return nil, fmt.Errorf("encode the spec: %w", err)
	}
	sum := sha256.Sum256(data)
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cluster.Namespace, Name: fmt.Sprintf("%s-spec-%s", cluster.Name, hex.EncodeToString(sum[:5])), Labels: Labels(cluster.Name),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(cluster, v1alpha1.GroupVersion.WithKind(v1alpha1.KindPostgresCluster))},
		},
		Data: runtime.RawExtension{Raw: data},
	}, nil
}

// withoutRequests leaves out what a person asked for once, or for a while.
func withoutRequests(spec *v1alpha1.PostgresClusterSpec) *v1alpha1.PostgresClusterSpec {
	return keepRequests(spec.DeepCopy(), &v1alpha1.PostgresClusterSpec{})
}

// keepRequests has a spec ask for what another one asks for once, or for a while.
func keepRequests(to, of *v1alpha1.PostgresClusterSpec) *v1alpha1.PostgresClusterSpec {
	to.Switchover, to.Reinit, to.Repair, to.Hibernate = of.Switchover, of.Reinit, of.Repair, of.Hibernate
	to.Storage.Move, to.Standby = of.Storage.Move, of.Standby
	from := ptr.Deref(of.Failover, v1alpha1.Failover{})
	if to.Failover == nil && (from.PausedUntil != nil || len(from.Fenced) > 0) {
		to.Failover = &v1alpha1.Failover{}
	}
	if to.Failover != nil {
		to.Failover.PausedUntil, to.Failover.Fenced = from.PausedUntil, from.Fenced
	}
	return to
}

// Action is what is to be done so that the newest revision is of the present spec.
type Action struct {
	// Create is a new revision; nil: none.
	Create *appsv1.ControllerRevision
	// Renew is one that is there and gets the number Number, because its spec has come back; nil: none.
	Renew  *appsv1.ControllerRevision
	Number int64
	// Delete are the oldest beyond Limit.
	Delete []appsv1.ControllerRevision
}

// Keep decides about a cluster that is Ready with its spec. revisions are the cluster's own.
func Keep(present *appsv1.ControllerRevision, revisions []appsv1.ControllerRevision) Action {
	sorted := Sorted(revisions)
	if len(sorted) > 0 && sorted[0].Name == present.Name {
		return Action{Delete: sorted[min(len(sorted), Limit):]}
	}
	number := int64(1)
	if len(sorted) > 0 {
		number = sorted[0].Revision + 1
	}
	known := slices.IndexFunc(sorted, func(r appsv1.ControllerRevision) bool { return r.Name == present.Name })
	if known >= 0 {
		return Action{Renew: &sorted[known], Number: number, Delete: sorted[min(len(sorted), Limit):]}
	}
	created := present.DeepCopy()
	created.Revision = number
	return Action{Create: created, Delete: sorted[min(len(sorted), Limit-1):]}
}

// Sorted has the newest first.
func Sorted(revisions []appsv1.ControllerRevision) []appsv1.ControllerRevision {
	return slices.SortedFunc(slices.Values(revisions), func(a, b appsv1.ControllerRevision) int { return int(b.Revision - a.Revision) })
}

// Spec that a revision has kept.
func Spec(revision *appsv1.ControllerRevision) (*v1alpha1.PostgresClusterSpec, error) {
	spec := &v1alpha1.PostgresClusterSpec{}
	if err := json.Unmarshal(revision.Data.Raw, spec); err != nil {
		return nil, fmt.Errorf("decode revision %d: %w", revision.Revision, err)
	}
	return spec, nil
}
