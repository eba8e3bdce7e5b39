package rolling

import (
	"context"
	"fmt"
	"slices"
	"time"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/availability"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
)

const (
	damagePause   = 24 * time.Hour         // between two clones that nobody requested
	damageAgain   = 7 * 24 * time.Hour     // within which damage of the same instance is that of its disk
	damageConfirm = 10 * time.Minute       // that its agent may take to confirm the request
	damageToken   = "damaged-%d"           // with the time of the decision
	damageReason  = "Its data is damaged." // where an agent has no words for it

	// damageUncertain: a function can raise any error, and only on replicas. It must not have its instance cloned again and again.
	damageUncertain = "The order of that index depends on functions or types of users, so the error may be theirs and not that of a disk. Find out with pg_amcheck."
)

// AdmitDamaged records that a replica with damaged data is cloned again, if nothing speaks against it. One at a time, and one a day.
func AdmitDamaged(_ context.Context, o *observed.Cluster) flow.Outcome {
	instance, evidence, against := Damaged(o)
	if instance == "" || against != "" {
		return flow.Next
	}
	message := damagedMessage(instance)
	o.Cluster.Status.AutomaticReinit = &v1alpha1.AutomaticReinitStatus{
		ReinitStatus: v1alpha1.ReinitStatus{Token: fmt.Sprintf(damageToken, o.Now.Unix()), Instance: instance, State: v1alpha1.ReinitRunning, Message: message},
		Evidence:     observed.Bounded(evidence, 512), StartedAt: *observed.TimeOf(o.Now), Earlier: earlierClones(o),
	}
	return flow.Save(v1alpha1.ReasonCloning, message)
}

// Damaged is the first replica that says that its data is damaged, with its evidence, and what speaks against cloning it again now; an empty
// instance: there is none. No other one has its turn before it, so two with bad disks are not cloned by turns. One whose damage may be the word
// of a user has its turn after all others, and is not cloned.
func Damaged(o *observed.Cluster) (instance, evidence, against string) {
	for _, certain := range []bool{true, false} {
		for ordinal := range o.Wanted() {
			agent := o.Agent(ordinal)
			if ordinal == o.Primary() || agent == nil || agent.Checks == nil || !agent.Checks.Damaged || agent.Checks.DamageCertain != certain {
				continue
			}
			instance, evidence = o.Names.Instance(ordinal), damageReason
			if i := slices.IndexFunc(agent.Checks.Found, func(f agentapi.LoadFinding) bool { return f.Reason == agentapi.FindingReplicaDamaged }); i >= 0 {
				evidence = agent.Checks.Found[i].Evidence
			}
			if !certain {
				return instance, evidence, damageUncertain
			}
			return instance, evidence, againstClone(o, instance)
		}
	}
	return "", "", ""
}

// againstClone says why a damaged replica is not cloned by itself now; empty: it is.
func againstClone(o *observed.Cluster, instance string) string {
	if cloning := o.Cluster.Status.Cloning(); cloning != "" {
		return fmt.Sprintf("%s is being cloned again.", cloning)
	}
	for _, refuse := range []func(*observed.Cluster, string) string{tooSoon, unfitForClone} {
		if against := refuse(o, instance); against != "" {
			return against
		}
	}
	if unheard(o) {
		return "Not every instance has said whether it streams."
	}
	return ""
}

// tooSoon bounds how often replicas are cloned by themselves. A clone of which nothing came says nothing about the disk.
func tooSoon(o *observed.Cluster, instance string) string {
	last := o.Cluster.Status.AutomaticReinit
	if last == nil {
		return ""
	}
	for _, clone := range earlierClones(o) {
		at := clone.StartedAt.UTC().Format(time.RFC3339)
		switch {
		case clone.Instance != instance:
		case clone.State == v1alpha1.ReinitDone:
			return fmt.Sprintf("It was cloned at %s because it was damaged, and is damaged again. Check its disk.", at)
		default:
			return fmt.Sprintf("The clone of %s failed: %s", at, clone.Message)
		}
	}
	if o.Now.Sub(last.StartedAt.Time) < damagePause {
		return fmt.Sprintf("A clone of %s was decided at %s, and at most one replica a day is cloned automatically.",
			last.Instance, last.StartedAt.UTC().Format(time.RFC3339))
	}
	return ""
}

// earlierClones are those of the last seven days that were done or failed, the last one of each instance.
func earlierClones(o *observed.Cluster) (clones []v1alpha1.EarlierReinit) {
	last := o.Cluster.Status.AutomaticReinit
	if last == nil {
		return nil
	}
	all := append(slices.Clone(last.Earlier), v1alpha1.EarlierReinit{Instance: last.Instance, StartedAt: last.StartedAt, State: last.State, Message: last.Message})
	for _, clone := range all {
		ended := clone.State == v1alpha1.ReinitDone || clone.State == v1alpha1.ReinitFailed
		if !ended || o.Now.Sub(clone.StartedAt.Time) >= damageAgain {
			continue
		}
		clones = slices.DeleteFunc(clones, func(c v1alpha1.EarlierReinit) bool { return c.Instance == clone.Instance })
		clones = append(clones, clone)
	}
	return clones
}

// unfitForClone says why the cluster is in no state to have a damaged replica cloned by itself; empty: it is. This is asked when the clone is
// decided, and again until the agent has been told.
func unfitForClone(o *observed.Cluster, instance string) string {
	request := &v1alpha1.Reinit{Instance: instance}
	switch {
	case o.Deleting():
		return "The cluster is being deleted."
	case o.Cluster.Spec.DeepChecks != nil && o.Cluster.Spec.DeepChecks.Suspend:
		return "spec.deepChecks.suspend is true."
	case o.Cluster.Spec.Repair != nil && o.Cluster.Spec.Repair.KeepDamagedReplicas:
		return "spec.repair.keepDamagedReplicas is true."
	case o.Primary() < 0 || !o.Electing():
		return "There is no primary to clone it from."
	case availability.Delayed(o, instance):
		return "It is a delayed replica, and a clone of the primary would have none of the past that it keeps."
	}
	for _, refuse := range []func() string{
		func() string { return primaryDamaged(o) },
		func() string { return refuseReinit(o, request) },
		func() string { return busyForClone(o) },
		func() string { return tooFew(o, request) },
	} {
		if against := refuse(); against != "" {
			return against
		}
	}
	if availability.StreamingBeside(o, o.Names.Ordinal(instance)) == 0 {
		return "No other replica streams."
	}
	return ""
}

// primaryDamaged says that the primary is no good source, or that this is not known.
func primaryDamaged(o *observed.Cluster) string {
	primary := o.PrimaryAgent()
	if primary == nil || primary.Findings == nil || primary.Checks == nil {
		return "The primary has not been checked itself yet."
	}
	counted := slices.ContainsFunc(primary.Findings.Found, func(f agentapi.LoadFinding) bool { return f.Reason == agentapi.FindingChecksumFailures })
	if counted || primary.Checks.Damaged {
		return "The primary shows damage, too, so a clone of it may be damaged as well. Find out which instance is intact; if none is, restore a backup."
	}
	switch {
	case primary.Checks.RoundEnded.IsZero():
		return "The check of the primary has not reached all indexes yet."
	case !primary.Checks.RoundWhole: // by what it skipped, the primary may be the damaged one
		return "The last check of the primary did not reach all indexes, so it is not known whether it is intact: see the finding ChecksIncomplete, and check the primary with pg_amcheck."
	}
	return ""
}

// busyForClone is what else is done to the cluster.
func busyForClone(o *observed.Cluster) string {
	status := &o.Cluster.Status
	switch {
	case o.BackingUp != "":
		return fmt.Sprintf("Pod %s takes a backup.", o.BackingUp)
	case o.FailoverDrill != nil:
		return fmt.Sprintf("FailoverDrill %s has not ended.", o.FailoverDrill.Name)
	case status.Switchover != nil && status.Switchover.State == v1alpha1.SwitchoverRunning:
		return "A switchover has not ended."
	case status.ImageChange != nil:
		return "A change of image has not reached every instance."
	}
	return ""
}

func damagedMessage(instance string) string {
	return fmt.Sprintf("%s is cloned again, because its data is damaged.", instance)
}
