package observedtest

import (
	"encoding/json"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/statefulset"
	"howdah.dev/howdah/cmd/db-controller/internal/desired"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/protocol"
)

// HandsOver is an Upgrade that hands another data generation over, and what it was granted.
func HandsOver(o *observed.Cluster, generation string, state v1alpha1.VolumeLockState, volumes ...string) {
	request := v1alpha1.VolumeLockRequest{Cluster: "shop", ClusterUID: "u1", Token: "t", Mode: v1alpha1.VolumeLockStopped}
	o.Requests = []protocol.LockRequest{{Kind: "Upgrade", Name: "up", UID: "x", Request: request, Handover: &v1alpha1.Handover{
		Token: "t", DataGeneration: generation, SystemIdentifier: "7", MajorVersion: 18, Image: "postgres:18",
	}}}
	lock := v1alpha1.VolumeLock{Kind: "Upgrade", Name: "up", RequesterUID: "x", Token: "t", State: state, AdoptedGeneration: "g9"}
	for _, name := range volumes {
		lock.Volumes = append(lock.Volumes, v1alpha1.LockedVolume{Instance: name, ClaimName: "data-" + name})
	}
	o.Cluster.Status.VolumeLocks = []v1alpha1.VolumeLock{lock}
}

// Grown instances have more memory since noon, and PostgreSQL runs since an hour before.
func Grown(pending ...string) func(*observed.Cluster) {
	return func(o *observed.Cluster) {
		for name, agent := range o.Agents {
			o.Pod(o.Names.Ordinal(name)).Annotations[statefulset.AnnotationResized] = "2026-03-01T12:00:00Z"
			agent.PendingRestart, agent.StartedAt = pending, Noon.Add(-3600e9)
		}
	}
}

// NewImage is wanted, and these instances run it already.
func NewImage(done ...int) func(*observed.Cluster) {
	return func(o *observed.Cluster) {
		o.Cluster.Status.Image = "postgres:17.6"
		template := statefulset.Build(o.Cluster, desired.Inputs(o, 3)).Spec.Template
		for _, ordinal := range done {
			pod := o.Pod(ordinal)
			pod.Annotations, pod.Spec = template.Annotations, template.Spec
		}
	}
}

// WaitsFor parameters: these instances wait for a restart.
func WaitsFor(name string, value v1alpha1.ParameterValue, waiting ...string) func(*observed.Cluster) {
	return func(o *observed.Cluster) {
		SetParameter(o, name, value)
		for _, instance := range waiting {
			o.Agents[instance].PendingRestart = []string{name}
		}
	}
}

// All makes several changes, one after the other.
func All(changes ...func(*observed.Cluster)) func(*observed.Cluster) {
	return func(o *observed.Cluster) {
		for _, change := range changes {
			change(o)
		}
	}
}

// Wants asks for this many instances.
func Wants(n int32) func(*observed.Cluster) {
	return func(o *observed.Cluster) { o.Cluster.Spec.Instances = n }
}

// AllGone leaves no pod, and has the StatefulSet create none.
func AllGone(o *observed.Cluster) {
	for _, name := range []string{"shop-0", "shop-1", "shop-2"} {
		Lose(o, name)
	}
	ReplicasOfSet(o, 0)
}

// LeaseOf has the Lease of a data generation name its last holder.
func LeaseOf(generation, last string) func(*observed.Cluster) {
	return func(o *observed.Cluster) {
		o.Lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
			"howdah.dev/election": `{"generation":"` + generation + `","lastHolder":"` + last + `"}`,
		}}}
	}
}

// DamagedLease can't be read: somebody else has written to it.
func DamagedLease(o *observed.Cluster) {
	o.Lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "shop", Annotations: map[string]string{"howdah.dev/election": "{"}}}
}

// WindowOf is a maintenance window.
func WindowOf(schedule, zone string, length time.Duration) *v1alpha1.MaintenanceWindow {
	return &v1alpha1.MaintenanceWindow{Schedule: schedule, TimeZone: zone, Duration: metav1.Duration{Duration: length}}
}

// Ended has the last primary say how it has ended.
func Ended(instance, generation string, unarchived ...string) func(*observed.Cluster) {
	return func(o *observed.Cluster) {
		said, err := json.Marshal(agentapi.Shutdown{Instance: instance, DataGeneration: generation, Unarchived: unarchived, Error: "access denied"})
		if err != nil {
			panic(err)
		}
		metav1.SetMetaDataAnnotation(&o.Live[observed.Key("EndpointSlice", "shop-rw")].(*discoveryv1.EndpointSlice).ObjectMeta, agentapi.AnnotationShutdown, string(said))
	}
}

// OrNothing is the change, or none where it is nil.
func OrNothing(change func(*observed.Cluster)) func(*observed.Cluster) {
	if change == nil {
		return func(*observed.Cluster) {}
	}
	return change
}
