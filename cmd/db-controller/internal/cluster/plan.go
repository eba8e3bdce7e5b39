package cluster

import (
	"slices"

	"howdah.dev/howdah/pkg/flow"
)

type steps = []flow.Step[*world]

// plan is the algorithm: the steps of a pass over a cluster as it was seen.
func (r *Reconciler) plan(w *world) steps {
	if w.deleting() {
		return r.deletion(w)
	}
	return slices.Concat(
		steps{r.ensureFinalizer, r.admit, r.pinBeginning},
		r.components(),
		r.instances(),
		steps{r.awaitReady, r.releaseInitJob},
	)
}

// components are all objects but the instances themselves.
func (r *Reconciler) components() steps {
	return steps{
		r.settleBeginning, // recorded before there is a Lease to take
		r.ensureAuthority, r.ensureLogins, r.ensureInstanceSecret, r.ensureCertificates, r.ensureRoleCertificates,
		r.ensureIdentity, r.ensureConfigMaps, r.ensureServices, r.ensureLease,
		r.growByItself, r.ensureVolumes, r.growVolumes, // last: where a name is taken, no volume is made
	}
}

// instances gives the volumes to whom they are due, and keeps PostgreSQL running otherwise.
func (r *Reconciler) instances() steps {
	return steps{
		r.adoptHandover, // recorded before a pod starts on it
		r.answerHolds,   // recorded before anybody acts on it
		r.release,       // recorded before the instances are told
		r.pinImage,
		r.initialize,
		r.renewStatefulSet, r.recordStart, r.ensureStatefulSet, r.ensureDisruptionBudget, r.removePodsService,
		r.awaitHoldOver, r.awaitWaking,
		r.refreshConfig, r.resize, r.switchOver, r.freeInstances, r.roll, r.releaseRemoved,
	}
}

// deletion is the way out. Until the last backup is there the cluster goes on as before.
func (r *Reconciler) deletion(w *world) steps {
	var goOn steps
	if w.begun() && (w.held() || w.wantsFinalBackup()) {
		goOn = slices.Concat(r.components(), r.instances(), steps{r.awaitRelease, r.askFinalBackup, r.awaitFinalBackup})
	}
	return slices.Concat(steps{r.keepOrder}, goOn, steps{
		r.answerHolds, r.stopInitialization, r.stopInstances, r.releaseVolumes, r.removeFinalizer,
	})
}
