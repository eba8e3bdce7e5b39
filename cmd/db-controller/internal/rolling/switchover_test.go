package rolling

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/agentclient"
	"howdah.dev/howdah/cmd/db-controller/internal/component/certificate"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/cmd/db-controller/internal/pace"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
)

// switching is a cluster with a switchover to shop-2 that was recorded as begun. The agent of shop-0 says that of it; nothing: it hasn't heard of it.
func switching(said string) func(*observed.Cluster) {
	return func(o *observed.Cluster) {
		o.Authority = &certificate.Authority{}
		o.Cluster.Spec.Switchover = &v1alpha1.Switchover{To: "shop-2", Token: "a"}
		o.Cluster.Status.Switchover = &v1alpha1.SwitchoverStatus{To: "shop-2", Token: "a", From: "shop-0", State: v1alpha1.SwitchoverRunning}
		if said != "" {
			o.Agents["shop-0"].Election.Switchover = &agentapi.SwitchoverStatus{Token: "a", State: said, Message: "it can't"}
		}
	}
}

func withdrawn(o *observed.Cluster) { o.Cluster.Spec.Switchover = nil }

func unheardPrimary(o *observed.Cluster) {
	delete(o.Agents, "shop-0")
	metav1.SetMetaDataLabel(&o.Pod(0).ObjectMeta, v1alpha1.LabelRole, string(v1alpha1.RolePrimary))
}

func (a *asked) Switchover(_ context.Context, _ agentclient.Target, request agentapi.SwitchoverRequest) error {
	a.switchovers = append(a.switchovers, request.Token)
	return a.err
}

// Everything that waits for a switchover to end would wait for ever.
func TestASwitchoverThatIsNoLongerRequestedComesToAnEnd(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*observed.Cluster)
		asks   bool
		state  v1alpha1.SwitchoverState
		says   string
	}{
		"it is requested":              {switching(""), true, v1alpha1.SwitchoverRunning, ""},
		"the agent doesn't know it":    {observedtest.All(switching(""), withdrawn), false, v1alpha1.SwitchoverRefused, "spec.switchover no longer requests it"},
		"the agent hands over":         {observedtest.All(switching(agentapi.SwitchoverRunning), withdrawn), false, v1alpha1.SwitchoverRunning, ""},
		"the agent has refused it":     {observedtest.All(switching(agentapi.SwitchoverRefused), withdrawn), false, v1alpha1.SwitchoverRefused, "it can't."},
		"another instance took over":   {observedtest.All(switching(""), withdrawn, func(o *observed.Cluster) { observedtest.SwitchedTo(o, "shop-2") }), false, v1alpha1.SwitchoverDone, "shop-2 took over from shop-0."},
		"its agent doesn't respond":    {observedtest.All(switching(""), withdrawn, unheardPrimary), false, v1alpha1.SwitchoverRefused, "spec.switchover no longer requests it"},
		"no instance is primary":       {observedtest.All(switching(""), withdrawn, func(o *observed.Cluster) { observedtest.Lose(o, "shop-0") }), false, v1alpha1.SwitchoverRunning, ""},
		"the cluster is deleted":       {observedtest.All(switching(""), func(o *observed.Cluster) { o.Cluster.DeletionTimestamp = &metav1.Time{Time: o.Now} }), false, v1alpha1.SwitchoverRunning, ""},
		"it has ended, and is no more": {observedtest.All(switching(""), withdrawn, func(o *observed.Cluster) { o.Cluster.Status.Switchover.State = v1alpha1.SwitchoverDone }), false, v1alpha1.SwitchoverDone, ""},
	} {
		told := &asked{}
		o := observedtest.Trio(c.change)
		(&Steps{Agents: told}).SwitchOver(t.Context(), o)
		got := o.Cluster.Status.Switchover
		if got.State != c.state || !strings.Contains(got.Message, c.says) || (len(told.switchovers) > 0) != c.asks {
			t.Errorf("%s: %+v, asked for %v", name, got, told.switchovers)
		}
	}
}

// The instance that was to take over may not come up as it is, and spec may have been changed for that.
func TestASwitchoverWithoutAPrimaryKeepsNothingElseFromBeingDone(t *testing.T) {
	o := observedtest.Trio(observedtest.All(switching(""), func(o *observed.Cluster) { observedtest.Lose(o, "shop-0") }))
	if outcome := (&Steps{Agents: &asked{}}).SwitchOver(t.Context(), o); outcome.Kind != flow.Next.Kind {
		t.Errorf("outcome: %+v", outcome)
	}
}

func TestATryThatCostNothingIsSoonRepeated(t *testing.T) {
	begin := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		last  *agentapi.SwitchoverStatus
		after time.Duration // until it is another try
	}{
		"none was made":           {nil, time.Minute},
		"the primary was stopped": {&agentapi.SwitchoverStatus{State: agentapi.SwitchoverRefused}, time.Minute},
		"it was refused at once":  {&agentapi.SwitchoverStatus{State: agentapi.SwitchoverRefused, Untouched: true}, pace.UnknownInterval},
	} {
		if tryOf(c.last, begin) != tryOf(c.last, begin.Add(c.after-time.Second)) || tryOf(c.last, begin) == tryOf(c.last, begin.Add(c.after)) {
			t.Errorf("%s: it is not repeated after %v", name, c.after)
		}
	}
}

func TestATryThatStoppedThePrimaryIsRepeatedInTheNextMinute(t *testing.T) {
	begin := time.Date(2026, 11, 23, 12, 0, 3, 0, time.UTC)
	refused := func(at time.Time, last *agentapi.SwitchoverStatus, untouched bool) *agentapi.SwitchoverStatus {
		return &agentapi.SwitchoverStatus{Token: "roll.uid." + tryOf(last, at), State: agentapi.SwitchoverRefused, Untouched: untouched}
	}
	asks := func(last *agentapi.SwitchoverStatus, at time.Time) bool {
		return due(last, "roll.uid."+tryOf(last, at))
	}
	first := refused(begin, nil, true)
	if asks(first, begin.Add(time.Second)) || !asks(first, begin.Add(3*time.Second)) {
		t.Error("the first try is not repeated in the next five seconds")
	}
	second := refused(begin.Add(3*time.Second), first, false)
	if asks(second, begin.Add(4*time.Second)) || asks(second, begin.Add(56*time.Second)) || !asks(second, begin.Add(58*time.Second)) {
		t.Error("the second try, for which the primary was stopped, is not repeated in the next minute")
	}
}
