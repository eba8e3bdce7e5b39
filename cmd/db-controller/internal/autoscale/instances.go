package autoscale

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/availability"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/restartwindow"
	"howdah.dev/howdah/cmd/db-controller/internal/scaling"
	"howdah.dev/howdah/cmd/db-controller/internal/storage"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
)

const (
	// leastMeasured is how many seconds a replica must have been measured.
	leastMeasured = 240
	// beginsHere is the reason of the first number, after which nothing need wait: it changes nothing.
	beginsHere = "spec.autoscale.replicas begins with this number."
)

// ReplicasOf is spec.autoscale.replicas; nil: there is none.
func ReplicasOf(cluster *v1alpha1.PostgresCluster) *v1alpha1.AutoscaleReplicas {
	if cluster.Spec.Autoscale == nil {
		return nil
	}
	return cluster.Spec.Autoscale.Replicas
}

func appliesReplicas(cluster *v1alpha1.PostgresCluster) bool {
	spec := ReplicasOf(cluster)
	return spec != nil && spec.Mode == v1alpha1.AutoscaleApply
}

// DecideInstances records how many instances there are to be, before one is added or removed.
func DecideInstances(_ context.Context, o *observed.Cluster) flow.Outcome {
	if !appliesReplicas(o.Cluster) || !o.Begun() {
		return flow.Next
	}
	applied := o.Cluster.Status.AppliedReplicas()
	switch other := rival(o); {
	case other != "" && applied == nil:
		return flow.Next
	case other != "":
		o.Cluster.Status.Autoscale.Replicas.Applied = nil
		return flow.Save(v1alpha1.ReasonScaling, rivalry(other))
	case applied == nil || applied.SpecInstances != o.Cluster.Spec.Instances:
		return apply(o, beginning(o), beginsHere)
	}
	if applied.Previous != nil && hasJoined(o) {
		applied.Previous = nil // from now on it is removed like any other, however its pod fares
	}
	if why := noRoom(o); why != "" {
		back := *applied.Previous
		outcome := apply(o, back, "There was no room for more.")
		o.Cluster.Status.AppliedReplicas().Refused = observed.Bounded(why, 512)
		return outcome
	}
	next, why := nextInstances(o)
	if next == applied.Instances || hindersInstances(o, next) != "" {
		return flow.Next
	}
	outcome := apply(o, next, why)
	if next > applied.Instances {
		o.Cluster.Status.AppliedReplicas().Previous = &applied.Instances
	}
	return outcome
}

// lastPod is the pod of the instance that was added last; nil: there is none.
func lastPod(o *observed.Cluster) *corev1.Pod {
	return o.Pod(int(o.Cluster.Status.AppliedReplicas().Instances) - 1)
}

// hasJoined says that the instance that was added last has a copy of the data.
func hasJoined(o *observed.Cluster) bool {
	pod := lastPod(o)
	return pod != nil && observed.PodReady(pod)
}

// noRoom says why the instance that was added last gets no node, although it has waited for one; empty: it has one, or there is none.
func noRoom(o *observed.Cluster) string {
	applied := o.Cluster.Status.AppliedReplicas()
	if applied.Previous == nil || o.Now.Sub(applied.Since.Time) < applyPause || underWay(o) != "" {
		return ""
	}
	pod := lastPod(o)
	if pod == nil {
		return ""
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return fmt.Sprintf("Pod %s: %s", pod.Name, c.Message)
		}
	}
	return ""
}

// apply records a number of instances.
func apply(o *observed.Cluster, instances int32, why string) flow.Outcome {
	status := &o.Cluster.Status
	if status.Autoscale == nil {
		status.Autoscale = &v1alpha1.AutoscaleStatus{}
	}
	if status.Autoscale.Replicas == nil {
		status.Autoscale.Replicas = &v1alpha1.AutoscaleReplicasStatus{}
	}
	before := o.Wanted()
	status.Autoscale.Replicas.Applied = &v1alpha1.AppliedReplicas{Instances: instances, SpecInstances: o.Cluster.Spec.Instances, Reason: why, Since: *observed.TimeOf(o.Now)}
	if int(instances) == before {
		return flow.Save(v1alpha1.ReasonScaling, fmt.Sprintf("There are %d instances. %s", instances, why))
	}
	return flow.Save(v1alpha1.ReasonScaling, fmt.Sprintf("The number of instances changes from %d to %d. %s", before, instances, why))
}

// beginning is the number of instances that is there. A status that was lost must not have those removed that an earlier decision has added; what
// a person has written into spec since then counts.
func beginning(o *observed.Cluster) int32 {
	instances := o.Cluster.Spec.Instances
	if set := o.StatefulSet(); set != nil && o.Cluster.Status.AppliedReplicas() == nil {
		instances = max(instances, ptr.Deref(set.Spec.Replicas, 1))
	}
	return min(instances, observed.MaxInstances)
}

// nextInstances is one instance nearer to what is recommended.
func nextInstances(o *observed.Cluster) (instances int32, why string) {
	now := o.Cluster.DesiredInstances()
	least, leastWhy := leastReplicas(o)
	recommended := o.Cluster.Status.Autoscale.Replicas.Recommended
	switch most := ReplicasOf(o.Cluster).Max; {
	case now-1 < least:
		return now + 1, leastWhy
	case now-1 > most:
		return now - 1, "There are more replicas than spec.autoscale.replicas.max."
	case recommended == nil:
		return now, ""
	case recommended.Replicas > now-1 && now-1 < most:
		return now + 1, recommended.Reason
	case recommended.Replicas < now-1 && now-1 > least:
		return now - 1, recommended.Reason
	}
	return now, ""
}

// leastReplicas that there must be, and why.
func leastReplicas(o *observed.Cluster) (least int32, why string) {
	spec := &o.Cluster.Spec
	least, why = ReplicasOf(o.Cluster).Min, "spec.autoscale.replicas.min applies."
	if synchronous := spec.Synchronous; synchronous != nil {
		if needed := synchronous.Number + late(o, spec.Instances); needed > least {
			least, why = needed, "Fewer would be too few for spec.synchronous."
		}
	}
	for name, field := range named(spec) {
		if ordinal := o.Names.Ordinal(name); ordinal < int(spec.Instances) && int32(ordinal) > least {
			least, why = int32(ordinal), fmt.Sprintf("%s is named in %s.", name, field)
		}
	}
	return least, why
}

// named are the instances that spec gives a part of their own. Those with the highest numbers are removed first.
func named(spec *v1alpha1.PostgresClusterSpec) map[string]string {
	names := map[string]string{}
	for i := range spec.DelayedReplicas {
		names[spec.DelayedReplicas[i].Name] = "spec.delayedReplicas"
	}
	for i := range spec.Services.Additional {
		if name := spec.Services.Additional[i].Instance; name != "" {
			names[name] = "spec.services.additional"
		}
	}
	return names
}

// late is how many of the first instances replay WAL late.
func late(o *observed.Cluster, instances int32) (count int32) {
	for i := range o.Cluster.Spec.DelayedReplicas {
		if o.Names.Ordinal(o.Cluster.Spec.DelayedReplicas[i].Name) < int(instances) {
			count++
		}
	}
	return count
}

// WaitsForInstances says why the number of instances is not the recommended one; empty: it is, or nobody wants it to be.
func WaitsForInstances(o *observed.Cluster) string {
	if other := rival(o); other != "" {
		return rivalry(other)
	}
	if !appliesReplicas(o.Cluster) || o.Cluster.Status.AppliedReplicas() == nil {
		return ""
	}
	next, _ := nextInstances(o)
	if next == o.Cluster.DesiredInstances() {
		return ""
	}
	return hindersInstances(o, next)
}

// hindersInstances says why there are not that many instances now; empty: nothing speaks against it.
func hindersInstances(o *observed.Cluster, next int32) string {
	if why := underWay(o); why != "" {
		return why
	}
	if applied := o.Cluster.Status.AppliedReplicas(); applied != nil {
		switch since := o.Now.Sub(applied.Since.Time); {
		case applied.Refused != "" && since < refusePause && next > applied.Instances:
			return "The last instance was removed again, and the next one is tried a day later: " + applied.Refused
		case since < applyPause && applied.Reason != beginsHere:
			return "The last change was decided less than ten minutes ago."
		}
	}
	if found := scaling.Condition(o); found.Reason != "" {
		return found.Message
	}
	if why := unsettled(o); why != "" {
		return why
	}
	if int(next) < o.Wanted() {
		return againstRemoval(o, int(next))
	}
	return ""
}

// againstRemoval says why the instance with that ordinal is not removed now. A primary hands over first, which clients notice for a moment, so
// that happens in the maintenance window only.
func againstRemoval(o *observed.Cluster, ordinal int) string {
	name, least := o.Names.Instance(ordinal), 1
	if synchronous := o.Cluster.Spec.Synchronous; synchronous != nil {
		least = int(synchronous.Number)
	}
	streaming := availability.StreamingBeside(o, ordinal)
	switch window := o.Cluster.Spec.MaintenanceWindow; {
	case o.Primary() < 0:
		return "There is no primary."
	case o.Primary() == ordinal && window == nil:
		return fmt.Sprintf("%s is the primary, and would be the next to be removed: set spec.maintenanceWindow, in which it hands over first, "+
			"or switch over to an instance with a lower number, such as spec.switchover: {to: %s, token: a}.", name, o.Names.Instance(0))
	case o.Primary() == ordinal && !restartwindow.Open(o):
		return fmt.Sprintf("%s is the primary, and would be the next to be removed, for which it has to hand over.%s", name, restartwindow.Wait(o))
	case o.Primary() == ordinal:
		streaming-- // who takes over
	}
	if why := storage.KeepsCopies(o, name); why != "" {
		return fmt.Sprintf("%s is not removed. %s", name, why)
	}
	if repair := storage.HeldBackOn(o, name); repair != "" {
		return fmt.Sprintf("%s is not removed, because it may have commits that no other instance has, and spec.repair holds back what its data needs: %s", name, repair)
	}
	if streaming < least {
		return fmt.Sprintf("Without %s, too few replicas would stream.", name)
	}
	return ""
}

// rival names who sets spec.instances through the scale subresource, as a HorizontalPodAutoscaler does; empty: nobody, or a person.
func rival(o *observed.Cluster) string {
	for _, field := range o.Cluster.ManagedFields {
		if field.Subresource == "scale" && !strings.HasPrefix(field.Manager, "kubectl") && field.FieldsV1 != nil && strings.Contains(field.FieldsV1.GetRawString(), `"f:instances"`) {
			return field.Manager
		}
	}
	return ""
}

func rivalry(other string) string {
	return fmt.Sprintf("%s has set spec.instances through the scale subresource, as a HorizontalPodAutoscaler does. Only it or spec.autoscale.replicas may decide the number of instances. "+
		"Delete the HorizontalPodAutoscaler and set another number with kubectl scale, or remove spec.autoscale.replicas.", other)
}

// LoadOfReplicas is what the agents of the replicas say. unknown says why it can't be judged yet.
func LoadOfReplicas(o *observed.Cluster) (load ReplicaLoad, unknown string) {
	spec := ReplicasOf(o.Cluster)
	least, why := leastReplicas(o)
	load = ReplicaLoad{
		Replicas: o.Cluster.DesiredInstances() - 1, Late: late(o, o.Cluster.DesiredInstances()), Least: least, Most: max(spec.Max, least), LeastWhy: why,
	}
	if o.Primary() < 0 {
		return load, "There is no primary."
	}
	cpu, sessions := Measure{Name: "their CPU", Target: ptr.Deref(spec.CPUPercent, 0)}, Measure{Name: "their sessions", Target: ptr.Deref(spec.SessionsPercent, 0)}
	for ordinal := range o.Wanted() {
		name := o.Names.Instance(ordinal)
		if ordinal == o.Primary() || availability.Delayed(o, name) {
			continue
		}
		agent := o.Agent(ordinal)
		if agent == nil || agent.Replication == nil {
			return load, fmt.Sprintf("%s does not follow the primary yet.", name)
		}
		if cpu.Target > 0 && (agent.Usage == nil || agent.Usage.RecentSeconds < leastMeasured) || sessions.Target > 0 && (agent.Sessions == nil || agent.Sessions.Seconds < leastMeasured) {
			return load, fmt.Sprintf("%s has not been measured for %d minutes.", name, leastMeasured/60)
		}
		if cpu.Target > 0 {
			cpu.Used = append(cpu.Used, 100*agent.Usage.RecentCPUMillis/max(1, cores(o.Cluster)))
		}
		sessions.Used = append(sessions.Used, sessionsOf(agent))
	}
	for _, m := range []Measure{cpu, sessions} {
		if m.Target > 0 {
			load.Measures = append(load.Measures, m)
		}
	}
	return load, ""
}

func sessionsOf(agent *agentapi.Status) int64 {
	if agent.Sessions == nil {
		return 0
	}
	return agent.Sessions.Percent
}

// cores of an instance, in thousandths: the limit, or else the request.
func cores(cluster *v1alpha1.PostgresCluster) int64 {
	quantity, limited := cluster.Spec.Resources.Limits[corev1.ResourceCPU]
	if !limited {
		quantity = cluster.Spec.Resources.Requests[corev1.ResourceCPU]
	}
	return quantity.MilliValue()
}
