package cluster

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/availability"
	"howdah.dev/howdah/cmd/db-controller/internal/desired"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/pace"
	"howdah.dev/howdah/cmd/db-controller/internal/report"
	"howdah.dev/howdah/cmd/db-controller/internal/restartwindow"
	"howdah.dev/howdah/cmd/db-controller/internal/scaling"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
)

// declaredInterval is how soon to look again for the sake of what is declared.
func declaredInterval(o *observed.Cluster) time.Duration {
	if o.Begun() && desired.AgentConfig(o).Declared != nil && report.Declared(o).Reason != v1alpha1.ReasonCurrent {
		return pace.UnknownInterval
	}
	if o.Begun() && len(o.Cluster.Spec.ReplicationSlots) > 0 && report.Slots(o).Reason != v1alpha1.ReasonCurrent {
		return pace.UnknownInterval
	}
	if o.CertificatesReady.Reason == v1alpha1.ReasonApplying {
		return pace.UnknownInterval
	}
	if len(observed.PassedOver(o)) > 0 {
		return pace.UnknownInterval // what is somebody else's is not watched
	}
	return restInterval(o)
}

// restInterval is how soon to look again at a cluster that needs nothing: sooner where something is read that is not watched, or where
// something is due at a time.
func restInterval(o *observed.Cluster) time.Duration {
	if readsUnwatched(o) || o.Cluster.Spec.Autoscale != nil || o.RolloutWait != "" || !settled(o.Cluster) {
		return pace.QuietInterval
	}
	return pace.RestInterval
}

// readsUnwatched: spec names Secrets or ConfigMaps that are a person's.
func readsUnwatched(o *observed.Cluster) bool {
	spec := &o.Cluster.Spec
	return len(o.Passwords)+len(o.NoPasswords) > 0 || spec.TLS.ServerSecret != nil || spec.TLS.ClientCABundle != nil ||
		spec.PostgreSQL.LDAPCA != nil ||
		spec.Monitoring != nil && len(spec.Monitoring.CustomQueriesConfigMap) > 0 ||
		slices.ContainsFunc(spec.Roles, func(role v1alpha1.Role) bool { return role.CertificateSecret != nil })
}

// settled: no condition waits for anything. One that is False because a person wants it so is settled, too.
func settled(cluster *v1alpha1.PostgresCluster) bool {
	return !slices.ContainsFunc(cluster.Status.Conditions, func(c metav1.Condition) bool {
		return c.Status != metav1.ConditionTrue && c.Reason != v1alpha1.ReasonNotConfigured
	})
}

// lookAgain is when to look although nothing woke us.
func (r *Reconciler) lookAgain(o *observed.Cluster, outcome flow.Outcome) time.Duration {
	switch {
	case outcome.Finished():
		interval := pollInterval(o)
		if interval < pace.QuietInterval {
			return interval
		}
		return pace.Spread(interval, r.random())
	case o.Own.Lags() && outcome.After == 0:
		return pace.UnknownInterval // what we go by may be gone
	}
	return outcome.After
}

// pollInterval after a pass that found nothing to do.
func pollInterval(o *observed.Cluster) time.Duration {
	primary := o.PrimaryAgent()
	if primary != nil && len(primary.Maintenance) > 0 || scaling.Condition(o).Reason != "" || report.Resizing(o).Reason != "" {
		return pace.BusyInterval
	}
	interval := declaredInterval(o)
	for ordinal := range max(o.Reach(), o.Wanted()) {
		agent := o.Agent(ordinal)
		switch {
		case agent == nil || agent.Rejoin != nil:
			interval = pace.UnknownInterval
		case !desired.ConfigApplied(agent, desired.AgentConfig(o).Hash()) || len(desired.PendingRestart(o, ordinal)) > 0 && restartwindow.Open(o) && o.RolloutWait == "":
			return pace.BusyInterval
		case ordinal != o.Primary() && (availability.Lags(o, agent.Pod, agent) != "" || !counted(primary, agent.Pod) && !availability.Delayed(o, agent.Pod)):
			if joining(o, ordinal) {
				return pace.BusyInterval
			}
			interval = pace.UnknownInterval
		}
	}
	return interval
}

// counted: the primary has the instance among those that may take over.
func counted(primary *agentapi.Status, name string) bool {
	return primary == nil || primary.Election == nil || slices.Contains(primary.Election.Members, name)
}

// joinTime is how long a replica may take until it follows and counts, from when its pod is ready, or when Replicated has become
// false; then something is wrong.
const joinTime = 30 * time.Second

// joining: the replica may follow and count any moment.
func joining(o *observed.Cluster, ordinal int) bool {
	var since time.Time
	if pod := o.Pod(ordinal); pod != nil && observed.PodReady(pod) {
		since = observed.ReadyCondition(pod).LastTransitionTime.Time
	}
	all := meta.FindStatusCondition(o.Cluster.Status.Conditions, v1alpha1.ConditionReplicated)
	if all != nil && all.Status == metav1.ConditionFalse && all.LastTransitionTime.After(since) {
		since = all.LastTransitionTime.Time
	}
	return o.Now.Sub(since) < joinTime
}
