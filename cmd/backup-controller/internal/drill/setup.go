package drill

import (
	"math/rand/v2"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	registry "sigs.k8s.io/controller-runtime/pkg/metrics"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/workload"
)

// Setup registers all that drills. It is woken by the repository, by what it has made, and by the clock.
func Setup(mgr ctrl.Manager, agent workload.Agent) error {
	r := &Reconciler{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Events: mgr.GetEventRecorder("backup-controller"),
		Agent: agent, Now: time.Now, Random: rand.Int64N,
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("drill").
		For(&v1alpha1.BackupRepository{}).
		Owns(&v1alpha1.Restore{}).
		Owns(&batchv1.Job{}).
		Complete(r)
	if err != nil {
		return err
	}
	return registry.Registry.Register(metrics(mgr.GetClient()))
}
