package cluster

import (
	"slices"

	"howdah.dev/howdah/cmd/db-controller/internal/access"
	"howdah.dev/howdah/cmd/db-controller/internal/apply"
	"howdah.dev/howdah/cmd/db-controller/internal/autoscale"
	"howdah.dev/howdah/cmd/db-controller/internal/disconnect"
	"howdah.dev/howdah/cmd/db-controller/internal/finalbackup"
	"howdah.dev/howdah/cmd/db-controller/internal/firstbackup"
	"howdah.dev/howdah/cmd/db-controller/internal/hibernation"
	"howdah.dev/howdah/cmd/db-controller/internal/imagechange"
	"howdah.dev/howdah/cmd/db-controller/internal/inherited"
	"howdah.dev/howdah/cmd/db-controller/internal/instances"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/retainedvolumes"
	"howdah.dev/howdah/cmd/db-controller/internal/rolling"
	"howdah.dev/howdah/cmd/db-controller/internal/rollout"
	"howdah.dev/howdah/cmd/db-controller/internal/storage"
	"howdah.dev/howdah/cmd/db-controller/internal/volumegrant"
	"howdah.dev/howdah/cmd/db-controller/internal/volumemove"
	"howdah.dev/howdah/pkg/flow"
)

type steps = []flow.Step[*observed.Cluster]

// parts are the steps that write. Those that only decide or wait are functions.
type parts struct {
	access    *access.Steps
	instances *instances.Steps
	storage   *storage.Steps
	rolling   *rolling.Steps
	images    *imagechange.Steps
	releases  *disconnect.Steps
	moves     *volumemove.Steps
	retained  *retainedvolumes.Steps
	rollouts  *rollout.Steps
	inherited *inherited.Steps
}

func (r *Reconciler) parts() parts {
	applier := &apply.Applier{Client: r.Client, Secrets: &r.secrets, Settled: &r.settled}
	roll := &rolling.Steps{Applier: applier, Agents: r.Agents}
	return parts{
		access:    &access.Steps{Applier: applier, Namespace: r.Namespace},
		instances: &instances.Steps{Applier: applier, Agent: r.Agent},
		storage:   &storage.Steps{Applier: applier, Events: r.Events},
		images:    &imagechange.Steps{Applier: applier, Agent: r.Agent},
		releases:  &disconnect.Steps{Applier: applier},
		rolling:   roll,
		moves:     &volumemove.Steps{Applier: applier, Rolling: roll},
		retained:  &retainedvolumes.Steps{Applier: applier, Agent: r.Agent},
		rollouts:  &rollout.Steps{Client: r.Client, Limit: r.rollouts, CanaryNamespaces: r.canaries},
		inherited: &inherited.Steps{Applier: applier},
	}
}

// plan is the algorithm: the steps of a pass over a cluster as it was observed.
func (r *Reconciler) plan(o *observed.Cluster) steps { return quietly(o, r.all(o)) }

func (r *Reconciler) all(o *observed.Cluster) steps {
	p := r.parts()
	if o.Deleting() {
		return r.deletion(p, o)
	}
	return slices.Concat(
		steps{r.ensureFinalizer, p.releases.TakeOver, r.heedVolumes, r.admit, instances.AwaitCloneSource, p.retained.Begin, r.pinBeginning},
		p.components(),
		p.run(),
		steps{instances.AwaitReady, p.instances.ReleaseInitJob, p.instances.ReleaseImportReport, p.retained.ReleaseInspections, firstbackup.Request},
	)
}

// components are all objects but the instances themselves.
func (p parts) components() steps {
	return steps{
		instances.SettleBeginning, // recorded before there is a Lease to take
		p.access.EnsureAuthority, p.access.EnsureLogins, p.access.EnsureInstanceSecret, p.access.EnsureCertificates, p.access.EnsureRoleCertificates, p.access.EnsurePoolerCertificate,
		p.access.EnsureFailoverDrillCertificate, p.access.EnsureMetricsCertificate,
		p.access.EnsureIdentity, p.access.EnsureConfigMaps, p.access.EnsureServices, p.access.EnsureNetworkPolicy, p.instances.EnsureLease, p.access.EnsurePodMonitor,
		volumemove.Plan,                                                      // recorded before a volume is created or grows
		storage.GrowByItself, p.storage.EnsureVolumes, p.storage.GrowVolumes, // last: where a name is taken, no volume is created
		p.inherited.EnsureInherited,
	}
}

// run gives the volumes to whom they are due, and keeps PostgreSQL running otherwise.
func (p parts) run() steps {
	return steps{
		volumegrant.RecordServed,  // recorded before anything is taken back
		volumegrant.AdoptHandover, // recorded before a pod starts on it
		volumegrant.Respond,       // recorded before anybody acts on it
		rolling.AdmitReinit,       // answered even where nothing runs
		rolling.AdmitDamaged,      // recorded before the agent is told
		autoscale.Decide,          // recorded before a pod is resized
		autoscale.DecideInstances, // recorded before an instance is added or removed
		autoscale.DecideTuning,    // recorded before an instance gets it
		releaseGenerations,        // recorded before the instances are told
		imagechange.TakeBack,      // recorded before a pod is replaced
		p.rollouts.Admit,          // recorded before anything is taken down
		p.images.Change,
		p.instances.TellImport,    // before its Job is waited for
		instances.DecidePromotion, // recorded before its Job is told
		p.instances.TellStandby,
		p.instances.Initialize,
		instances.RecordImport, // recorded before PostgreSQL serves it
		instances.RecordClone,
		instances.RecordPromotion,
		p.instances.RenewStatefulSet, instances.RecordStart, p.instances.EnsureStatefulSet, p.instances.EnsureDisruptionBudget, p.instances.RemovePodsService,
		volumegrant.AwaitUnlocked, hibernation.AwaitWaking,
		p.instances.RefreshConfig, volumegrant.AwaitTold, p.instances.Resize, p.instances.AdjustRequests, p.moves.Continue, p.rolling.SwitchOver, p.rolling.CauseFault, p.rolling.FreeInstances, p.rolling.Reinit, p.rolling.Roll,
		p.moves.Next, p.storage.ReleaseRemoved,
	}
}

// untilBackedUp keeps a cluster that is being deleted going until nobody needs it any more.
func (p parts) untilBackedUp() steps {
	return slices.Concat(p.components(), p.run(), steps{volumegrant.AwaitRelease, finalbackup.Request, finalbackup.Await})
}

// deletion is the way out. Until the last backup is there the cluster continues as before.
func (r *Reconciler) deletion(p parts, o *observed.Cluster) steps {
	switch {
	case disconnect.TakingOver(o) && !o.Begun():
		return steps{r.keepOrder, r.removeFinalizer} // nothing of the database is this cluster's yet
	case disconnect.Wanted(o):
		return r.release(p, o)
	}
	var goOn steps
	if disconnect.TakingOver(o) {
		goOn = steps{p.releases.TakeOver} // what has no owner yet would stay
	}
	if o.Begun() && (volumegrant.Granted(o) || finalbackup.Due(o)) {
		goOn = append(goOn, whileNamespaceLasts(p.untilBackedUp()))
	}
	return slices.Concat(steps{r.keepOrder}, goOn, steps{
		volumegrant.Respond, p.instances.StopInitialization, p.instances.StopInstances, p.instances.ReleaseSource, p.storage.ReleaseVolumes, r.removeFinalizer,
	})
}

// release is the way out without the database. It continues as before while somebody still needs the PostgresCluster.
func (r *Reconciler) release(p parts, o *observed.Cluster) steps {
	plan := steps{r.keepOrder}
	if disconnect.TakingOver(o) {
		plan = append(plan, p.releases.TakeOver)
	}
	if disconnect.Obstacle(o) != "" {
		plan = append(plan, whileNamespaceLasts(slices.Concat(p.components(), p.run(), steps{disconnect.AwaitIdle})))
	}
	return append(plan, p.releases.Record, p.releases.Release, r.removeFinalizer)
}
