package cluster

import (
	"context"
	"fmt"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
)

// moveKind is what is done to bring an instance up to date.
type moveKind string

const (
	moveNone    moveKind = ""
	moveWait    moveKind = "wait"
	moveReplace moveKind = "replace"
	moveRestart moveKind = "restart"
	moveSwitch  moveKind = "switch over to"
)

// move is the next thing that is done to bring instances up to date.
type move struct {
	kind     moveKind
	instance int
	// why in words: what the instance has to be replaced or restarted for, or what is waited for.
	why string
}

// nextMove is one instance at a time, replicas first, then the primary, which gives its role away before. It is pure.
func (w *world) nextMove() move {
	if !w.electing() {
		return w.moveOf(0)
	}
	for ordinal := w.reach() - 1; ordinal >= 0; ordinal-- {
		// Nothing is lost by replacing what is down anyway, and what is wrong with it may be what was changed.
		if w.down(ordinal) && w.changes(ordinal) != "" {
			return w.moveOf(ordinal)
		}
	}
	due := w.due()
	if len(due) == 0 {
		return move{}
	}
	primary := w.primary()
	if wait := w.whyWait(); wait != "" {
		return move{moveWait, due[0], wait}
	}
	if name := w.lowered(); name != "" {
		// A replica must not have less of it than its primary, not even for a moment.
		return move{moveRestart, primary, commaList(w.pending(primary))}
	}
	if due[0] != primary {
		return w.moveOf(due[0])
	}
	if heir := w.heir(w.reach()); heir >= 0 {
		return move{moveSwitch, heir, w.moveOf(primary).why}
	}
	return w.moveOf(primary)
}

// moveOf is what one instance needs by itself.
func (w *world) moveOf(ordinal int) move {
	if changes := w.changes(ordinal); changes != "" {
		return move{moveReplace, ordinal, changes}
	}
	if pending := w.pending(ordinal); len(pending) > 0 {
		return move{moveRestart, ordinal, commaList(pending)}
	}
	return move{}
}

// due are the instances that need something, the primary last.
func (w *world) due() []int {
	var due []int
	last := false
	for ordinal := w.reach() - 1; ordinal >= 0; ordinal-- {
		switch {
		case w.moveOf(ordinal).kind == moveNone:
		case ordinal == w.primary():
			last = true
		default:
			due = append(due, ordinal)
		}
	}
	if last {
		due = append(due, w.primary())
	}
	return due
}

// down: the pod is there and takes no connections, and no work would be lost by replacing it.
func (w *world) down(ordinal int) bool {
	pod, agent := w.pod(ordinal), w.agent(ordinal)
	return pod != nil && pod.DeletionTimestamp.IsZero() && !w.serving(ordinal) && (agent == nil || agent.Rejoin == nil)
}

// whyWait says why no instance may be taken down now; empty: one may.
func (w *world) whyWait() string {
	if w.primary() < 0 {
		_, message := notServing(w)
		return message
	}
	for ordinal := range w.reach() {
		if why := w.unsettled(ordinal); why != "" {
			return why
		}
	}
	return ""
}

// heir is the instance below an ordinal that should be primary after the one that is; negative: none is fit.
func (w *world) heir(below int) int {
	best := -1
	for ordinal := range below {
		if ordinal == w.primary() || w.unsettled(ordinal) != "" {
			continue
		}
		if best < 0 || w.agent(ordinal).Replication.LagBytes < w.agent(best).Replication.LagBytes {
			best = ordinal
		}
	}
	return best
}

// roll brings the instances up to date.
func (r *Reconciler) roll(ctx context.Context, w *world) flow.Outcome {
	next := w.nextMove()
	if w.disturbs(next) && !w.windowOpen() {
		return flow.Next // its time will come
	}
	name := w.names.Instance(next.instance)
	switch next.kind {
	case moveReplace:
		return r.replacePod(ctx, w, next)
	case moveRestart:
		return r.restartPostgres(ctx, w, next)
	case moveSwitch:
		return r.giveAway(ctx, w, "roll", next.instance, fmt.Sprintf("%s has to be restarted for %s.", w.names.Instance(w.primary()), next.why))
	case moveWait:
		return flow.Poll(busyInterval, v1alpha1.ReasonApplying, fmt.Sprintf("%s is next, and waits: %s", name, next.why))
	}
	return flow.Next
}

// replacePod deletes a pod whose image, resources, mounts or data generation are not what is wanted; the StatefulSet
// makes it anew. It waits until the StatefulSet's controller knows the new template.
func (r *Reconciler) replacePod(ctx context.Context, w *world, next move) flow.Outcome {
	pod := w.pod(next.instance)
	message := fmt.Sprintf("Pod %s is being replaced for %s.", pod.Name, next.why)
	if !pod.DeletionTimestamp.IsZero() || !w.templateKnown(w.statefulSet()) {
		return flow.Poll(busyInterval, v1alpha1.ReasonRestarting, message)
	}
	log.FromContext(ctx).Info("Replacing pod", "pod", pod.Name, "reason", next.why)
	if err := r.remove(ctx, pod); err != nil {
		return flow.Retry(err)
	}
	return flow.Poll(busyInterval, v1alpha1.ReasonRestarting, message)
}

// restartPostgres asks an agent for a restart in place, for parameters that take one.
func (r *Reconciler) restartPostgres(ctx context.Context, w *world, next move) flow.Outcome {
	pod := w.pod(next.instance)
	if pod == nil {
		return flow.Next
	}
	target, ok := w.target(pod)
	if !ok {
		return flow.Next
	}
	message := fmt.Sprintf("PostgreSQL in %s is being restarted for %s.", pod.Name, next.why)
	log.FromContext(ctx).Info("Restarting PostgreSQL", "pod", pod.Name, "reason", next.why)
	if err := r.Agents.Restart(ctx, target, w.agentConfig().Hash()); err != nil {
		return flow.Poll(unknownInterval, v1alpha1.ReasonRestartPending, fmt.Sprintf(
			"%s: waits for a restart of PostgreSQL in %s, and the agent didn't take the request; it is asked again.", next.why, pod.Name))
	}
	return flow.Poll(busyInterval, v1alpha1.ReasonRestarting, message)
}

func commaList(names []string) string { return strings.Join(names, ", ") }
