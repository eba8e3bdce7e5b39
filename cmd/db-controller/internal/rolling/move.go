package rolling

import (
	"fmt"
	"strconv"
	"time"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/availability"
	"howdah.dev/howdah/cmd/db-controller/internal/component/statefulset"
	"howdah.dev/howdah/cmd/db-controller/internal/desired"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/phrase"
)

// standbyDefaults are the parameters of which a replica must not have less than its primary, with PostgreSQL's defaults.
var standbyDefaults = map[string]int64{
	"max_connections": 100, "max_worker_processes": 8, "max_wal_senders": 10, "max_prepared_transactions": 0, "max_locks_per_transaction": 64,
}

// StandbyLimits are those of them that spec sets.
func StandbyLimits(cluster *v1alpha1.PostgresCluster) map[string]v1alpha1.ParameterValue {
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
func lowered(o *observed.Cluster) string {
	wanted, runs := StandbyLimits(o.Cluster), o.Cluster.Status.StandbyLimits
	for _, name := range desired.PendingRestart(o, o.Primary()) {
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

// MoveKind is what is done to bring an instance up to date.
type MoveKind string

const (
	MoveNone    MoveKind = ""
	moveWait    MoveKind = "wait"
	MoveReplace MoveKind = "replace"
	MoveRestart MoveKind = "restart"
	moveSwitch  MoveKind = "switch over to"
)

// move is the next thing that is done to bring instances up to date.
type move struct {
	Kind     MoveKind
	Instance int
	// Why in words: what the instance has to be replaced or restarted for, or what is waited for.
	Why string
}

// NextMove is one instance at a time, replicas first, then the primary, which gives its role away before. It is pure. No pod is replaced
// that alone keeps a volume from being deleted.
func NextMove(o *observed.Cluster) move {
	next := nextMove(o)
	switch {
	case next.Kind == MoveReplace && availability.Endangers(o, next.Instance):
		return move{moveWait, next.Instance, availability.Endangered(o)}
	case next.Kind == MoveReplace && leftAlone(o, next.Instance):
		return move{moveWait, next.Instance, fmt.Sprintf("It is down, and spec.repair has it left as it is until %s.", o.Cluster.Spec.Repair.PausedUntil.UTC().Format(time.RFC3339))}
	}
	return next
}

// leftAlone: the instance is down, and a person wants to look at it. Another pod would start its PostgreSQL.
func leftAlone(o *observed.Cluster, ordinal int) bool {
	pod := o.Pod(ordinal)
	return o.Cluster.Spec.Repair.Paused(o.Now) && down(o, ordinal) && pod.Spec.NodeName != "" &&
		pod.Annotations[statefulset.AnnotationDataGeneration] == o.Cluster.Status.DataGeneration
}

func nextMove(o *observed.Cluster) move {
	if !o.Electing() {
		return moveOf(o, 0)
	}
	for ordinal := o.Reach() - 1; ordinal >= 0; ordinal-- {
		// Nothing is lost by replacing what is down anyway, and what is wrong with it may be what was changed.
		if down(o, ordinal) && desired.Changes(o, ordinal) != "" {
			return moveOf(o, ordinal)
		}
	}
	due := dueInstances(o)
	if len(due) == 0 {
		return move{}
	}
	primary := o.Primary()
	if wait := whyWait(o); wait != "" {
		return move{moveWait, due[0], wait}
	}
	if name := lowered(o); name != "" {
		// A replica must not have less of it than its primary, not even for a moment.
		return move{MoveRestart, primary, phrase.List(desired.PendingRestart(o, primary))}
	}
	if due[0] != primary {
		return moveOf(o, due[0])
	}
	if heir := availability.Heir(o, o.Reach()); heir >= 0 {
		return move{moveSwitch, heir, moveOf(o, primary).Why}
	}
	return moveOf(o, primary)
}

// moveOf is what one instance needs by itself.
func moveOf(o *observed.Cluster, ordinal int) move {
	if changes := desired.Changes(o, ordinal); changes != "" {
		return move{MoveReplace, ordinal, changes}
	}
	if pending := desired.PendingRestart(o, ordinal); len(pending) > 0 {
		return move{MoveRestart, ordinal, phrase.List(pending)}
	}
	return move{}
}

// dueInstances are the instances that need something, the primary last.
func dueInstances(o *observed.Cluster) []int {
	var due []int
	last := false
	for ordinal := o.Reach() - 1; ordinal >= 0; ordinal-- {
		switch {
		case moveOf(o, ordinal).Kind == MoveNone:
		case ordinal == o.Primary():
			last = true
		default:
			due = append(due, ordinal)
		}
	}
	if last {
		due = append(due, o.Primary())
	}
	return due
}

// down: the pod is there and accepts no connections, and no work would be lost by replacing it.
func down(o *observed.Cluster, ordinal int) bool {
	pod, agent := o.Pod(ordinal), o.Agent(ordinal)
	return pod != nil && pod.DeletionTimestamp.IsZero() && !o.Serving(ordinal) && (agent == nil || agent.Rejoin == nil)
}

// whyWait says why no instance may be taken down now; empty: one may.
func whyWait(o *observed.Cluster) string {
	if o.Primary() < 0 {
		_, message := availability.NotServing(o)
		return message
	}
	for ordinal := range o.Reach() {
		if why := availability.Unsettled(o, ordinal); why != "" {
			return why
		}
	}
	return ""
}

// disturbs: the move takes down what runs, and nobody has to have it now. Data that was handed over is waited for.
func disturbs(o *observed.Cluster, next move) bool {
	switch next.Kind {
	case MoveReplace:
		pod := o.Pod(next.Instance)
		return o.Serving(next.Instance) && pod.Annotations[statefulset.AnnotationDataGeneration] == o.Cluster.Status.DataGeneration
	case MoveRestart, moveSwitch, moveWait:
		return true
	}
	return false
}
