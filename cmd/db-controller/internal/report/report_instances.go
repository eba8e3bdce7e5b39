package report

import (
	"math/bits"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/desired"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/rolling"
	"howdah.dev/howdah/cmd/db-controller/internal/storage"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/workload"
)

// reportInstances publishes what is known of each instance. What only an agent knows stays as it was last said, as long
// as the pod is the same.
func reportInstances(o *observed.Cluster) {
	status := &o.Cluster.Status
	known := status.Instances
	status.Instances, status.ReadyInstances = nil, 0
	for ordinal := range max(o.Wanted(), o.Reach()) {
		instance := instanceOf(o, ordinal, known)
		if instance.Ready {
			status.ReadyInstances++
		}
		status.Instances = append(status.Instances, instance)
	}
	primary := o.Primary()
	if pod := o.Pod(primary); pod != nil && status.Instances[primary].Role == v1alpha1.RolePrimary {
		status.Primary = pod.Name
		if image := workload.AgentImage(pod); image != "" {
			status.AgentImage = image
		}
	}
	if agent := o.Agent(primary); agent != nil && agent.Role == string(v1alpha1.RolePrimary) {
		reportPrimary(o, agent)
	}
}

func instanceOf(o *observed.Cluster, ordinal int, known []v1alpha1.InstanceStatus) v1alpha1.InstanceStatus {
	instance := v1alpha1.InstanceStatus{
		Name: o.Names.Instance(ordinal), Volume: o.Names.Volume(ordinal), Storage: storage.InstanceStorage(o, ordinal, known), Copies: storage.Copies(o, o.Names.Instance(ordinal)),
	}
	if claim := o.Claim(ordinal); claim != nil {
		instance.VolumeUID = claim.UID
	}
	pod := o.Pod(ordinal)
	if pod == nil {
		return instance
	}
	if before := knownInstance(known, pod); before != nil {
		now := instance
		instance = *before
		instance.Storage, instance.VolumeUID, instance.Copies = now.Storage, now.VolumeUID, now.Copies
	}
	instance.PodUID, instance.Node, instance.Address = pod.UID, pod.Spec.NodeName, pod.Status.PodIP
	instance.Ready = o.Serving(ordinal)
	if role := pod.Labels[v1alpha1.LabelRole]; role != "" {
		instance.Role = v1alpha1.InstanceRole(role)
	}
	if agent := o.Agent(ordinal); agent != nil {
		reportAgent(agent, &instance)
		instance.Fenced = isFenced(o, instance.Name, agent)
	}
	primary := o.Primary()
	if instance.Role == v1alpha1.RolePrimary && primary >= 0 && primary != ordinal {
		instance.Role = "" // it was, and has not been heard of since
	}
	if agent := o.Agent(primary); agent != nil && agent.Election != nil {
		instance.Eligible = slices.Contains(agent.Election.Members, instance.Name)
	}
	return instance
}

func knownInstance(instances []v1alpha1.InstanceStatus, pod *corev1.Pod) *v1alpha1.InstanceStatus {
	for i := range instances {
		if instances[i].Name == pod.Name && instances[i].PodUID == pod.UID {
			return &instances[i]
		}
	}
	return nil
}

// reportAgent takes over what an agent says of its instance.
func reportAgent(agent *agentapi.Status, instance *v1alpha1.InstanceStatus) {
	if agent.Role != "" {
		instance.Role = v1alpha1.InstanceRole(agent.Role)
	}
	instance.Timeline, instance.ConfigHash = agent.Timeline, agent.ConfigHash
	instance.PendingRestart, instance.Message = agent.PendingRestart, agent.Message
	instance.Streaming, instance.LagBytes, instance.LagSeconds, instance.DelaySeconds, instance.ReplayPaused = false, 0, 0, 0, false
	if follows := agent.Replication; follows != nil {
		instance.Streaming = follows.Streaming
		instance.LagBytes, instance.LagSeconds = roughBytes(follows.LagBytes), roughSeconds(follows.LagSeconds)
		instance.DelaySeconds, instance.ReplayPaused = follows.DelaySeconds, follows.ReplayPaused
	}
	instance.Rejoin = rejoinOf(agent.Rejoin, instance.Rejoin)
}

// roughBytes is a lag as it is published: it changes all the time, and a status that is written each time would cost more
// than it tells. It is rounded down to 0, or to a power of two of MiB.
func roughBytes(lag int64) int64 {
	if lag < 1<<20 {
		return 0
	}
	return 1 << (bits.Len64(uint64(lag)) - 1)
}

// roughSeconds is 0 below ten, and rounded down to tens or minutes.
func roughSeconds(lag float64) int64 {
	seconds := int64(lag)
	if seconds < 60 {
		return seconds / 10 * 10
	}
	return seconds / 60 * 60
}

// rejoinOf publishes each percent of the work, and no more.
func rejoinOf(seen *agentapi.RejoinStatus, before *v1alpha1.RejoinStatus) *v1alpha1.RejoinStatus {
	if seen == nil {
		return nil
	}
	rejoin := &v1alpha1.RejoinStatus{
		Method: seen.Method, Source: seen.Source, Attempts: int32(seen.Attempts), Message: seen.Message,
		BytesDone: seen.BytesDone, BytesTotal: seen.BytesTotal,
	}
	if seen.BytesTotal > 0 {
		rejoin.Percent = int32(min(100, float64(seen.BytesDone)*100/float64(seen.BytesTotal)))
	}
	if before != nil && before.Percent == rejoin.Percent && before.BytesTotal > 0 {
		rejoin.BytesDone, rejoin.BytesTotal = before.BytesDone, before.BytesTotal
	}
	return rejoin
}

// reportPrimary takes over what the primary's agent says of the cluster.
func reportPrimary(o *observed.Cluster, agent *agentapi.Status) {
	status := &o.Cluster.Status
	if agent.Timeline != 0 {
		status.Timeline = agent.Timeline
	}
	if agent.SystemIdentifier != "" {
		status.SystemIdentifier = agent.SystemIdentifier
	}
	if agent.Version != "" {
		status.Version = agent.Version
	}
	status.Maintenance, status.MaintenanceMessages = agent.Maintenance, agent.MaintenanceMessages
	status.Synchronous = synchronousOf(o, agent)
	status.Tuning = tuningOf(agent)
	if agent.ConfigHash == desired.AgentConfig(o).Hash() && len(desired.PendingRestart(o, o.Primary())) == 0 {
		status.StandbyLimits = rolling.StandbyLimits(o.Cluster)
	}
}

func tuningOf(agent *agentapi.Status) map[string]v1alpha1.ParameterValue {
	if len(agent.Tuned) == 0 {
		return nil
	}
	tuning := make(map[string]v1alpha1.ParameterValue, len(agent.Tuned))
	for name, value := range agent.Tuned {
		tuning[name] = v1alpha1.ParameterValue(value)
	}
	return tuning
}

func synchronousOf(o *observed.Cluster, agent *agentapi.Status) *v1alpha1.SynchronousStatus {
	if o.Cluster.Spec.Synchronous == nil || agent.Election == nil {
		return nil
	}
	now := &v1alpha1.SynchronousStatus{
		Members: slices.Sorted(slices.Values(agent.Election.Members)), Quorum: int32(agent.Election.Quorum),
	}
	if agent.Election.Degraded {
		now.ReducedSince = &metav1.Time{Time: o.Now}
		if before := o.Cluster.Status.Synchronous; before != nil && before.ReducedSince != nil {
			now.ReducedSince = before.ReducedSince
		}
	}
	return now
}
