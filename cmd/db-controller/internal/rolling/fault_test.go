package rolling

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/agentclient"
	"howdah.dev/howdah/cmd/db-controller/internal/apply"
	"howdah.dev/howdah/cmd/db-controller/internal/component/certificate"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/test/testkit/fakeapi"
)

// drilled is a cluster whose failover drill has decided to hit shop-0.
func drilled(fault v1alpha1.FailoverFault) func(*observed.Cluster) {
	return func(o *observed.Cluster) {
		for i := range o.Pods {
			o.Pods[i].UID = types.UID("uid-" + o.Pods[i].Name)
		}
		o.FailoverDrill = &v1alpha1.FailoverDrill{ObjectMeta: metav1.ObjectMeta{Name: "d", UID: "d"}, Spec: v1alpha1.FailoverDrillSpec{Fault: fault}}
		o.FailoverDrill.Status.Request = &v1alpha1.FailoverDrillRequest{Inject: &v1alpha1.FailoverInjection{Instance: "shop-0", PodUID: "uid-shop-0"}}
		o.Cluster.Status.FailoverDrill = &v1alpha1.ClusterFailoverDrill{Name: "d", UID: "d", State: v1alpha1.FailoverDrillPrepared}
	}
}

// late has these replicas replay WAL late.
func late(names ...string) func(*observed.Cluster) {
	return func(o *observed.Cluster) {
		for _, name := range names {
			o.Cluster.Spec.DelayedReplicas = append(o.Cluster.Spec.DelayedReplicas, v1alpha1.DelayedReplica{Name: name, Delay: metav1.Duration{Duration: time.Hour}})
		}
	}
}

func TestAFaultOfADrillIsRefusedOnDoubt(t *testing.T) {
	pod, to := v1alpha1.FailoverFault{Type: v1alpha1.FaultDeletePrimaryPod}, func(name string) v1alpha1.FailoverFault {
		return v1alpha1.FailoverFault{Type: v1alpha1.FaultSwitchover, To: name}
	}
	for name, c := range map[string]struct {
		fault  v1alpha1.FailoverFault
		change func(*observed.Cluster)
		says   string // empty: it begins
	}{
		"all is well":                               {pod, func(*observed.Cluster) {}, ""},
		"to another instance":                       {to("shop-2"), func(*observed.Cluster) {}, ""},
		"to the primary":                            {to("shop-0"), func(*observed.Cluster) {}, "is the primary already"},
		"to an instance that isn't":                 {to("shop-9"), func(*observed.Cluster) {}, "There is no instance shop-9"},
		"the pod is another one":                    {pod, func(o *observed.Cluster) { o.Pod(0).UID = "new" }, "no longer the primary in the same pod"},
		"another primary":                           {pod, func(o *observed.Cluster) { o.FailoverDrill.Status.Request.Inject.Instance = "shop-1" }, "no longer the primary"},
		"a replica that doesn't follow":             {pod, silent("shop-2"), "shop-2 does not follow the primary."},
		"a delayed replica that receives nothing":   {pod, observedtest.All(silent("shop-2"), late("shop-2")), ""},
		"delayed replicas only":                     {pod, late("shop-1", "shop-2"), "All replicas are delayed"},
		"to a delayed replica":                      {to("shop-2"), late("shop-2"), "shop-2 is a delayed replica"},
		"a single instance":                         {pod, observedtest.Wants(1), "only one instance"},
		"a forced deletion that could lose commits": {v1alpha1.FailoverFault{Type: v1alpha1.FaultDeletePrimaryPod, Force: true}, func(*observed.Cluster) {}, "could lose acknowledged commits"},
		"a forced deletion where commits wait": {v1alpha1.FailoverFault{Type: v1alpha1.FaultDeletePrimaryPod, Force: true}, func(o *observed.Cluster) {
			o.Cluster.Spec.Synchronous = &v1alpha1.Synchronous{Number: 1}
		}, ""},
		"a kill that could lose commits":   {v1alpha1.FailoverFault{Type: v1alpha1.FaultKillPostmaster}, func(*observed.Cluster) {}, "KillPostmaster could lose acknowledged commits"},
		"a freeze that could lose commits": {v1alpha1.FailoverFault{Type: v1alpha1.FaultFreezePostmaster}, func(*observed.Cluster) {}, "FreezePostmaster could lose acknowledged commits"},
		"the stop of a replica": {v1alpha1.FailoverFault{Type: v1alpha1.FaultStopReplica}, func(o *observed.Cluster) {
			inject := o.FailoverDrill.Status.Request.Inject
			inject.Instance, inject.PodUID = "shop-2", "uid-shop-2"
		}, ""},
		"the stop of a replica that is the primary": {v1alpha1.FailoverFault{Type: v1alpha1.FaultStopReplica}, func(*observed.Cluster) {}, "shop-0 is no longer a replica in the same pod"},
		"which was decided on long ago": {pod, func(o *observed.Cluster) {
			o.FailoverDrill.Status.Request.Inject.DecidedAt = metav1.NewTime(o.Now.Add(-3 * time.Minute))
		}, "The fault was not caused within 2m0s"},
		"which was decided on just now": {pod, func(o *observed.Cluster) {
			o.FailoverDrill.Status.Request.Inject.DecidedAt = metav1.NewTime(o.Now.Add(-time.Minute))
		}, ""},
		"while it hibernates": {pod, func(o *observed.Cluster) { o.Cluster.Spec.Hibernate = true }, "hibernated"},
		"while failover is paused": {pod, func(o *observed.Cluster) {
			o.Cluster.Spec.Failover = &v1alpha1.Failover{PausedUntil: &metav1.Time{Time: o.Now.Add(time.Hour)}}
		}, "spec.failover.pausedUntil"},
		"while it is upgraded": {pod, func(o *observed.Cluster) { o.Operation = "Upgrade to-18" }, "Upgrade to-18 has not ended."},
		"while it is cloned": {pod, func(o *observed.Cluster) {
			o.Cluster.Status.Reinit = &v1alpha1.ReinitStatus{Instance: "shop-1", State: v1alpha1.ReinitRunning}
		}, "shop-1 is being cloned again."},
		"while an image changes": {pod, func(o *observed.Cluster) { o.Cluster.Status.ImageChange = &v1alpha1.ImageChange{} }, "A change of image"},
		"while somebody holds the volumes": {pod, func(o *observed.Cluster) {
			observedtest.HandsOver(o, "g1", v1alpha1.VolumeLockGranted, "shop-0")
			o.Requests[0].Handover = nil
		}, "Upgrade up holds the volume lock."},
	} {
		o := observedtest.Trio(observedtest.All(drilled(c.fault), c.change))
		outcome := (&Steps{}).CauseFault(t.Context(), o)
		response, faults := o.Cluster.Status.FailoverDrill, o.Cluster.Status.DrilledFaults
		if c.says != "" {
			if outcome.Kind != flow.KindSave || response.State != v1alpha1.FailoverDrillRefused || !strings.Contains(response.Message, c.says) || len(faults) > 0 {
				t.Errorf("%s: %+v", name, response)
			}
			continue
		}
		if outcome.Kind != flow.KindSave || response.State != v1alpha1.FailoverDrillInjecting || response.PodUID != types.UID("uid-"+response.Instance) || response.InjectedAt == nil || len(faults) != 1 {
			t.Errorf("%s: %+v", name, response)
		}
	}
}

// injecting: the decision is recorded.
func injecting(fault v1alpha1.FailoverFault) func(*observed.Cluster) {
	return observedtest.All(drilled(fault), func(o *observed.Cluster) {
		response := o.Cluster.Status.FailoverDrill
		response.State, response.Instance, response.PodUID = v1alpha1.FailoverDrillInjecting, "shop-0", "uid-shop-0"
	})
}

func TestOnlyThePodThatWasRecordedIsDeletedForADrillAndOnlyOnce(t *testing.T) {
	for _, force := range []bool{false, true} {
		o := observedtest.Trio(injecting(v1alpha1.FailoverFault{Type: v1alpha1.FaultDeletePrimaryPod, Force: force}))
		pod := o.Pod(0).DeepCopy()
		api := fakeapi.New(pod)
		steps, key := &Steps{Applier: &apply.Applier{Client: api}}, client.ObjectKeyFromObject(pod)
		if outcome := steps.CauseFault(t.Context(), o); outcome.Kind != flow.KindWait {
			t.Errorf("%+v", outcome)
		}
		if err := api.Get(t.Context(), key, &corev1.Pod{}); !apierrors.IsNotFound(err) {
			t.Errorf("the pod is there: %v", err)
		}
		// A controller that has died since comes again with a cache that still shows the pod, while there is another one.
		next := pod.DeepCopy()
		next.UID, next.ResourceVersion = "uid-next", ""
		if err := api.Create(t.Context(), next); err != nil {
			t.Fatal(err)
		}
		steps.CauseFault(t.Context(), o)
		if err := api.Get(t.Context(), key, next); err != nil || next.UID != "uid-next" || next.DeletionTimestamp != nil {
			t.Errorf("the next pod was hit: %v", err)
		}
		o.Pod(0).UID = "uid-next"
		steps.CauseFault(t.Context(), o)
		if state := o.Cluster.Status.FailoverDrill.State; state != v1alpha1.FailoverDrillInjected {
			t.Errorf("it is %s", state)
		}
		if outcome := steps.CauseFault(t.Context(), o); !outcome.Finished() {
			t.Errorf("it continues: %+v", outcome)
		}
	}
}

// A controller that was away for long, or comes back to an etcd that was restored, hits nobody.
func TestAFaultThatWasDecidedOnLongAgoIsNotCaused(t *testing.T) {
	for _, fault := range []v1alpha1.FailoverFault{
		{Type: v1alpha1.FaultDeletePrimaryPod}, {Type: v1alpha1.FaultSwitchover}, {Type: v1alpha1.FaultKillPostmaster}, {Type: v1alpha1.FaultStopReplica},
	} {
		o := observedtest.Trio(injecting(fault))
		long := metav1.NewTime(o.Now.Add(-injectWithin - time.Second))
		o.Cluster.Status.FailoverDrill.InjectedAt, o.Cluster.Status.DrilledFaults = &long, []metav1.Time{long}
		(&Steps{}).CauseFault(t.Context(), o) // which has nobody to ask, and nothing to delete with
		if response := o.Cluster.Status.FailoverDrill; response.State != v1alpha1.FailoverDrillRefused || !strings.Contains(response.Message, "not caused within 2m0s") {
			t.Errorf("%s: %+v", fault.Type, response)
		}
		if counted := o.Cluster.Status.DrilledFaults; len(counted) > 0 {
			t.Errorf("%s: it counts in the budget: %v", fault.Type, counted)
		}
	}
}

func TestADrillsSwitchoverEndsWithAnotherPrimaryOrIsRefused(t *testing.T) {
	said := func(state, token string) func(*observed.Cluster) {
		return func(o *observed.Cluster) {
			o.Agents["shop-0"].Election.Switchover = &agentapi.SwitchoverStatus{Token: token, State: state, Message: "it can't"}
		}
	}
	for name, c := range map[string]struct {
		change func(*observed.Cluster)
		state  v1alpha1.ClusterFailoverDrillState
	}{
		"it continues":                {said(agentapi.SwitchoverRunning, "d"), v1alpha1.FailoverDrillInjecting},
		"the agent refuses":           {said(agentapi.SwitchoverRefused, "d"), v1alpha1.FailoverDrillRefused},
		"the pod was replaced":        {func(o *observed.Cluster) { o.Pod(0).UID = "new" }, v1alpha1.FailoverDrillRefused},
		"another instance is primary": {func(o *observed.Cluster) { o.Cluster.Status.FailoverDrill.Instance = "shop-1" }, v1alpha1.FailoverDrillInjected},
	} {
		o := observedtest.Trio(observedtest.All(injecting(v1alpha1.FailoverFault{Type: v1alpha1.FaultSwitchover}), c.change))
		(&Steps{}).CauseFault(t.Context(), o)
		if got := o.Cluster.Status.FailoverDrill.State; got != c.state {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func (a *asked) Fault(_ context.Context, _ agentclient.Target, request agentapi.FaultRequest) error {
	a.faults = append(a.faults, request.Fault+" "+request.Token)
	return a.err
}

func TestAnAgentIsAskedForAFaultUntilItSaysWhatCameOfIt(t *testing.T) {
	said := func(state, token string) func(*observed.Cluster) {
		return func(o *observed.Cluster) {
			o.Agents["shop-0"].Fault = &agentapi.FaultStatus{Token: token, State: state, Message: "so it is"}
		}
	}
	for name, c := range map[string]struct {
		change func(*observed.Cluster)
		err    error
		asks   bool
		state  v1alpha1.ClusterFailoverDrillState
	}{
		"it has not heard of it":        {func(*observed.Cluster) {}, nil, true, v1alpha1.FailoverDrillInjecting},
		"it has done that of another":   {said(agentapi.FaultDone, "c"), nil, true, v1alpha1.FailoverDrillInjecting},
		"it did not accept the request": {func(*observed.Cluster) {}, agentclient.ErrResponse, true, v1alpha1.FailoverDrillInjecting},
		"it is too old":                 {func(*observed.Cluster) {}, agentclient.ErrUnknownRoute, true, v1alpha1.FailoverDrillRefused},
		"it continues":                  {said(agentapi.FaultRunning, "d"), nil, false, v1alpha1.FailoverDrillInjecting},
		"it is done":                    {said(agentapi.FaultDone, "d"), nil, false, v1alpha1.FailoverDrillInjected},
		"it refuses":                    {said(agentapi.FaultRefused, "d"), nil, false, v1alpha1.FailoverDrillRefused},
		"it does not respond":           {func(o *observed.Cluster) { delete(o.Agents, "shop-0") }, nil, false, v1alpha1.FailoverDrillInjecting},
		"its pod is another one":        {func(o *observed.Cluster) { o.Pod(0).UID = "new" }, nil, false, v1alpha1.FailoverDrillInjected},
	} {
		told := &asked{err: c.err}
		o := observedtest.Trio(observedtest.All(injecting(v1alpha1.FailoverFault{Type: v1alpha1.FaultFreezePostmaster}), c.change))
		o.Authority = &certificate.Authority{}
		(&Steps{Agents: told}).CauseFault(t.Context(), o)
		if got := o.Cluster.Status.FailoverDrill.State; got != c.state || (len(told.faults) == 1) != c.asks || c.asks && told.faults[0] != "FreezePostmaster d" {
			t.Errorf("%s: %s, asked for %v", name, got, told.faults)
		}
	}
}
