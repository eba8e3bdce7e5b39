package rolling

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/certificate"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/pkg/agentapi"
)

// damages the data of instances, after all have been checked.
func damages(instances ...string) func(*observed.Cluster) {
	return func(o *observed.Cluster) {
		o.Agents["shop-0"].Findings = &agentapi.Findings{}
		for _, agent := range o.Agents {
			agent.Checks = &agentapi.Checks{RoundEnded: o.Now, RoundWhole: true}
		}
		for _, name := range instances {
			o.Agents[name].Checks = &agentapi.Checks{RoundEnded: o.Now, Damaged: true, DamageCertain: true, Found: []agentapi.LoadFinding{{Reason: agentapi.FindingReplicaDamaged, Evidence: "3 pages."}}}
		}
	}
}

// maybe has the damage of an instance be the word of a function of a user.
func maybe(instance string) func(*observed.Cluster) {
	return func(o *observed.Cluster) { o.Agents[instance].Checks.DamageCertain = false }
}

// cloned by itself, so long ago.
func cloned(instance string, ago time.Duration) func(*observed.Cluster) {
	return ended(instance, ago, v1alpha1.ReinitDone)
}

func ended(instance string, ago time.Duration, state v1alpha1.ReinitState) func(*observed.Cluster) {
	return func(o *observed.Cluster) {
		o.Cluster.Status.AutomaticReinit = &v1alpha1.AutomaticReinitStatus{
			ReinitStatus: v1alpha1.ReinitStatus{Token: "damaged-1", Instance: instance, State: state, Message: "No room."}, StartedAt: metav1.NewTime(o.Now.Add(-ago)),
		}
	}
}

// again another instance was cloned by itself after that, so long ago.
func again(instance string, ago time.Duration, state v1alpha1.ReinitState) func(*observed.Cluster) {
	return func(o *observed.Cluster) {
		then := *o
		then.Now = o.Now.Add(-ago)
		earlier := earlierClones(&then)
		ended(instance, ago, state)(o)
		o.Cluster.Status.AutomaticReinit.Earlier = earlier
	}
}

// delays what an instance replays.
func delays(instance string) func(*observed.Cluster) {
	return func(o *observed.Cluster) {
		o.Cluster.Spec.DelayedReplicas = []v1alpha1.DelayedReplica{{Name: instance, Delay: metav1.Duration{Duration: time.Hour}}}
	}
}

func TestWhichDamagedReplicaIsClonedByItself(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(*observed.Cluster)
		instance string
		against  string
	}{
		"none":                      {damages(), "", ""},
		"one of two":                {damages("shop-1"), "shop-1", ""},
		"the first of two":          {damages("shop-2", "shop-1"), "shop-1", ""},
		"one that doesn't stream":   {observedtest.All(damages("shop-1"), silent("shop-1")), "shop-1", ""},
		"the only one that streams": {observedtest.All(damages("shop-1"), silent("shop-2")), "shop-1", "shop-1 is the only replica that streams"},
		"the primary":               {damages("shop-0"), "", ""},
		"a replica and the primary": {damages("shop-0", "shop-1"), "shop-1", "The primary shows damage, too"},
		"a primary that counts damage": {observedtest.All(damages("shop-1"), func(o *observed.Cluster) {
			o.Agents["shop-0"].Findings.Found = []agentapi.LoadFinding{{Reason: agentapi.FindingChecksumFailures}}
		}), "shop-1", "The primary shows damage, too"},
		"a primary that wasn't checked": {observedtest.All(damages("shop-1"), func(o *observed.Cluster) { o.Agents["shop-0"].Checks = nil }), "shop-1", "has not been checked itself yet"},
		"a primary that wasn't checked wholly": {observedtest.All(damages("shop-1"), func(o *observed.Cluster) {
			o.Agents["shop-0"].Checks = &agentapi.Checks{}
		}), "shop-1", "has not reached all indexes yet"},
		"a primary of which something was missed": {observedtest.All(damages("shop-1"), func(o *observed.Cluster) {
			o.Agents["shop-0"].Checks = &agentapi.Checks{RoundEnded: o.Now}
		}), "shop-1", "it is not known whether it is intact"},
		"one of which none streams":                {observedtest.All(damages("shop-1"), silent("shop-1", "shop-2")), "shop-1", "No other replica streams."},
		"a delayed one":                            {observedtest.All(damages("shop-1"), delays("shop-1")), "shop-1", "It is a delayed replica"},
		"beside a delayed one":                     {observedtest.All(damages("shop-1"), delays("shop-2")), "shop-1", "shop-1 is the only replica that streams"},
		"the second of two":                        {observedtest.All(damages("shop-1", "shop-2"), cloned("shop-1", 25*time.Hour)), "shop-1", "Check its disk."},
		"two days after its clone failed":          {observedtest.All(damages("shop-1"), ended("shop-1", 48*time.Hour, v1alpha1.ReinitFailed)), "shop-1", "failed: No room."},
		"two days after its agent did not respond": {observedtest.All(damages("shop-1"), ended("shop-1", 48*time.Hour, v1alpha1.ReinitRefused)), "shop-1", ""},
		"an hour after its agent did not respond":  {observedtest.All(damages("shop-1"), ended("shop-1", time.Hour, v1alpha1.ReinitRefused)), "shop-1", "one replica a day"},
		"an hour after another one":                {observedtest.All(damages("shop-1"), cloned("shop-2", time.Hour)), "shop-1", "one replica a day"},
		"a day after another one":                  {observedtest.All(damages("shop-1"), cloned("shop-2", 25*time.Hour)), "shop-1", ""},
		"three days after itself, and one after another one": {observedtest.All(damages("shop-1"), cloned("shop-1", 72*time.Hour), again("shop-2", 25*time.Hour, v1alpha1.ReinitDone)),
			"shop-1", "Check its disk."},
		"three days after itself, and one after another one that was refused": {observedtest.All(damages("shop-1"), ended("shop-1", 72*time.Hour, v1alpha1.ReinitFailed),
			again("shop-2", 25*time.Hour, v1alpha1.ReinitRefused)), "shop-1", "failed: No room."},
		"eight days after itself, and one after another one": {observedtest.All(damages("shop-1"), cloned("shop-1", 8*24*time.Hour), again("shop-2", 25*time.Hour, v1alpha1.ReinitDone)),
			"shop-1", ""},
		"two days after itself": {observedtest.All(damages("shop-1"), cloned("shop-1", 48*time.Hour)), "shop-1", "Check its disk."},
		"a week after itself":   {observedtest.All(damages("shop-1"), cloned("shop-1", 8*24*time.Hour)), "shop-1", ""},
		"during a backup":       {observedtest.All(damages("shop-1"), func(o *observed.Cluster) { o.BackingUp = "nightly-x" }), "shop-1", "Pod nightly-x takes a backup."},
		"while another one is cloned": {observedtest.All(damages("shop-1"), func(o *observed.Cluster) {
			o.Cluster.Status.Reinit = &v1alpha1.ReinitStatus{Token: "z", Instance: "shop-2", State: v1alpha1.ReinitRunning}
		}), "shop-1", "shop-2 is being cloned again."},
		"during an upgrade": {observedtest.All(damages("shop-1"), func(o *observed.Cluster) { o.Operation = "Upgrade to-18" }), "shop-1", "Upgrade to-18 has not ended."},
		"where a person does it": {observedtest.All(damages("shop-1"), func(o *observed.Cluster) {
			o.Cluster.Spec.Repair = &v1alpha1.Repair{KeepDamagedReplicas: true}
		}), "shop-1", "spec.repair.keepDamagedReplicas is true."},
		"where a function of a user may say so":  {observedtest.All(damages("shop-1"), maybe("shop-1")), "shop-1", "the error may be theirs"},
		"one for certain, after one that may be": {observedtest.All(damages("shop-1", "shop-2"), maybe("shop-1")), "shop-2", ""},
		"where nobody checks": {observedtest.All(damages("shop-1"), func(o *observed.Cluster) {
			o.Cluster.Spec.DeepChecks = &v1alpha1.DeepChecks{Suspend: true}
		}), "shop-1", "spec.deepChecks.suspend is true."},
		"in a pause": {observedtest.All(damages("shop-1"), func(o *observed.Cluster) {
			from, until := metav1.NewTime(observedtest.Noon), metav1.NewTime(observedtest.Noon.Add(time.Hour))
			o.Cluster.Spec.Repair = &v1alpha1.Repair{PausedFrom: &from, PausedUntil: &until}
		}), "shop-1", "Nothing is cloned while spec.repair pauses that."},
	} {
		o := observedtest.Trio(c.change)
		instance, _, against := Damaged(o)
		if instance != c.instance || !strings.Contains(against, c.against) || (against == "") != (c.against == "") {
			t.Errorf("%s: %s, %s", name, instance, against)
		}
	}
}

func TestADamagedReplicaIsClonedOnceAndOnRecord(t *testing.T) {
	o := observedtest.Trio(damages("shop-1"))
	o.Authority = &certificate.Authority{}
	agents := &asked{}
	steps := &Steps{Agents: agents}
	if outcome := steps.Reinit(t.Context(), o); !outcome.Finished() || len(agents.reinits) != 0 {
		t.Fatalf("%+v, asked for %v", outcome, agents.reinits)
	}
	outcome := AdmitDamaged(t.Context(), o)
	recorded := o.Cluster.Status.AutomaticReinit
	if outcome.Finished() || recorded == nil || recorded.Instance != "shop-1" || recorded.Evidence != "3 pages." || len(agents.reinits) != 0 {
		t.Fatalf("%+v, %+v", outcome, recorded)
	}
	o.Cluster.Spec.Reinit = &v1alpha1.Reinit{Instance: "shop-2", Token: "a"} // waits for it
	if outcome := AdmitReinit(t.Context(), o); !outcome.Finished() || o.Cluster.Status.Reinit != nil {
		t.Errorf("%+v, %+v", outcome, o.Cluster.Status.Reinit)
	}
	silent("shop-2")(o) // it was lost meanwhile
	if outcome := steps.Reinit(t.Context(), o); !outcome.Finished() || len(agents.reinits) != 0 || !strings.Contains(recorded.Message, "only replica that streams") {
		t.Fatalf("%+v, asked for %v: %s", outcome, agents.reinits, recorded.Message)
	}
	o.Agents["shop-2"].Replication = &agentapi.ReplicationStatus{Streaming: true}
	steps.Reinit(t.Context(), o)
	if len(agents.reinits) != 1 || agents.reinits[0] != "shop-1 "+recorded.Token {
		t.Fatalf("asked for %v", agents.reinits)
	}
	o.Agents["shop-1"].Reinit = &agentapi.ReinitStatus{Token: recorded.Token, State: agentapi.ReinitDone, Message: "The new copy is g1.c2"}
	o.Agents["shop-1"].Checks = nil
	steps.Reinit(t.Context(), o)
	if recorded.State != v1alpha1.ReinitDone || recorded.CompletedAt == nil || o.Cluster.Status.Cloning() != "" {
		t.Errorf("%+v", recorded)
	}
	damages("shop-1")(o)
	if outcome := AdmitDamaged(t.Context(), o); !outcome.Finished() || o.Cluster.Status.AutomaticReinit.Token != recorded.Token {
		t.Errorf("it is cloned again and again: %+v", o.Cluster.Status.AutomaticReinit)
	}
	recorded.State, recorded.CompletedAt = v1alpha1.ReinitRunning, nil
	o.Agents["shop-1"].Reinit = nil
	observedtest.Lose(o, "shop-1")
	steps.Reinit(t.Context(), o)
	if o.Now = o.Now.Add(11 * time.Minute); recorded.State != v1alpha1.ReinitRunning {
		t.Errorf("%+v", recorded)
	}
	if steps.Reinit(t.Context(), o); recorded.State != v1alpha1.ReinitRefused {
		t.Errorf("it waits for ever: %+v", recorded)
	}
}
