package availability

import (
	"fmt"

	"howdah.dev/howdah/cmd/db-controller/internal/desired"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/phrase"
	"howdah.dev/howdah/pkg/agentapi"
)

// defaultMaxLag is that of spec.maxLagOnFailover.
const defaultMaxLag = 16 << 20

// MaxLag is how far behind a replica may be to take over.
func MaxLag(o *observed.Cluster) int64 {
	if lag := o.Cluster.Spec.MaxLagOnFailover; lag != nil {
		return lag.Value()
	}
	return defaultMaxLag
}

// Unsettled says why the cluster shouldn't do without another instance now; empty: this one accepts connections, follows
// closely where it is a replica, and has applied its configuration.
func Unsettled(o *observed.Cluster, ordinal int) string {
	agent, name := o.Agent(ordinal), o.Names.Instance(ordinal)
	switch {
	case !o.Serving(ordinal):
		_, message := InstanceTrouble(o, ordinal)
		return message
	case agent == nil:
		return fmt.Sprintf("The agent of %s doesn't respond.%s", name, phrase.Prefixed(" ", Silent(o, o.Pod(ordinal))))
	case agent.State != agentapi.StateRunning:
		_, message := agentTrouble(name, agent)
		return message
	case desired.Changes(o, ordinal) == "" && !desired.ConfigApplied(agent, desired.AgentConfig(o).Hash()):
		return fmt.Sprintf("The agent of %s has yet to apply the configuration.", name)
	case ordinal == o.Primary():
		return ""
	}
	return Lags(o, name, agent)
}

// Delayed says whether a replica replays WAL late, so that nobody waits for it to follow closely.
func Delayed(o *observed.Cluster, name string) bool { return o.Cluster.Spec.Delay(name) > 0 }

// Lags says why a replica could not take over; empty: it could, or is not to.
func Lags(o *observed.Cluster, name string, agent *agentapi.Status) string {
	switch {
	case agent.Rejoin != nil:
		return fmt.Sprintf("%s is being prepared to follow the primary (%s).", name, agent.Rejoin.Method)
	case Delayed(o, name):
		return ""
	case ReadsArchive(agent):
		return fmt.Sprintf("%s reads WAL from the archive: the primary no longer has what it needs.", name)
	case agent.Replication == nil || !agent.Replication.Streaming:
		return fmt.Sprintf("%s doesn't receive WAL from the primary yet.", name)
	case agent.Replication.Overdue() > MaxLag(o):
		return fmt.Sprintf("%s lags %d MiB behind the primary.", name, agent.Replication.LagBytes>>20)
	}
	return ""
}

// ReadsArchive says whether the replica gets the WAL that the primary no longer has.
func ReadsArchive(agent *agentapi.Status) bool {
	return agent != nil && agent.Replication != nil && agent.Replication.FromArchive
}

// Streams says whether a replica receives WAL from the primary.
func Streams(o *observed.Cluster, ordinal int) bool {
	agent := o.Agent(ordinal)
	return agent != nil && agent.State == agentapi.StateRunning && agent.Replication != nil && agent.Replication.Streaming
}

// StreamingBeside is how many replicas stream beside one, and could take over.
func StreamingBeside(o *observed.Cluster, ordinal int) (count int) {
	for other := range o.Wanted() {
		if other != ordinal && other != o.Primary() && Streams(o, other) && !Delayed(o, o.Names.Instance(other)) {
			count++
		}
	}
	return count
}

// Heir is the instance below an ordinal that should be primary after the one that is; negative: none is fit.
func Heir(o *observed.Cluster, below int) int {
	best := -1
	for ordinal := range below {
		name := o.Names.Instance(ordinal)
		if ordinal == o.Primary() || o.Cluster.Spec.Failover.Never(name) || Delayed(o, name) || o.Cluster.Spec.Failover.IsFenced(name) || Unsettled(o, ordinal) != "" {
			continue
		}
		if best < 0 || comesBefore(o, ordinal, best) {
			best = ordinal
		}
	}
	return best
}

// comesBefore says which of two is to be primary: by priority, then the one that lags least. Both get everything before.
func comesBefore(o *observed.Cluster, ordinal, other int) bool {
	failover := o.Cluster.Spec.Failover
	mine, others := failover.Priority(o.Names.Instance(ordinal)), failover.Priority(o.Names.Instance(other))
	return mine > others || mine == others && o.Agent(ordinal).Replication.LagBytes < o.Agent(other).Replication.LagBytes
}
