package rolling

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/agentclient"
	"howdah.dev/howdah/cmd/db-controller/internal/component/certificate"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/pkg/agentapi"
)

// asks for a clone of an instance.
func asks(instance string) func(*observed.Cluster) {
	return func(o *observed.Cluster) { o.Cluster.Spec.Reinit = &v1alpha1.Reinit{Instance: instance, Token: "a"} }
}

func silent(instances ...string) func(*observed.Cluster) {
	return func(o *observed.Cluster) {
		for _, name := range instances {
			o.Agents[name].Replication = nil
		}
	}
}

func TestWhichReplicaMayBeClonedAgain(t *testing.T) {
	anyway := func(o *observed.Cluster) { o.Cluster.Spec.Reinit.AllowFewerReplicas = true }
	two := func(o *observed.Cluster) { o.Cluster.Spec.Synchronous = &v1alpha1.Synchronous{Number: 2} }
	for name, c := range map[string]struct {
		change func(*observed.Cluster)
		state  v1alpha1.ReinitState // empty: it isn't answered yet
		says   string
	}{
		"one of two that stream":  {asks("shop-1"), v1alpha1.ReinitRunning, ""},
		"one that doesn't stream": {observedtest.All(asks("shop-1"), silent("shop-1", "shop-2")), v1alpha1.ReinitRunning, ""},
		"the primary":             {asks("shop-0"), v1alpha1.ReinitRefused, "shop-0 is the primary"},
		"an instance that isn't":  {asks("shop-3"), v1alpha1.ReinitRefused, "There is no instance shop-3: the instances are shop-0 to shop-2."},
		"that of another cluster": {asks("orders-1"), v1alpha1.ReinitRefused, "There is no instance orders-1"},
		"a single instance":       {observedtest.All(observedtest.Wants(1), asks("shop-0")), v1alpha1.ReinitRefused, "There is only one instance"},
		"while it hibernates":     {observedtest.All(asks("shop-1"), func(o *observed.Cluster) { o.Cluster.Spec.Hibernate = true }), v1alpha1.ReinitRefused, "Set spec.hibernate: false first."},
		"while it is upgraded":    {observedtest.All(asks("shop-1"), func(o *observed.Cluster) { o.Operation = "Upgrade to-18" }), v1alpha1.ReinitRefused, "Upgrade to-18 has not ended."},
		"while somebody holds the volumes": {observedtest.All(asks("shop-1"), func(o *observed.Cluster) {
			observedtest.HandsOver(o, "g1", v1alpha1.VolumeLockGranted, "shop-0")
			o.Requests[0].Handover = nil
		}), v1alpha1.ReinitRefused, "Upgrade up holds the volume lock."},
		"one that is fenced": {observedtest.All(asks("shop-1"), func(o *observed.Cluster) {
			o.Cluster.Spec.Failover = &v1alpha1.Failover{Fenced: []v1alpha1.InstanceName{"shop-1"}}
		}), v1alpha1.ReinitRefused, "spec.failover.fenced names shop-1"},
		"the last that streams":                {observedtest.All(asks("shop-1"), silent("shop-2")), v1alpha1.ReinitRefused, "shop-1 is the only replica that streams"},
		"the last that streams, knowingly":     {observedtest.All(asks("shop-1"), silent("shop-2"), anyway), v1alpha1.ReinitRunning, ""},
		"one that commits wait for":            {observedtest.All(asks("shop-1"), two), v1alpha1.ReinitRefused, "Without shop-1, the number of replicas that stream would be 1, but spec.synchronous.number is 2."},
		"one that commits wait for, knowingly": {observedtest.All(asks("shop-1"), two, anyway), v1alpha1.ReinitRunning, ""},
		"while repairs are paused": {observedtest.All(asks("shop-1"), func(o *observed.Cluster) {
			from, until := metav1.NewTime(observedtest.Noon), metav1.NewTime(observedtest.Noon.Add(time.Hour))
			o.Cluster.Spec.Repair = &v1alpha1.Repair{PausedFrom: &from, PausedUntil: &until}
		}), v1alpha1.ReinitRefused, "Nothing is cloned while spec.repair pauses that."},
		"while the agent of the other replica is silent": {observedtest.All(asks("shop-1"), func(o *observed.Cluster) { delete(o.Agents, "shop-2") }), "", ""},
		"while there is no primary": {observedtest.All(asks("shop-1"), func(o *observed.Cluster) {
			o.Agents["shop-0"].Role = "replica"
		}), "", ""},
		"while another one is": {observedtest.All(asks("shop-1"), func(o *observed.Cluster) {
			o.Cluster.Status.Reinit = &v1alpha1.ReinitStatus{Token: "z", Instance: "shop-2", State: v1alpha1.ReinitRunning}
		}), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := observedtest.Trio(c.change)
			outcome := AdmitReinit(t.Context(), o)
			got := o.Cluster.Status.Reinit
			if c.state == "" {
				if !outcome.Finished() || got != nil && got.Token == "a" {
					t.Errorf("%+v, %+v", outcome, got)
				}
				return
			}
			if got == nil || got.Token != "a" || got.State != c.state || !strings.Contains(got.Message, c.says) || outcome.Finished() ||
				(got.CompletedAt != nil) != (c.state == v1alpha1.ReinitRefused) {
				t.Fatalf("%+v, %+v", outcome, got)
			}
			before := *got
			if outcome := AdmitReinit(t.Context(), o); !outcome.Finished() || *o.Cluster.Status.Reinit != before {
				t.Errorf("it is answered again: %+v", o.Cluster.Status.Reinit)
			}
		})
	}
}

// asked are agents that remember what they were asked for.
type asked struct {
	Agents
	reinits []string
	faults  []string
	// switchovers by their tokens.
	switchovers []string
	err         error
}

func (a *asked) Reinit(_ context.Context, target agentclient.Target, request agentapi.ReinitRequest) error {
	a.reinits = append(a.reinits, fmt.Sprint(strings.Split(target.Host, ".")[0], " ", request.Token))
	return a.err
}

func TestHowARequestedCloneGoes(t *testing.T) {
	says := func(state, message string) func(*observed.Cluster) {
		return func(o *observed.Cluster) {
			o.Agents["shop-1"].Reinit = &agentapi.ReinitStatus{Token: "a", State: state, Message: message}
		}
	}
	for name, c := range map[string]struct {
		change func(*observed.Cluster)
		err    error
		asked  int
		state  v1alpha1.ReinitState
		says   string
		passes bool // what follows continues
	}{
		"it is requested": {nil, nil, 1, v1alpha1.ReinitRunning, "shop-1 is cloned again, as spec.reinit requests.", false},
		"an old request is no answer": {func(o *observed.Cluster) {
			o.Agents["shop-1"].Reinit = &agentapi.ReinitStatus{Token: "z", State: agentapi.ReinitDone}
		}, nil, 1, v1alpha1.ReinitRunning, "", false},
		"it continues":         {says(agentapi.ReinitRunning, ""), nil, 0, v1alpha1.ReinitRunning, "shop-1 is cloned again, as spec.reinit requests.", false},
		"an attempt failed":    {says(agentapi.ReinitRunning, "Attempt 1 of 3 failed: no route"), nil, 0, v1alpha1.ReinitRunning, "requests. Attempt 1 of 3 failed: no route.", false},
		"it is done":           {says(agentapi.ReinitDone, "The new copy is g1.c2"), nil, 0, v1alpha1.ReinitDone, "The new copy is g1.c2.", false},
		"it failed":            {says(agentapi.ReinitFailed, "No room"), nil, 0, v1alpha1.ReinitFailed, "No room.", false},
		"the agent refuses it": {says(agentapi.ReinitRefused, "It became the primary"), nil, 0, v1alpha1.ReinitRefused, "It became the primary.", false},
		"the agent is old":     {nil, fmt.Errorf("%w: POST", agentclient.ErrUnknownRoute), 1, v1alpha1.ReinitRefused, "The agent of shop-1 is too old to do this.", false},
		"the agent fails":      {nil, errors.New("503"), 1, v1alpha1.ReinitRunning, "didn't accept the request, which is repeated", true},
		"its pod is away":      {func(o *observed.Cluster) { observedtest.Lose(o, "shop-1") }, nil, 0, v1alpha1.ReinitRunning, "The agent of shop-1 can't be reached yet.", true},
		"its pod is away, and nobody asks any more": {func(o *observed.Cluster) {
			observedtest.Lose(o, "shop-1")
			o.Cluster.Spec.Reinit = nil
		}, nil, 0, v1alpha1.ReinitRefused, "spec.reinit no longer requests this clone", false},
		"the agent fails, and another clone is wanted": {func(o *observed.Cluster) { o.Cluster.Spec.Reinit.Token = "b" }, errors.New("503"), 1,
			v1alpha1.ReinitRefused, "spec.reinit no longer requests this clone", false},
		"it continues, although nobody asks any more": {observedtest.All(says(agentapi.ReinitRunning, ""), func(o *observed.Cluster) { o.Cluster.Spec.Reinit = nil }), nil, 0, v1alpha1.ReinitRunning, "shop-1 is cloned again", false},
		"it leads meanwhile":                          {func(o *observed.Cluster) { o.Agents["shop-1"].Role, o.Agents["shop-0"].Role = "primary", "replica" }, nil, 0, v1alpha1.ReinitRefused, "shop-1 became the primary meanwhile.", false},
		"it is removed":                               {observedtest.Wants(1), nil, 0, v1alpha1.ReinitRefused, "spec.instances no longer includes shop-1.", false},
	} {
		t.Run(name, func(t *testing.T) {
			o := observedtest.Trio(func(o *observed.Cluster) {
				o.Authority = &certificate.Authority{}
				asks("shop-1")(o)
				o.Cluster.Status.Reinit = &v1alpha1.ReinitStatus{Token: "a", Instance: "shop-1", State: v1alpha1.ReinitRunning}
				observedtest.OrNothing(c.change)(o)
			})
			agents := &asked{err: c.err}
			outcome := (&Steps{Agents: agents}).Reinit(t.Context(), o)
			got := o.Cluster.Status.Reinit
			if got.State != c.state || !strings.Contains(got.Message, c.says) || outcome.Finished() != c.passes || len(agents.reinits) != c.asked {
				t.Errorf("%+v, %+v, asked for %v", outcome, got, agents.reinits)
			}
			if c.asked > 0 && agents.reinits[0] != "shop-1 a" {
				t.Errorf("asked for %v", agents.reinits)
			}
		})
	}
}
