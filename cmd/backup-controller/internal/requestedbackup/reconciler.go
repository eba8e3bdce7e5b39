// Package requestedbackup makes the Backups that other controllers ask for in the status of their own objects. Its answer is
// the Backup's status; it writes nothing else.
package requestedbackup

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/pkg/protocol"
)

// +kubebuilder:rbac:groups=howdah.dev,resources=postgresclusters;restores;upgrades;backupschedules,verbs=get;list;watch
// +kubebuilder:rbac:groups=howdah.dev,resources=backups,verbs=get;list;watch;create
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

const (
	// foreignPause is the time between two looks at a name that somebody else has taken.
	foreignPause = 2 * time.Minute
	// stalePause is the time for a Backup that was just made to come into the cache.
	stalePause = time.Second
)

// ReasonNameTaken is the reason of the event that says that a Backup can't be made because of its name.
const ReasonNameTaken = "NameTaken"

// Reconciler of the asks of one kind.
type Reconciler struct {
	manager.Dependencies
	// Kind of the requesters, and New makes an empty one.
	Kind string
	New  func() client.Object
}

// NewAll makes a Reconciler for each kind that requests.
func NewAll(dependencies manager.Dependencies) []manager.Reconciler {
	var all []manager.Reconciler
	for kind, empty := range map[string]func() client.Object{
		v1alpha1.KindPostgresCluster: func() client.Object { return &v1alpha1.PostgresCluster{} },
		v1alpha1.KindRestore:         func() client.Object { return &v1alpha1.Restore{} },
		v1alpha1.KindUpgrade:         func() client.Object { return &v1alpha1.Upgrade{} },
	} {
		all = append(all, &Reconciler{Dependencies: dependencies, Kind: kind, New: empty})
	}
	return all
}

// SetupWithManager registers the reconciler and what wakes it.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("backup-request-"+strings.ToLower(r.Kind)).
		For(r.New()).
		Watches(&v1alpha1.Backup{}, handler.EnqueueRequestsFromMapFunc(r.requester)).
		Complete(r)
}

// requester wakes who asked for a Backup, so that one that was deleted is made again while the ask stands.
func (r *Reconciler) requester(_ context.Context, object client.Object) []reconcile.Request {
	by := object.(*v1alpha1.Backup).Spec.RequestedBy
	if by == nil || by.Kind != r.Kind {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: by.Name}}}
}

// Reconcile makes the Backup that one object asks for, if it does and it isn't there.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	requester := r.New()
	if err := r.Client.Get(ctx, req.NamespacedName, requester); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	ask := protocol.BackupRequestOf(requester)
	if ask == nil {
		return ctrl.Result{}, nil
	}
	if needed, err := r.needed(ctx, requester, ask); err != nil || !needed {
		return ctrl.Result{}, err
	}
	wanted := protocol.NewBackup(ask)
	there := &v1alpha1.Backup{}
	policy, err := r.damagedPages(ctx, ask)
	if err != nil {
		return ctrl.Result{}, err
	}
	wanted.Spec.DamagedPages = policy
	err = r.Client.Get(ctx, client.ObjectKeyFromObject(wanted), there)
	if apierrors.IsNotFound(err) {
		return r.create(ctx, requester, ask, wanted)
	}
	if err != nil || !r.foreign(ctx, requester, ask, there) {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: foreignPause}, nil
}

// needed says whether a request still stands. What damaged WAL requests is there once any backup has begun after the damage: it
// must not be taken again when retention has deleted the one that was taken for it.
func (r *Reconciler) needed(ctx context.Context, requester client.Object, ask *protocol.BackupRequest) (bool, error) {
	cluster, is := requester.(*v1alpha1.PostgresCluster)
	if !is || ask.Request.Purpose != v1alpha1.PurposeDamage {
		return true, nil
	}
	backups := &v1alpha1.BackupList{}
	if err := r.Client.List(ctx, backups, client.InNamespace(cluster.Namespace)); err != nil {
		return false, fmt.Errorf("list Backups: %w", err)
	}
	return !slices.ContainsFunc(backups.Items, func(b v1alpha1.Backup) bool { return beginsAfter(&b, cluster.Status.Archive) }), nil
}

// beginsAfter says whether a backup can be restored although the WAL before it is damaged.
func beginsAfter(backup *v1alpha1.Backup, archive *v1alpha1.ArchiveStatus) bool {
	status := &backup.Status
	damaged, errDamaged := postgres.ParseLSN(archive.DamagedWAL.LSN)
	start, errStart := postgres.ParseLSN(status.StartLSN)
	return errDamaged == nil && errStart == nil && start > damaged &&
		status.Plan != nil && status.Plan.Lineage == archive.Lineage && meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionSucceeded)
}

func (r *Reconciler) create(ctx context.Context, requester client.Object, ask *protocol.BackupRequest, wanted *v1alpha1.Backup) (ctrl.Result, error) {
	err := r.Client.Create(ctx, wanted)
	if err == nil {
		log.FromContext(ctx).Info("Created the requested Backup", "backup", wanted.Name, "purpose", ask.Request.Purpose)
		return ctrl.Result{}, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return ctrl.Result{}, fmt.Errorf("create Backup %s: %w", wanted.Name, err)
	}
	// It is not in the cache yet; the watch brings it.
	return ctrl.Result{RequeueAfter: stalePause}, nil
}

// foreign tells the requester's owner that a Backup of the needed name is somebody else's. Nothing is touched.
func (r *Reconciler) foreign(ctx context.Context, requester client.Object, ask *protocol.BackupRequest, there *v1alpha1.Backup) bool {
	if by := there.Spec.RequestedBy; by != nil && by.Token == ask.Request.Token {
		return false
	}
	message := fmt.Sprintf("The requested Backup %s can't be created, because another Backup has that name. Delete that one.", there.Name)
	log.FromContext(ctx).Info(message)
	r.Events.Eventf(requester, there, corev1.EventTypeWarning, ReasonNameTaken, "Backup", "%s", message)
	return true
}
