package verify

import (
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	registry "sigs.k8s.io/controller-runtime/pkg/metrics"

	"howdah.dev/howdah/pkg/workload"
)

// Setup registers all that verifies.
func Setup(mgr ctrl.Manager, agent workload.Agent) error {
	recorder := mgr.GetEventRecorder("backup-controller")
	backups := &Reconciler{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Events: recorder, Agent: agent, Now: time.Now}
	repositories := &Repositories{Client: mgr.GetClient(), Events: recorder, Now: time.Now}
	for _, reconciler := range []interface{ SetupWithManager(ctrl.Manager) error }{backups, repositories} {
		if err := reconciler.SetupWithManager(mgr); err != nil {
			return err
		}
	}
	return registry.Registry.Register(metrics(mgr.GetClient()))
}
