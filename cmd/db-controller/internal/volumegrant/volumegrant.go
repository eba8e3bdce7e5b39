package volumegrant

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/availability"
	"howdah.dev/howdah/cmd/db-controller/internal/component/statefulset"
	"howdah.dev/howdah/cmd/db-controller/internal/desired"
	"howdah.dev/howdah/cmd/db-controller/internal/finalbackup"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/pace"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
)

// handedOver is the instance whose volume has what is handed over. It is the first that the requester was granted; when an
// adoption is taken back, the previous data is still where it was.
func handedOver(o *observed.Cluster, request *protocol.LockRequest) string {
	if named := request.Handover.Instance; named != "" {
		return named
	}
	for _, lock := range o.Cluster.Status.VolumeLocks {
		if lock.RequesterUID == request.UID && lock.Token == request.Request.Token && len(lock.Volumes) > 0 {
			return lock.Volumes[0].Instance
		}
	}
	if begun := o.Cluster.Status.DataInstance; begun != "" {
		return begun
	}
	return o.Names.Instance(o.DataInstance())
}

// beginOn records which instance begins the data generation.
func beginOn(o *observed.Cluster, instance string) {
	o.Cluster.Status.DataInstance = instance
	if o.HasRun() {
		o.Cluster.Status.Primary = instance // as nobody was on this data since
	}
}

// RecordServed records that clients were led to what was adopted, before anybody acts on a Handover that takes it back.
func RecordServed(_ context.Context, o *observed.Cluster) flow.Outcome {
	status := &o.Cluster.Status
	if !served(o) {
		return flow.Next
	}
	locks := protocol.Serve(status.VolumeLocks, status.DataGeneration, *observed.TimeOf(o.Now))
	if equality.Semantic.DeepEqual(locks, status.VolumeLocks) {
		return flow.Next
	}
	status.VolumeLocks = locks
	return flow.Save(v1alpha1.ReasonRunning, fmt.Sprintf("Data generation %s serves clients.", status.DataGeneration))
}

// served reports that clients may have written to the data that the cluster runs on: they are led to its primary, or were before,
// as the EndpointSlice says. Where the data is about to be taken back, a primary that accepts connections is enough.
func served(o *observed.Cluster) bool {
	serves := o.Serving(o.Primary()) && (availability.Reachable(o) || MustBeStopped(o))
	return serves || availability.LedTo(o) == o.Cluster.Status.DataGeneration
}

// AdoptHandover records that the cluster runs on what the holder hands over from now on. Only then a pod is started on it.
func AdoptHandover(_ context.Context, o *observed.Cluster) flow.Outcome {
	status := &o.Cluster.Status
	request := protocol.PendingHandover(status.VolumeLocks, o.Requests)
	if request == nil || Adopted(o) && !o.Vacated() { // who still runs may yet serve clients
		return flow.Next
	}
	handover, instance := request.Handover, handedOver(o, request)
	if gone := gone(o, handover, instance); gone != "" {
		status.VolumeLocks = protocol.RefuseHandover(status.VolumeLocks, request, gone)
		return flow.Save(v1alpha1.ReasonStarting, gone)
	}
	if status.DataGeneration != handover.DataGeneration {
		status.PreviousDataGeneration = status.DataGeneration
		if !o.HasRun() {
			status.PreviousDataGeneration = "" // there was nothing yet
		}
		status.DataGeneration = handover.DataGeneration
	}
	beginOn(o, instance)
	status.SystemIdentifier = handover.SystemIdentifier
	status.MajorVersion = handover.MajorVersion
	status.Version = fmt.Sprint(handover.MajorVersion)
	status.Image = handover.Image
	status.Timeline = 0
	status.Adoptions++
	status.VolumeLocks = protocol.Adopt(status.VolumeLocks, request)
	return flow.Save(v1alpha1.ReasonStarting, fmt.Sprintf("The data of %s %s is being adopted.", request.Kind, request.Name))
}

// gone says that the volume which a Handover is about no longer exists; empty: it does, as far as the Handover says which one it is.
func gone(o *observed.Cluster, handover *v1alpha1.Handover, instance string) string {
	claim := o.Claim(o.Names.Ordinal(instance))
	if handover.VolumeUID == "" || claim != nil && claim.UID == handover.VolumeUID {
		return ""
	}
	return fmt.Sprintf("Data generation %s was on the volume of %s, which was deleted; the cluster continues with data generation %s.",
		handover.DataGeneration, instance, o.Cluster.Status.DataGeneration)
}

// Respond says to everybody who requests the volumes how their request stands.
func Respond(_ context.Context, o *observed.Cluster) flow.Outcome {
	locks := protocol.VolumeLocks(o.Cluster.Status.VolumeLocks, o.Requests, facts(o))
	if equality.Semantic.DeepEqual(locks, o.Cluster.Status.VolumeLocks) {
		return flow.Next
	}
	o.Cluster.Status.VolumeLocks = locks
	if Granted(o) && o.HasRun() {
		// The Lease speaks of the previous data; whose volume the new data comes onto has to be known beyond that.
		o.Cluster.Status.Primary = o.Names.Instance(o.DataInstance())
	}
	reason, message := LockedBy(o)
	if reason == "" {
		reason, message = v1alpha1.ReasonStarting, "The volumes belong to the cluster again."
	}
	return flow.Save(reason, message)
}

func facts(o *observed.Cluster) protocol.LockFacts {
	facts := protocol.LockFacts{}
	for _, claim := range o.ExistingClaims() {
		facts.Volumes = append(facts.Volumes, v1alpha1.LockedVolume{Instance: protocol.InstanceOf(claim.Name), ClaimName: claim.Name, UID: claim.UID})
	}
	facts.Now, facts.Stopped = o.Now, o.Vacated() && Fenced(o) && len(facts.Volumes) > 0
	facts.Shutdown, facts.Archived = shutdown(o.Pod(o.DataInstance())), o.HasRun() && finalbackup.Unproven(o) == ""
	facts.Obstacle, facts.Stuck = availability.Unstoppable(o), availability.NeverEnds(o)
	if unknown := observed.LastUnknown(o); unknown != "" { // the first of Volumes would be a guess, and the others are rebuilt from it
		facts.Stopped, facts.Obstacle, facts.Stuck = false, cmp.Or(facts.Obstacle, unknown), cmp.Or(facts.Stuck, unknown)
	}
	if pod := o.Unheard(observed.PodReady); facts.Obstacle == "" && pod != "" {
		facts.Obstacle = fmt.Sprintf("The agent of pod %s doesn't respond. Nothing is stopped before it has said which data its volume has.", pod)
	}
	facts.Untold, facts.Lacking = untold(o), lacking(o)
	if o.Deleting() {
		facts.Refusal = "The PostgresCluster is being deleted."
	}
	return facts
}

// lacking says who has requested the volumes to bring data back that is on no volume any more, by the word of the agent there. One that says
// nothing of its copies is of an earlier suite.
func lacking(o *observed.Cluster) map[types.UID]string {
	lacks := map[types.UID]string{}
	for i := range o.Requests {
		back := o.Requests[i].BringsBack
		if back == nil {
			continue
		}
		agent := o.Agents[back.Instance]
		has := func(copied agentapi.Copy) bool { return copied.Of == back.DataGeneration }
		if agent != nil && len(agent.Copies) > 0 && !slices.ContainsFunc(agent.Copies, has) {
			lacks[o.Requests[i].UID] = fmt.Sprintf("The volume of %s has no complete copy of the previous data, data generation %s.", back.Instance, back.DataGeneration)
		}
	}
	return lacks
}

// untold says which instance does not know yet that replicas end after their primary; empty: each one does. An agent that has no use for the configuration has said why, and whoever asked looks at the data afterwards.
func untold(o *observed.Cluster) string {
	if protocol.Holder(o.Cluster.Status.VolumeLocks, o.Requests) == nil || o.ToldInstances() < 2 {
		return ""
	}
	told := desired.AgentConfig(o)
	for i := range o.Pods {
		pod := &o.Pods[i]
		agent := o.Agent(o.Names.Ordinal(pod.Name))
		if agent == nil && !observed.PodReady(pod) { // it may be down for long, and what it lacks is found out afterwards
			continue
		}
		if !told.ReplicasLast || agent == nil || !desired.ConfigApplied(agent, told.Hash()) {
			return fmt.Sprintf("Waiting for the agent of %s to acknowledge that replicas stop after the primary. Nothing is stopped until then. "+
				"If this lasts, the agent is that of an earlier suite: delete the pod, and it is created again with the current one.", pod.Name)
		}
	}
	return ""
}

// AwaitTold looks again soon, as no watch tells of what an agent knows.
func AwaitTold(_ context.Context, o *observed.Cluster) flow.Outcome {
	if why := untold(o); why != "" && !MustBeStopped(o) {
		return flow.Poll(pace.BusyInterval, v1alpha1.ReasonApplying, why)
	}
	return flow.Next
}

// Fenced says whether no db-controller can start an instance that has not seen the lock which is to be granted: the StatefulSet carries
// its token, and one that is written on another version, or created where there is one, is refused. One of another process that was
// held up between its look and its write knows nothing of the lock. Before there is data, nobody has anything to start.
func Fenced(o *observed.Cluster) bool {
	set := o.StatefulSet()
	if set == nil {
		return !o.HasRun()
	}
	token := o.LockToken()
	return token != "" && set.Annotations[statefulset.AnnotationVolumeLock] == token
}

// shutdown is how the server in a pod ended; empty: it runs, or nothing is left to tell. The agent exits with another status than 0
// where the server was not shut down cleanly, and one that was killed tells by its own.
func shutdown(pod *corev1.Pod) v1alpha1.ShutdownState {
	if pod == nil {
		return ""
	}
	for _, container := range pod.Status.ContainerStatuses {
		switch ended := container.State.Terminated; {
		case container.Name != statefulset.ContainerName || ended == nil:
		case ended.ExitCode == 0:
			return v1alpha1.ShutdownClean
		default:
			return v1alpha1.ShutdownUnclean
		}
	}
	return ""
}

// MustBeStopped says whether somebody holds the volume lock, or is about to.
func MustBeStopped(o *observed.Cluster) bool {
	return protocol.MustBeStopped(o.Cluster.Status.VolumeLocks, o.Requests)
}

// Granted says whether somebody has been granted the volumes and has not given them back.
func Granted(o *observed.Cluster) bool {
	for _, lock := range o.Cluster.Status.VolumeLocks {
		if lock.State == v1alpha1.VolumeLockGranted || lock.State == v1alpha1.VolumeLockAdopted {
			return true
		}
	}
	return false
}

// Adopted says whether the cluster runs on what was handed over, under a lock that is not over.
func Adopted(o *observed.Cluster) bool {
	return slices.ContainsFunc(o.Cluster.Status.VolumeLocks, func(lock v1alpha1.VolumeLock) bool { return lock.State == v1alpha1.VolumeLockAdopted })
}

// LockedBy says for whom PostgreSQL is stopped; an empty reason: for nobody.
func LockedBy(o *observed.Cluster) (reason, message string) {
	holder := protocol.Holder(o.Cluster.Status.VolumeLocks, o.Requests)
	if holder == nil || !MustBeStopped(o) {
		return "", ""
	}
	for _, lock := range o.Cluster.Status.VolumeLocks {
		if lock.RequesterUID == holder.UID && lock.State == v1alpha1.VolumeLockGranted {
			return v1alpha1.ReasonVolumesLocked, fmt.Sprintf("%s %s holds the volume lock.", holder.Kind, holder.Name)
		}
	}
	return v1alpha1.ReasonVolumesLocked, fmt.Sprintf("PostgreSQL is being stopped for %s %s.%s", holder.Kind, holder.Name, availability.Stuck(o))
}

// AwaitUnlocked waits until the volumes belong to the cluster again.
func AwaitUnlocked(_ context.Context, o *observed.Cluster) flow.Outcome {
	reason, message := LockedBy(o)
	if reason == "" {
		return flow.Next
	}
	if !o.Stopped() {
		return flow.Poll(pace.BusyInterval, reason, message)
	}
	if deadline := deadline(o); deadline != nil {
		return flow.Poll(max(time.Second, deadline.Sub(o.Now)+time.Second), reason, message)
	}
	return flow.Wait(reason, message)
}

// deadline of the lock that is granted; nil: there is none.
func deadline(o *observed.Cluster) *metav1.Time {
	for _, lock := range o.Cluster.Status.VolumeLocks {
		if lock.State == v1alpha1.VolumeLockGranted {
			return lock.Deadline
		}
	}
	return nil
}

// AwaitRelease lets a deletion wait for whoever holds the volume lock.
func AwaitRelease(_ context.Context, o *observed.Cluster) flow.Outcome {
	if !Granted(o) {
		return flow.Next
	}
	holder := protocol.Holder(o.Cluster.Status.VolumeLocks, o.Requests)
	if holder == nil {
		return flow.Poll(pace.BusyInterval, v1alpha1.ReasonVolumesLocked, "The deletion waits for the volume lock to be released.")
	}
	return flow.Poll(pace.QuietInterval, v1alpha1.ReasonVolumesLocked, fmt.Sprintf(
		"The deletion waits for %s %s, which holds the volume lock. Wait until it has ended, or cancel it with spec.cancel: true.", holder.Kind, holder.Name))
}
