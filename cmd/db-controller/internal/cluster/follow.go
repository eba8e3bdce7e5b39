package cluster

import (
	"fmt"
	"strconv"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/statefulset"
	"howdah.dev/howdah/pkg/agentapi"
)

// defaultMaxLag is that of spec.maxLagOnFailover.
const defaultMaxLag = 16 << 20

// maxLag is how far behind a replica may be to take over.
func (w *world) maxLag() int64 {
	if lag := w.cluster.Spec.MaxLagOnFailover; lag != nil {
		return lag.Value()
	}
	return defaultMaxLag
}

// unsettled says why the cluster shouldn't do without another instance now; empty: this one takes connections, follows
// closely where it is a replica, and has applied its configuration.
func (w *world) unsettled(ordinal int) string {
	agent, name := w.agent(ordinal), w.names.Instance(ordinal)
	switch {
	case !w.serving(ordinal):
		_, message := instanceTrouble(w, ordinal)
		return message
	case agent == nil:
		return fmt.Sprintf("The agent of %s doesn't answer.", name)
	case agent.State != agentapi.StateRunning:
		_, message := agentTrouble(name, agent)
		return message
	case w.changes(ordinal) == "" && !configApplied(agent, w.agentConfig().Hash()):
		return fmt.Sprintf("The agent of %s has yet to apply the configuration.", name)
	case ordinal == w.primary():
		return ""
	}
	return w.behind(name, agent)
}

// behind says why a replica could not take over; empty: it could.
func (w *world) behind(name string, agent *agentapi.Status) string {
	switch {
	case agent.Rejoin != nil:
		return fmt.Sprintf("%s is being made fit to follow the primary (%s).", name, agent.Rejoin.Method)
	case readsArchive(agent):
		return fmt.Sprintf("%s reads the archive: the primary has no more the WAL that it needs.", name)
	case agent.Replication == nil || !agent.Replication.Streaming:
		return fmt.Sprintf("%s doesn't get WAL from the primary yet.", name)
	case agent.Replication.LagBytes > w.maxLag():
		return fmt.Sprintf("%s is %d MiB behind the primary.", name, agent.Replication.LagBytes>>20)
	}
	return ""
}

// readsArchive: the replica gets the WAL that the primary has no more.
func readsArchive(agent *agentapi.Status) bool {
	return agent != nil && agent.Replication != nil && agent.Replication.FromArchive
}

// configApplied: the agent has applied the configuration, or has said why it can't.
func configApplied(agent *agentapi.Status, wanted string) bool {
	return agent.ConfigHash == wanted || agent.ConfigError != "" && agent.ConfigErrorHash == wanted
}

// changes says for what the pod of an instance has to be replaced; empty: it doesn't have to be, or isn't there.
func (w *world) changes(ordinal int) string {
	pod := w.pod(ordinal)
	if pod == nil {
		return ""
	}
	state, why := w.resizeOf(pod)
	if state != statefulset.ResizeNot {
		return "" // it gets them while it runs
	}
	changes := statefulset.Changes(pod, w.cluster, w.inputs(1))
	if why != "" && changes != "" {
		changes += " (" + why + ")"
	}
	return changes
}

// pending are the parameters for which PostgreSQL in an instance has to be restarted.
func (w *world) pending(ordinal int) []string {
	agent := w.agent(ordinal)
	if agent == nil || agent.ConfigHash != w.agentConfig().Hash() || w.mayWait(w.pod(ordinal), agent.PendingRestart, agent.StartedAt) {
		return nil
	}
	return agent.PendingRestart
}

// standbyDefaults are the parameters of which a replica must not have less than its primary, with PostgreSQL's defaults.
var standbyDefaults = map[string]int64{
	"max_connections": 100, "max_worker_processes": 8, "max_wal_senders": 10, "max_prepared_transactions": 0, "max_locks_per_transaction": 64,
}

// standbyLimits are those of them that spec sets.
func standbyLimits(cluster *v1alpha1.PostgresCluster) map[string]v1alpha1.ParameterValue {
	limits := map[string]v1alpha1.ParameterValue{}
	for name := range standbyDefaults {
		if value, set := cluster.Spec.PostgreSQL.Parameters[name]; set {
			limits[name] = value
		}
	}
	return limits
}

// lowered is the parameter that is to become less than the primary runs with, so that the primary has to be restarted
// before its replicas; empty: none is.
func (w *world) lowered() string {
	wanted, runs := standbyLimits(w.cluster), w.cluster.Status.StandbyLimits
	for _, name := range w.pending(w.primary()) {
		fallback, known := standbyDefaults[name]
		if known && limitOf(wanted[name], fallback) < limitOf(runs[name], fallback) {
			return name
		}
	}
	return ""
}

func limitOf(value v1alpha1.ParameterValue, fallback int64) int64 {
	if n, err := strconv.ParseInt(string(value), 0, 64); err == nil {
		return n
	}
	return fallback
}
