package backup

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/backup-controller/internal/queue"
	"howdah.dev/howdah/pkg/flow"
)

// awaitPlace lets a backup begin when its node, its repository and the suite run few enough.
func (r *Reconciler) awaitPlace(ctx context.Context, o *observed) flow.Outcome {
	if err := r.Queue.Recover(func() ([]queue.Entry, error) { return r.underway(ctx) }); err != nil {
		return flow.Retry(err)
	}
	if wait := r.Queue.Begin(o.entry()); wait != "" {
		return flow.Poll(queue.AskAgain, v1alpha1.ReasonQueued, wait)
	}
	return flow.Next
}

// keepPlace tells the queue that a Job runs, or that it has ended. One whose pod is refused, or fits on no node, takes no place: a namespace where
// all are like that would keep the whole suite from its backups.
func (r *Reconciler) keepPlace(o *observed) {
	if o.job.Ended() || o.job.PodRefused() || o.job.Unscheduled(o.now) {
		r.Queue.Leave(o.backup.UID)
	} else {
		r.Queue.Running(o.entry())
	}
}

// leaveQueue gives a backup's place to the next one.
func (r *Reconciler) leaveQueue(_ context.Context, o *observed) flow.Outcome {
	r.Queue.Leave(o.backup.UID)
	return flow.Next
}

// underway are the Backups that have a plan and no end. What a process doesn't know of them it learns when it looks at each.
func (r *Reconciler) underway(ctx context.Context) ([]queue.Entry, error) {
	backups := &v1alpha1.BackupList{}
	if err := r.Client.List(ctx, backups); err != nil {
		return nil, fmt.Errorf("list Backups: %w", err)
	}
	var entries []queue.Entry
	for i := range backups.Items {
		backup := &backups.Items[i]
		if plan := backup.Status.Plan; plan != nil && backup.Status.CompletedAt == nil && backup.Spec.Found == nil {
			entries = append(entries, entry(backup, plan.Node, plan.Repository))
		}
	}
	return entries, nil
}

// entry of the queue. Before there is a plan, it runs where the primary is.
func (o *observed) entry() queue.Entry {
	node, name, repository := "", "", o.wanted
	if plan := o.backup.Status.Plan; plan != nil && !o.job.Failed && o.outdated == "" {
		node, name, repository = plan.Node, plan.Repository, o.planned
	} else if primary := primaryOf(o.cluster); primary != nil && o.wanted != nil {
		node, name = primary.Node, o.wanted.Name
	}
	made := entry(o.backup, node, name)
	if repository != nil && repository.Spec.MaxConcurrentBackups != nil {
		made.RepositoryLimit = int(*repository.Spec.MaxConcurrentBackups)
	}
	return made
}

func entry(backup *v1alpha1.Backup, node, repository string) queue.Entry {
	return queue.Entry{
		UID: backup.UID, Backup: client.ObjectKeyFromObject(backup), Created: backup.CreationTimestamp.Time,
		Requested: backup.Spec.RequestedBy != nil, Node: node,
		Repository: types.NamespacedName{Namespace: backup.Namespace, Name: repository},
	}
}
