package rolling

import (
	"context"
	"fmt"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/availability"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/pace"
	"howdah.dev/howdah/cmd/db-controller/internal/phrase"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
)

// SwitchOver carries out spec.switchover, once for each token. What was begun is recorded first, with the primary of that time,
// so that it is known to be done whatever the agents forget. It comes to an end also when it is no longer requested: much waits for that.
func (s *Steps) SwitchOver(ctx context.Context, o *observed.Cluster) flow.Outcome {
	request, status := o.Cluster.Spec.Switchover, o.Cluster.Status.Switchover
	switch {
	case o.Deleting():
		return flow.Next
	case request != nil && (status == nil || status.Token != request.Token):
		return beginSwitchover(o, request)
	case status == nil || status.State != v1alpha1.SwitchoverRunning:
		return flow.Next
	}
	primary := o.Primary()
	switch {
	case primary < 0:
		return flow.Next // what keeps an instance from becoming primary may have to be changed first
	case o.Names.Instance(primary) != status.From:
		return endSwitchover(o, primary)
	}
	return s.continueSwitchover(ctx, o, primary)
}

// beginSwitchover records that the switchover begins, or why it can't.
func beginSwitchover(o *observed.Cluster, request *v1alpha1.Switchover) flow.Outcome {
	primary := o.Primary()
	status := &v1alpha1.SwitchoverStatus{Token: request.Token, To: request.To, State: v1alpha1.SwitchoverRunning}
	refused := ""
	switch {
	case o.Wanted() == 1:
		refused = "There is only one instance, so no other one can take over."
	case request.To != "" && (o.Names.Ordinal(request.To) < 0 || o.Names.Ordinal(request.To) >= o.Wanted()):
		refused = fmt.Sprintf("There is no instance %s: the instances are %s to %s.", request.To, o.Names.Instance(0), o.Names.Instance(o.Wanted()-1))
	case request.To != "" && availability.Delayed(o, request.To) && primary != o.Names.Ordinal(request.To):
		refused = fmt.Sprintf("%s is a delayed replica: remove it from spec.delayedReplicas first, and wait until it follows.", request.To)
	case primary < 0 || !o.Electing():
		return flow.Next // it begins when there is somebody to take over from
	}
	o.Cluster.Status.Switchover = status
	switch {
	case refused != "":
		closeSwitchover(o, v1alpha1.SwitchoverRefused, refused)
	case o.Names.Instance(primary) == request.To:
		status.From = request.To
		closeSwitchover(o, v1alpha1.SwitchoverDone, request.To+" was already primary.")
	default:
		status.From = o.Names.Instance(primary)
	}
	return flow.Save(v1alpha1.ReasonSwitchingOver, "The switchover begins.")
}

// continueSwitchover asks the agent of the primary, and hears how it goes.
func (s *Steps) continueSwitchover(ctx context.Context, o *observed.Cluster, primary int) flow.Outcome {
	status := o.Cluster.Status.Switchover
	if response := lastSwitchover(o.Agent(primary)); response != nil && response.Token == status.Token {
		if response.State == agentapi.SwitchoverRefused {
			closeSwitchover(o, v1alpha1.SwitchoverRefused, phrase.Sentence(response.Message))
			return flow.Save(v1alpha1.ReasonSwitchingOver, status.Message)
		}
		return flow.Poll(pace.BusyInterval, v1alpha1.ReasonSwitchingOver, switchingMessage(status.From, status.To)+phrase.Prefixed(" ", phrase.Sentence(response.Message)))
	}
	if o.Cluster.Spec.Switchover == nil {
		closeSwitchover(o, v1alpha1.SwitchoverRefused, fmt.Sprintf("The agent of %s has not confirmed the request, and spec.switchover no longer requests it.", status.From))
		return flow.Save(v1alpha1.ReasonSwitchingOver, status.Message)
	}
	return s.requestSwitchover(ctx, o, status.Token, status.To, "The switchover was requested.")
}

// endSwitchover: somebody else is primary now.
func endSwitchover(o *observed.Cluster, primary int) flow.Outcome {
	status, now := o.Cluster.Status.Switchover, o.Names.Instance(primary)
	if status.To != "" && status.To != now {
		closeSwitchover(o, v1alpha1.SwitchoverRefused, fmt.Sprintf("%s became primary meanwhile, and not %s.", now, status.To))
	} else {
		status.To = now
		closeSwitchover(o, v1alpha1.SwitchoverDone, fmt.Sprintf("%s took over from %s.", now, status.From))
	}
	return flow.Save(v1alpha1.ReasonSwitchingOver, status.Message)
}

func closeSwitchover(o *observed.Cluster, state v1alpha1.SwitchoverState, message string) {
	status := o.Cluster.Status.Switchover
	status.State, status.Message, status.CompletedAt = state, message, observed.TimeOf(o.Now)
}

func lastSwitchover(agent *agentapi.Status) *agentapi.SwitchoverStatus {
	if agent == nil || agent.Election == nil {
		return nil
	}
	return agent.Election.Switchover
}

// GiveAway has the primary's role given to an instance, for a reason of ours. A try that was refused is repeated under
// another token.
func (s *Steps) GiveAway(ctx context.Context, o *observed.Cluster, purpose string, heir int, why string) flow.Outcome {
	prefix := fmt.Sprintf("%s.%s.", purpose, o.PrimaryPod().UID)
	from, to := o.Names.Instance(o.Primary()), o.Names.Instance(heir)
	response := lastSwitchover(o.PrimaryAgent())
	if response != nil && !strings.HasPrefix(response.Token, prefix) {
		response = nil // to another question
	}
	token := prefix + tryOf(response, o.Now)
	switch {
	case response == nil:
	case response.State == agentapi.SwitchoverRunning:
		return flow.Poll(pace.BusyInterval, v1alpha1.ReasonSwitchingOver, why+" "+switchingMessage(from, to))
	case !due(response, token):
		return flow.Poll(pace.BusyInterval, v1alpha1.ReasonSwitchingOver, fmt.Sprintf(
			"%s %s didn't hand over to %s: %s The request is repeated within a minute.", why, from, to, phrase.Sentence(response.Message)))
	}
	return s.requestSwitchover(ctx, o, token, to, why)
}

// tryOf is which try it is by now. For one that was refused in the end the primary was stopped, so the next one waits for the
// next minute. One that was refused at once cost nothing: mostly the replica has only just come up, and follows in a moment.
func tryOf(last *agentapi.SwitchoverStatus, now time.Time) string {
	apart := time.Minute
	if last != nil && last.Untouched {
		apart = pace.UnknownInterval
	}
	return fmt.Sprint(now.Truncate(apart).Unix())
}

// due says whether the try of a token may follow the one to which there was a response last. Tokens end in the time of their try, so the later
// one is the greater; of one that was repeated soon and then refused in the end, the minute began before it.
func due(last *agentapi.SwitchoverStatus, token string) bool {
	return last.State != agentapi.SwitchoverRefused || last.Token < token
}

func (s *Steps) requestSwitchover(ctx context.Context, o *observed.Cluster, token, to, why string) flow.Outcome {
	from, pod := o.Names.Instance(o.Primary()), o.PrimaryPod()
	target, ok := o.AgentTarget(pod)
	if !ok {
		return flow.Poll(pace.BusyInterval, v1alpha1.ReasonSwitchingOver, why+" "+fmt.Sprintf("The agent of %s can't be reached yet.", from))
	}
	log.FromContext(ctx).Info("Requesting a switchover", "pod", from, "to", to, "reason", why)
	if err := s.Agents.Switchover(ctx, target, agentapi.SwitchoverRequest{Token: token, To: to}); err != nil {
		log.FromContext(ctx).V(1).Info("The agent didn't accept the request", "pod", from, "reason", err.Error())
		return flow.Poll(pace.UnknownInterval, v1alpha1.ReasonSwitchingOver, fmt.Sprintf(
			"%s The agent of %s didn't accept the request for a switchover, which is repeated.", why, from))
	}
	return flow.Poll(pace.BusyInterval, v1alpha1.ReasonSwitchingOver, why+" "+switchingMessage(from, to))
}

func switchingMessage(from, to string) string {
	if to == "" {
		return fmt.Sprintf("Another instance takes over from %s.", from)
	}
	return fmt.Sprintf("%s takes over from %s.", to, from)
}
