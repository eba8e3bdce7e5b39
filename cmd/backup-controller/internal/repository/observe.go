package repository

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/repostore"
)

func (r *Reconciler) observe(ctx context.Context, repo *v1alpha1.BackupRepository) (*observed, error) {
	o := &observed{repo: repo}
	var err error
	if o.secret, err = r.secretVersion(ctx, repo); err != nil {
		return o, err
	}
	if !repo.DeletionTimestamp.IsZero() {
		o.users, err = r.findUsers(ctx, repo)
		return o, err
	}
	backups := &v1alpha1.BackupList{}
	if err := r.Client.List(ctx, backups, client.InNamespace(repo.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return o, fmt.Errorf("list Backups: %w", err)
	}
	o.mark = markOf(repo, backups.Items)
	return o, nil
}

// secretVersion identifies the content of the Secrets with credentials and keys.
func (r *Reconciler) secretVersion(ctx context.Context, repo *v1alpha1.BackupRepository) (string, error) {
	var versions []string
	for _, name := range []string{repostore.SecretName(repo), repostore.KeysSecretName(repo)} {
		if name == "" {
			continue
		}
		secret := &corev1.Secret{}
		err := r.Client.Get(ctx, client.ObjectKey{Namespace: repo.Namespace, Name: name}, secret)
		if client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("read Secret %s: %w", name, err)
		}
		versions = append(versions, string(secret.UID)+"/"+secret.ResourceVersion) // empty: missing
	}
	return strings.Join(versions, " "), nil
}

func (r *Reconciler) findUsers(ctx context.Context, repo *v1alpha1.BackupRepository) ([]string, error) {
	clusters, backups := &v1alpha1.PostgresClusterList{}, &v1alpha1.BackupList{}
	for _, list := range []client.ObjectList{clusters, backups} {
		if err := r.Client.List(ctx, list, client.InNamespace(repo.Namespace)); err != nil {
			return nil, fmt.Errorf("list users of the repository: %w", err)
		}
	}
	var users []string
	for i := range clusters.Items {
		if slices.Contains(clusterUses(&clusters.Items[i]), repo.Name) {
			users = append(users, "PostgresCluster "+clusters.Items[i].Name)
		}
	}
	for i := range backups.Items {
		if slices.Contains(backupUses(&backups.Items[i]), repo.Name) {
			users = append(users, "Backup "+backups.Items[i].Name)
		}
	}
	slices.Sort(users) // so that the message is the same at every look
	return users, nil
}

// clusterUses are the repositories that a cluster archives to, wants to, or did a moment ago.
func clusterUses(object client.Object) []string {
	cluster := object.(*v1alpha1.PostgresCluster)
	var names []string
	if cluster.Spec.Archive != nil {
		names = append(names, cluster.Spec.Archive.Repository.Name)
	}
	if cluster.Status.Archive != nil {
		names = append(names, cluster.Status.Archive.Repository)
	}
	return names
}

// backupUses is the repository that a backup's data lies in.
func backupUses(object client.Object) []string {
	backup := object.(*v1alpha1.Backup)
	if backup.Status.Plan == nil || backup.Spec.Found != nil && backup.Spec.DeletionPolicy == v1alpha1.BackupRetain {
		return nil // a found one goes with the repository
	}
	return []string{backup.Status.Plan.Repository}
}

// backups wakes the repository of a Backup.
func (r *Reconciler) backups() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		plan := object.(*v1alpha1.Backup).Status.Plan
		if plan == nil {
			return nil
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: plan.Repository}}}
	})
}

// comesEndsOrGoes leaves out what a Backup says of its progress.
func comesEndsOrGoes() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*v1alpha1.Backup), e.ObjectNew.(*v1alpha1.Backup)
		return before.Status.CompletedAt.IsZero() != after.Status.CompletedAt.IsZero() || before.Spec.Hold != after.Spec.Hold ||
			before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() || before.Spec.DeletionPolicy != after.Spec.DeletionPolicy
	}}
}

// users wakes the repositories of an object that changes: one that is being deleted may wait for it.
func (r *Reconciler) users(uses func(client.Object) []string) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, object client.Object) []reconcile.Request {
		var requests []reconcile.Request
		for _, name := range slices.Compact(uses(object)) {
			key := types.NamespacedName{Namespace: object.GetNamespace(), Name: name}
			repo := &v1alpha1.BackupRepository{}
			if r.Client.Get(ctx, key, repo) == nil && !repo.DeletionTimestamp.IsZero() {
				requests = append(requests, reconcile.Request{NamespacedName: key})
			}
		}
		return requests
	})
}

// inUse names who needs a repository that is being deleted.
func inUse(users []string) string {
	const most = 5
	named := strings.Join(users[:min(most, len(users))], ", ")
	if len(users) > most {
		named += fmt.Sprintf(" and %d more", len(users)-most)
	}
	return "The BackupRepository is being deleted. These still need it, and keep it until they no longer do: " + named + "."
}

// secretMessage is the sentence of an ErrSecret.
func secretMessage(err error) string {
	return strings.TrimPrefix(err.Error(), repostore.ErrSecret.Error()+": ")
}
