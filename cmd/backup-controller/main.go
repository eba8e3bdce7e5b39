// backup-controller looks after BackupRepositories, makes Backups when a BackupSchedule or another controller asks for
// them, and has each carried out by a Job beside the instance that it reads.
package main

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/backup-controller/internal/backup"
	"howdah.dev/howdah/cmd/backup-controller/internal/deletionlock"
	"howdah.dev/howdah/cmd/backup-controller/internal/drill"
	"howdah.dev/howdah/cmd/backup-controller/internal/pruning"
	"howdah.dev/howdah/cmd/backup-controller/internal/queue"
	"howdah.dev/howdah/cmd/backup-controller/internal/repository"
	"howdah.dev/howdah/cmd/backup-controller/internal/requestedbackup"
	"howdah.dev/howdah/cmd/backup-controller/internal/schedule"
	"howdah.dev/howdah/cmd/backup-controller/internal/verify"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/throttle"
	"howdah.dev/howdah/pkg/repostore"
	"howdah.dev/howdah/pkg/workload"
)

const name = "backup-controller"

// version is set by the linker.
var version = "dev"

func main() {
	limits := queue.Limits{}
	manager.Program{
		Name: name, Short: "Backs up PostgresClusters", Version: version, Cached: cached(), CloudIdentity: true,
		Flags: func(flags *pflag.FlagSet) {
			flags.IntVar(&limits.All, "max-concurrent-backups", 0, "how many backups may run at a time; 0 means unlimited")
			flags.IntVar(&limits.Node, "max-concurrent-backups-per-node", 0, "how many backups may run on one node at a time; 0 means unlimited")
		},
		Setup: func(ctx context.Context, mgr ctrl.Manager, dependencies manager.Dependencies) error {
			return setup(ctx, mgr, dependencies, repostore.Opening(dependencies.Grants), limits)
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

// throttled opens stores that delete no faster than DeletesPerSecond.
func throttled(open repostore.Opener) repostore.Opener {
	return func(ctx context.Context, reader client.Reader, repo *v1alpha1.BackupRepository) (objstore.Store, error) {
		store, err := open(ctx, reader, repo)
		if err != nil {
			return nil, err
		}
		return throttle.New(store, pruning.DeletesPerSecond), nil
	}
}

// setup registers all that this process does.
func setup(ctx context.Context, mgr ctrl.Manager, dependencies manager.Dependencies, open repostore.Opener, limits queue.Limits) error {
	backups, deletions := queue.New(limits, dependencies.Now), &deletionlock.Locks{}
	pruner := &pruning.Pruner{Dependencies: dependencies, Open: throttled(open), Deletions: deletions}
	for _, collector := range []prometheus.Collector{
		repository.Metrics(dependencies.Client, pruner.Lineages), verify.Metrics(dependencies.Client), drill.Metrics(dependencies.Client), queue.Metrics(backups),
	} {
		if err := metrics.Registry.Register(collector); err != nil {
			return err
		}
	}
	if err := mgr.Add(deletions); err != nil {
		return err
	}
	return manager.Register(mgr, append(requestedbackup.NewAll(dependencies),
		repository.New(ctx, dependencies, open, pruner),
		backup.New(ctx, dependencies, throttled(open), deletions, backups),
		schedule.New(dependencies),
		verify.New(dependencies, pruner.Manifest), verify.NewRepositories(dependencies),
		drill.New(dependencies),
	)...)
}
