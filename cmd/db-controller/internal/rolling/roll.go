package rolling

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/availability"
	"howdah.dev/howdah/cmd/db-controller/internal/desired"
	"howdah.dev/howdah/cmd/db-controller/internal/imagechange"
	"howdah.dev/howdah/cmd/db-controller/internal/minorupdate"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/pace"
	"howdah.dev/howdah/cmd/db-controller/internal/restartwindow"
	"howdah.dev/howdah/cmd/db-controller/internal/scaling"
	"howdah.dev/howdah/pkg/flow"
)

// Roll brings the instances up to date.
func (s *Steps) Roll(ctx context.Context, o *observed.Cluster) flow.Outcome {
	next := NextMove(o)
	if disturbs(o, next) && !mayDisturb(o, next) || takesDown(o, next) && !observed.RollsOut(o) {
		return flow.Next // its time will come
	}
	name := o.Names.Instance(next.Instance)
	switch next.Kind {
	case MoveReplace:
		return s.replacePod(ctx, o, next)
	case MoveRestart:
		return s.restartPostgres(ctx, o, next)
	case moveSwitch:
		return s.GiveAway(ctx, o, "roll", next.Instance, fmt.Sprintf("%s has to be restarted for %s.", o.Names.Instance(o.Primary()), next.Why))
	case moveWait:
		return flow.Poll(pace.BusyInterval, v1alpha1.ReasonApplying, fmt.Sprintf("%s is next, and waits: %s", name, next.Why))
	}
	return flow.Next
}

// Pending says whether a change has yet to reach an instance that runs.
func Pending(o *observed.Cluster) bool { return disturbs(o, NextMove(o)) }

// Due says whether an instance that runs is to be taken down now.
func Due(o *observed.Cluster) bool {
	next := NextMove(o)
	return takesDown(o, next) && mayDisturb(o, next)
}

func takesDown(o *observed.Cluster, next move) bool {
	return next.Kind != moveWait && disturbs(o, next)
}

// mayDisturb says whether what runs may be taken down now for the move. Updates that nobody has asked for have a window of their own.
func mayDisturb(o *observed.Cluster, next move) bool {
	ordinal := next.Instance
	if next.Kind == moveSwitch {
		ordinal = o.Primary()
	}
	if imagechange.AwaitsUpdate(o, ordinal) {
		return minorupdate.Hold(o) == ""
	}
	return restartwindow.Open(o)
}

// replacePod deletes a pod whose image, resources, mounts or data generation are not what is wanted; the StatefulSet
// makes it anew. It waits until the StatefulSet's controller knows the new template.
func (s *Steps) replacePod(ctx context.Context, o *observed.Cluster, next move) flow.Outcome {
	pod := o.Pod(next.Instance)
	message := fmt.Sprintf("Pod %s is being replaced for %s.", pod.Name, next.Why)
	if !pod.DeletionTimestamp.IsZero() || !desired.TemplateKnown(o, o.StatefulSet()) {
		return flow.Poll(pace.BusyInterval, v1alpha1.ReasonRestarting, message)
	}
	log.FromContext(ctx).Info("Replacing pod", "pod", pod.Name, "reason", next.Why)
	if err := s.Remove(ctx, pod); err != nil {
		return flow.Retry(err)
	}
	return flow.Poll(pace.BusyInterval, v1alpha1.ReasonRestarting, message)
}

// restartPostgres asks an agent for a restart in place, for parameters that take one.
func (s *Steps) restartPostgres(ctx context.Context, o *observed.Cluster, next move) flow.Outcome {
	pod := o.Pod(next.Instance)
	if pod == nil {
		return flow.Next
	}
	target, ok := o.AgentTarget(pod)
	if !ok {
		return flow.Next
	}
	message := fmt.Sprintf("PostgreSQL in %s is being restarted for %s.", pod.Name, next.Why)
	log.FromContext(ctx).Info("Restarting PostgreSQL", "pod", pod.Name, "reason", next.Why)
	if err := s.Agents.Restart(ctx, target, desired.AgentConfig(o).Hash()); err != nil {
		return flow.Poll(pace.UnknownInterval, v1alpha1.ReasonRestartPending, fmt.Sprintf(
			"A change of %s waits for a restart of PostgreSQL in %s. Its agent didn't accept the request, which is repeated.", next.Why, pod.Name))
	}
	return flow.Poll(pace.BusyInterval, v1alpha1.ReasonRestarting, message)
}

// FreeInstances has the primary's role given to an instance that stays, when the one that has it is to go.
func (s *Steps) FreeInstances(ctx context.Context, o *observed.Cluster) flow.Outcome {
	primary := o.Primary()
	if o.IdleSet() || o.Reach() <= o.Wanted() || primary < o.Wanted() {
		return flow.Next
	}
	name := o.Names.Instance(primary)
	why := fmt.Sprintf("%s is the primary and will be removed.", name)
	heir := availability.Heir(o, o.Wanted())
	if heir < 0 {
		return flow.Poll(pace.BusyInterval, v1alpha1.ReasonScaling, fmt.Sprintf(
			"%s is the primary and will be removed once a remaining instance can take over: %s", name, scaling.WhyNoHeir(o)))
	}
	return s.GiveAway(ctx, o, "scale", heir, why)
}
