package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
)

// switchOver carries out spec.switchover, once for each token. What was begun is recorded first, with the primary of then,
// so that it is known to be done whatever the agents forget.
func (r *Reconciler) switchOver(ctx context.Context, w *world) flow.Outcome {
	wish, status := w.cluster.Spec.Switchover, w.cluster.Status.Switchover
	switch {
	case wish == nil || w.deleting():
		return flow.Next
	case status == nil || status.Token != wish.Token:
		return w.beginSwitchover(wish)
	case status.State != v1alpha1.SwitchoverRunning:
		return flow.Next
	}
	primary := w.primary()
	switch {
	case primary < 0:
		_, message := notServing(w)
		return flow.Poll(busyInterval, v1alpha1.ReasonSwitchingOver, message)
	case w.names.Instance(primary) != status.From:
		return w.endSwitchover(primary)
	}
	return r.continueSwitchover(ctx, w, primary)
}

// beginSwitchover records the wish, or why it can't be.
func (w *world) beginSwitchover(wish *v1alpha1.Switchover) flow.Outcome {
	primary := w.primary()
	status := &v1alpha1.SwitchoverStatus{Token: wish.Token, To: wish.To, State: v1alpha1.SwitchoverRunning}
	refused := ""
	switch {
	case w.wanted() == 1:
		refused = "There is one instance, and nobody to take over."
	case wish.To != "" && (w.names.Ordinal(wish.To) < 0 || w.names.Ordinal(wish.To) >= w.wanted()):
		refused = fmt.Sprintf("There is no instance %s: the instances are %s to %s.", wish.To, w.names.Instance(0), w.names.Instance(w.wanted()-1))
	case primary < 0 || !w.electing():
		return flow.Next // it begins when there is somebody to take over from
	}
	w.cluster.Status.Switchover = status
	switch {
	case refused != "":
		w.closeSwitchover(v1alpha1.SwitchoverRefused, refused)
	case w.names.Instance(primary) == wish.To:
		status.From = wish.To
		w.closeSwitchover(v1alpha1.SwitchoverDone, wish.To+" was primary already.")
	default:
		status.From = w.names.Instance(primary)
	}
	return flow.Save(v1alpha1.ReasonSwitchingOver, "The switchover is being begun.")
}

// continueSwitchover asks the agent of the primary, and hears how it goes.
func (r *Reconciler) continueSwitchover(ctx context.Context, w *world, primary int) flow.Outcome {
	status := w.cluster.Status.Switchover
	if answer := lastSwitchover(w.agent(primary)); answer != nil && answer.Token == status.Token {
		if answer.State == agentapi.SwitchoverRefused {
			w.closeSwitchover(v1alpha1.SwitchoverRefused, sentence(answer.Message))
			return flow.Save(v1alpha1.ReasonSwitchingOver, status.Message)
		}
		return flow.Poll(busyInterval, v1alpha1.ReasonSwitchingOver, switchingMessage(status.From, status.To)+prefixed(" ", sentence(answer.Message)))
	}
	return r.askSwitchover(ctx, w, status.Token, status.To, "The switchover was asked for.")
}

// endSwitchover: somebody else is primary now.
func (w *world) endSwitchover(primary int) flow.Outcome {
	status, now := w.cluster.Status.Switchover, w.names.Instance(primary)
	if status.To != "" && status.To != now {
		w.closeSwitchover(v1alpha1.SwitchoverRefused, fmt.Sprintf("%s became primary meanwhile, and not %s.", now, status.To))
	} else {
		status.To = now
		w.closeSwitchover(v1alpha1.SwitchoverDone, fmt.Sprintf("%s took over from %s.", now, status.From))
	}
	return flow.Save(v1alpha1.ReasonSwitchingOver, status.Message)
}

func (w *world) closeSwitchover(state v1alpha1.SwitchoverState, message string) {
	status := w.cluster.Status.Switchover
	status.State, status.Message, status.CompletedAt = state, message, timeOf(w.now)
}

func lastSwitchover(agent *agentapi.Status) *agentapi.SwitchoverStatus {
	if agent == nil || agent.Election == nil {
		return nil
	}
	return agent.Election.Switchover
}

// giveAway has the primary's role given to an instance, for a reason of ours. A try that was refused is repeated under
// another token.
func (r *Reconciler) giveAway(ctx context.Context, w *world, purpose string, heir int, why string) flow.Outcome {
	prefix := fmt.Sprintf("%s.%s.", purpose, w.primaryPod().UID)
	from, to := w.names.Instance(w.primary()), w.names.Instance(heir)
	answer := lastSwitchover(w.primaryAgent())
	if answer != nil && !strings.HasPrefix(answer.Token, prefix) {
		answer = nil // to another question
	}
	token := prefix + tryOf(answer, w.now)
	switch {
	case answer == nil:
	case answer.State == agentapi.SwitchoverRunning:
		return flow.Poll(busyInterval, v1alpha1.ReasonSwitchingOver, why+" "+switchingMessage(from, to))
	case !due(answer, token):
		return flow.Poll(busyInterval, v1alpha1.ReasonSwitchingOver, fmt.Sprintf(
			"%s %s doesn't give its role to %s: %s It is asked again within a minute.", why, from, to, sentence(answer.Message)))
	}
	return r.askSwitchover(ctx, w, token, to, why)
}

// tryOf is which try it is by now. For one that was refused in the end the primary was stopped, so the next one waits for the
// next minute. One that was refused at once cost nothing: mostly the replica has only just come up, and follows in a moment.
func tryOf(last *agentapi.SwitchoverStatus, now time.Time) string {
	apart := time.Minute
	if last != nil && last.Untouched {
		apart = unknownInterval
	}
	return fmt.Sprint(now.Truncate(apart).Unix())
}

// due says whether the try of a token may follow the one that was answered last. Tokens end in the time of their try, so the later
// one is the greater; of one that was repeated soon and then refused in the end, the minute began before it.
func due(last *agentapi.SwitchoverStatus, token string) bool {
	return last.State != agentapi.SwitchoverRefused || last.Token < token
}

func (r *Reconciler) askSwitchover(ctx context.Context, w *world, token, to, why string) flow.Outcome {
	from, pod := w.names.Instance(w.primary()), w.primaryPod()
	target, ok := w.target(pod)
	if !ok {
		return flow.Poll(busyInterval, v1alpha1.ReasonSwitchingOver, why+" "+fmt.Sprintf("The agent of %s can't be asked yet.", from))
	}
	log.FromContext(ctx).Info("Asking for a switchover", "pod", from, "to", to, "reason", why)
	if err := r.Agents.Switchover(ctx, target, agentapi.SwitchoverRequest{Token: token, To: to}); err != nil {
		log.FromContext(ctx).V(1).Info("The agent didn't take the request", "pod", from, "reason", err.Error())
		return flow.Poll(unknownInterval, v1alpha1.ReasonSwitchingOver, fmt.Sprintf(
			"%s The agent of %s didn't take the request for a switchover; it is asked again.", why, from))
	}
	return flow.Poll(busyInterval, v1alpha1.ReasonSwitchingOver, why+" "+switchingMessage(from, to))
}

func switchingMessage(from, to string) string {
	if to == "" {
		return fmt.Sprintf("Another instance takes over from %s.", from)
	}
	return fmt.Sprintf("%s takes over from %s.", to, from)
}
