package rolling

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/agentclient"
	"howdah.dev/howdah/cmd/db-controller/internal/availability"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/pace"
	"howdah.dev/howdah/cmd/db-controller/internal/phrase"
	"howdah.dev/howdah/cmd/db-controller/internal/volumegrant"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
)

// AdmitReinit records that spec.reinit begins, or why it can't, once for each token. A request waits while another one runs, and
// while there is no primary to clone from. What an agent has yet to say is no reason to refuse one.
func AdmitReinit(_ context.Context, o *observed.Cluster) flow.Outcome {
	request, status := o.Cluster.Spec.Reinit, o.Cluster.Status.Reinit
	if request == nil || o.Deleting() || o.Cluster.Status.Cloning() != "" || status != nil && status.Token == request.Token {
		return flow.Next
	}
	refused := refuseReinit(o, request)
	if refused == "" {
		refused = tooFew(o, request)
		if refused != "" && unheard(o) {
			return flow.Next
		}
	}
	if refused == "" && (o.Primary() < 0 || !o.Electing()) {
		return flow.Next
	}
	o.Cluster.Status.Reinit = &v1alpha1.ReinitStatus{Token: request.Token, Instance: request.Instance, State: v1alpha1.ReinitRunning}
	if refused != "" {
		closeReinit(o, o.Cluster.Status.Reinit, v1alpha1.ReinitRefused, refused)
		return flow.Save(v1alpha1.ReasonCloning, refused)
	}
	return flow.Save(v1alpha1.ReasonCloning, cloningMessage(request.Instance))
}

// refuseReinit says why an instance can't be cloned again now, whoever else streams; empty: it can, as soon as there is a primary.
func refuseReinit(o *observed.Cluster, request *v1alpha1.Reinit) string {
	name, ordinal := request.Instance, o.Names.Ordinal(request.Instance)
	_, locked := volumegrant.LockedBy(o)
	switch {
	case o.Wanted() == 1:
		return "There is only one instance, so there is no replica to clone again."
	case ordinal < 0 || ordinal >= o.Wanted():
		return fmt.Sprintf("There is no instance %s: the instances are %s to %s.", name, o.Names.Instance(0), o.Names.Instance(o.Wanted()-1))
	case o.Cluster.Spec.Hibernate:
		return "The cluster is hibernated. Set spec.hibernate: false first."
	case locked != "":
		return locked + " Request the clone again once the volumes belong to the cluster."
	case o.Operation != "":
		return fmt.Sprintf("%s has not ended. Request the clone again after it.", o.Operation)
	case o.Cluster.Status.StorageMove != nil && o.Cluster.Status.StorageMove.Current != nil:
		return fmt.Sprintf("%s is being moved to a new volume. Request the clone again after it.", o.Cluster.Status.StorageMove.Current.Instance)
	case o.Cluster.Spec.Failover.IsFenced(name):
		return fmt.Sprintf("spec.failover.fenced names %s, so PostgreSQL stays stopped there. Remove it from there first.", name)
	case o.Cluster.Spec.Repair.Paused(o.Now):
		return "Nothing is cloned while spec.repair pauses that. End the pause first: kubectl howdah resume " + o.Cluster.Name + "."
	case ordinal == o.Primary():
		return fmt.Sprintf("%s is the primary, so there is no instance that it could be cloned from. Switch over to another instance first: kubectl howdah switchover %s.",
			name, o.Cluster.Name)
	}
	return ""
}

// tooFew says that not enough replicas stream without an instance that does.
func tooFew(o *observed.Cluster, request *v1alpha1.Reinit) string {
	ordinal := o.Names.Ordinal(request.Instance)
	if request.AllowFewerReplicas || !availability.Streams(o, ordinal) || availability.Delayed(o, request.Instance) {
		return ""
	}
	others := availability.StreamingBeside(o, ordinal)
	const unless = " To clone it anyway, set spec.reinit.allowFewerReplicas: true and another token."
	sync := o.Cluster.Spec.Synchronous
	switch {
	case others == 0:
		return fmt.Sprintf("%s is the only replica that streams, so no other instance could take over from the primary. Wait for another one, or add one (spec.instances).%s", request.Instance, unless)
	case sync != nil && others < int(sync.Number):
		return fmt.Sprintf("Without %s, the number of replicas that stream would be %d, but spec.synchronous.number is %d. Wait for another replica.%s", request.Instance, others, sync.Number, unless)
	}
	return ""
}

// unheard: an instance that is ready has not said whether it streams. Its agent says so soon, or it isn't ready any more.
func unheard(o *observed.Cluster) bool {
	for ordinal := range o.Wanted() {
		if pod := o.Pod(ordinal); pod != nil && observed.PodReady(pod) && o.Agent(ordinal) == nil {
			return true
		}
	}
	return false
}

// Reinit has the agent of the instance carry out what was admitted, and hears how it goes. While it doesn't respond, the pass continues:
// its pod may have to be replaced.
func (s *Steps) Reinit(ctx context.Context, o *observed.Cluster) flow.Outcome {
	c := cloningOf(o)
	if c == nil {
		return flow.Next
	}
	ordinal := o.Names.Ordinal(c.Instance)
	if ordinal < 0 || ordinal >= o.Wanted() {
		return c.end(o, v1alpha1.ReinitRefused, fmt.Sprintf("spec.instances no longer includes %s.", c.Instance))
	}
	if agent := o.Agent(ordinal); agent != nil && agent.Reinit != nil && agent.Reinit.Token == c.Token {
		return c.hear(o, agent)
	}
	if ordinal == o.Primary() {
		return c.end(o, v1alpha1.ReinitRefused, fmt.Sprintf("%s became the primary meanwhile.", c.Instance))
	}
	if c.against != "" {
		if c.dropped != "" {
			return c.end(o, v1alpha1.ReinitRefused, c.against)
		}
		c.Message = c.against
		return flow.Next
	}
	return s.requestReinit(ctx, o, c, ordinal)
}

// cloning is a clone that is under way: one that spec.reinit requests, or one that nobody asked for.
type cloning struct {
	*v1alpha1.ReinitStatus
	says string
	// dropped says why the request is given up while its agent does not confirm it; empty: it isn't.
	dropped string
	// against says why its agent is not told now; empty: it is. A person has decided on their own clone.
	against string
}

// cloningOf is the one that is under way; nil: there is none. There is never more than one.
func cloningOf(o *observed.Cluster) *cloning {
	status, request := &o.Cluster.Status, o.Cluster.Spec.Reinit
	if r := status.Reinit; r != nil && r.State == v1alpha1.ReinitRunning {
		c := &cloning{ReinitStatus: r, says: cloningMessage(r.Instance)}
		if request == nil || request.Token != r.Token {
			c.dropped = "spec.reinit no longer requests this clone"
		}
		return c
	}
	if r := status.AutomaticReinit; r != nil && r.State == v1alpha1.ReinitRunning {
		c := &cloning{ReinitStatus: &r.ReinitStatus, says: damagedMessage(r.Instance), against: unfitForClone(o, r.Instance)}
		if o.Now.Sub(r.StartedAt.Time) > damageConfirm {
			c.dropped = "ten minutes have passed"
		}
		return c
	}
	return nil
}

// hear takes over what the agent says of the request.
func (c *cloning) hear(o *observed.Cluster, agent *agentapi.Status) flow.Outcome {
	message := phrase.Sentence(agent.Reinit.Message)
	switch state := v1alpha1.ReinitState(agent.Reinit.State); state {
	case v1alpha1.ReinitDone, v1alpha1.ReinitRefused, v1alpha1.ReinitFailed:
		return c.end(o, state, message)
	}
	c.Message = c.says + phrase.Prefixed(" ", message)
	return flow.Poll(pace.BusyInterval, v1alpha1.ReasonCloning, c.Message)
}

func (s *Steps) requestReinit(ctx context.Context, o *observed.Cluster, c *cloning, ordinal int) flow.Outcome {
	target, ok := agentclient.Target{}, false
	if pod := o.Pod(ordinal); pod != nil {
		target, ok = o.AgentTarget(pod)
	}
	if !ok {
		return c.unconfirmed(o, fmt.Sprintf("The agent of %s can't be reached yet.", c.Instance))
	}
	log.FromContext(ctx).Info("Requesting a new clone", "pod", c.Instance, "token", c.Token)
	err := s.Agents.Reinit(ctx, target, agentapi.ReinitRequest{Token: c.Token})
	switch {
	case errors.Is(err, agentclient.ErrUnknownRoute):
		return c.end(o, v1alpha1.ReinitRefused, fmt.Sprintf("The agent of %s is too old to do this. Request it again once its pod has been replaced.", c.Instance))
	case err != nil:
		log.FromContext(ctx).V(1).Info("The agent didn't accept the request", "pod", c.Instance, "reason", err.Error())
		return c.unconfirmed(o, fmt.Sprintf("The agent of %s didn't accept the request, which is repeated.", c.Instance))
	}
	c.Message = c.says
	return flow.Poll(pace.BusyInterval, v1alpha1.ReasonCloning, c.Message)
}

// unconfirmed waits for the agent for as long as spec requests the clone, and ten minutes for one that nobody asked for: a person whose
// instance stays away may request that of another one. The agent may have received the request all the same, if only its answer was lost.
func (c *cloning) unconfirmed(o *observed.Cluster, why string) flow.Outcome {
	if c.dropped != "" {
		return c.end(o, v1alpha1.ReinitRefused, fmt.Sprintf("The agent of %s has not confirmed the request, and %s.", c.Instance, c.dropped))
	}
	c.Message = why
	return flow.Next
}

func (c *cloning) end(o *observed.Cluster, state v1alpha1.ReinitState, message string) flow.Outcome {
	closeReinit(o, c.ReinitStatus, state, message)
	return flow.Save(v1alpha1.ReasonCloning, message)
}

func closeReinit(o *observed.Cluster, status *v1alpha1.ReinitStatus, state v1alpha1.ReinitState, message string) {
	status.State, status.Message, status.CompletedAt = state, message, observed.TimeOf(o.Now)
}

func cloningMessage(instance string) string {
	return fmt.Sprintf("%s is cloned again, as spec.reinit requests.", instance)
}
