// backup-controller looks after BackupRepositories, makes Backups when a BackupSchedule or another controller asks for
// them, and has each carried out by a Job beside the instance that it reads.
package main

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/backup-controller/internal/backup"
	"howdah.dev/howdah/cmd/backup-controller/internal/drill"
	"howdah.dev/howdah/cmd/backup-controller/internal/gate"
	"howdah.dev/howdah/cmd/backup-controller/internal/repository"
	"howdah.dev/howdah/cmd/backup-controller/internal/request"
	"howdah.dev/howdah/cmd/backup-controller/internal/retention"
	"howdah.dev/howdah/cmd/backup-controller/internal/schedule"
	"howdah.dev/howdah/cmd/backup-controller/internal/verify"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/pace"
	stores "howdah.dev/howdah/pkg/repository"
	"howdah.dev/howdah/pkg/workload"
)

const name = "backup-controller"

// version is set by the linker.
var version = "dev"

func main() {
	manager.Program{
		Name: name, Short: "Backs PostgresClusters up", Version: version, Cached: cached(),
		Setup: func(ctx context.Context, mgr ctrl.Manager, settings manager.Settings) error {
			return setup(ctx, mgr, settings.Agent, stores.Open)
		},
	}.Main()
}

// cached keeps only Howdah's own backup Jobs and their pods in memory.
func cached() map[client.Object]cache.ByObject {
	ours := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{
		v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelComponent: workload.ComponentBackup,
	})}
	return map[client.Object]cache.ByObject{&batchv1.Job{}: ours, &corev1.Pod{}: ours}
}

// opener opens the store of a repository.
type opener func(context.Context, client.Reader, *v1alpha1.BackupRepository) (objstore.Store, error)

// paced opens stores that delete no faster than DeletesPerSecond.
func paced(open opener) opener {
	return func(ctx context.Context, reader client.Reader, repo *v1alpha1.BackupRepository) (objstore.Store, error) {
		store, err := open(ctx, reader, repo)
		if err != nil {
			return nil, err
		}
		return pace.New(store, retention.DeletesPerSecond), nil
	}
}

// setup registers all that this process does.
func setup(ctx context.Context, mgr ctrl.Manager, agent workload.Agent, open opener) error {
	recorder, deletions := mgr.GetEventRecorder(name), &gate.Gate{}
	repositories := &repository.Reconciler{
		Client: mgr.GetClient(), Events: recorder, Open: repository.Opener(open), Checks: repository.Checker(ctx), Now: time.Now,
		Token: func() string { return strings.ToLower(rand.Text()) },
		Keeper: &retention.Keeper{
			Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Events: recorder, Open: retention.Opener(paced(open)), Gate: deletions, Now: time.Now,
		},
		Surveys: retention.Runner(ctx),
	}
	backups := &backup.Reconciler{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Events: recorder, Open: backup.Opener(paced(open)),
		Stores: backup.Stores(ctx), Gate: deletions, Agent: agent, Now: time.Now,
	}
	schedules := &schedule.Reconciler{Client: mgr.GetClient(), Events: recorder, Now: time.Now}
	for _, reconciler := range []interface{ SetupWithManager(ctrl.Manager) error }{repositories, backups, schedules} {
		if err := reconciler.SetupWithManager(mgr); err != nil {
			return err
		}
	}
	for _, setup := range []func(ctrl.Manager, workload.Agent) error{verify.Setup, drill.Setup} {
		if err := setup(mgr, agent); err != nil {
			return err
		}
	}
	if err := repository.Measure(metrics.Registry, mgr.GetClient()); err != nil {
		return err
	}
	return request.Setup(mgr)
}
