// Package clustercopy is the temporary copy of a PostgresCluster that a drill, a rehearsal or a restore of tables restores from a backup, reads and
// deletes. The cluster that was backed up is not touched, and the copy writes to no bucket.
package clustercopy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
)

// longestName of a PostgresCluster.
const longestName = 40

// Name of a copy, of its Restore, and of everything else of it: no other owner or start leads to the same. What says what the copy
// is for, such as drill.
func Name(cluster, what string, owner types.UID, started time.Time) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", owner, started.Unix()))
	suffix := "-" + what + "-" + hex.EncodeToString(sum[:4])
	return strings.TrimRight(cluster[:min(len(cluster), longestName-len(suffix))], "-") + suffix
}

// Copy is what is to be restored, and to where.
type Copy struct {
	// Owner of the Restore, which owns the cluster.
	Owner client.Object
	Kind  string
	Name  string
	// Source of the data, and Target; nil: the end of the archive.
	Source v1alpha1.RestoreSource
	Target *v1alpha1.RestoreTarget
	// Mode; empty: the copy is restored.
	Mode      v1alpha1.RestoreMode
	Storage   *v1alpha1.NewStorage
	Resources *v1alpha1.Resources
	// AcceptRecorded are the fields that it takes from a repository that is neither encrypted nor signed.
	AcceptRecorded []v1alpha1.RecordedField
}

// quiet are the parameters of a copy that nobody shall notice: a subscription in it would take the changes that are for
// the subscriber it is a copy of, and pg_cron would do its jobs once more.
var quiet = map[string]v1alpha1.ParameterValue{
	"max_logical_replication_workers": "0",
	"cron.launch_active_jobs":         "off",
}

// Restore is what creates the copy, and has it deleted with itself.
func (c Copy) Restore() *v1alpha1.Restore {
	return &v1alpha1.Restore{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.Owner.GetNamespace(), Name: c.Name,
			Labels:          map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(c.Owner, v1alpha1.GroupVersion.WithKind(c.Kind))},
		},
		Spec: v1alpha1.RestoreSpec{
			Source: c.Source, Target: c.Target, Mode: c.Mode,
			Destination: v1alpha1.RestoreDestination{NewCluster: &v1alpha1.NewCluster{
				Name: c.Name, Temporary: true, SuperuserAccess: ptr.To(true), Parameters: quiet,
				Storage: c.Storage, Resources: c.Resources, AcceptRecorded: c.AcceptRecorded,
			}},
		},
	}
}

// OfCluster is the archive of a cluster in a repository.
func OfCluster(cluster, repository string) v1alpha1.RestoreSource {
	return v1alpha1.RestoreSource{Cluster: &v1alpha1.ClusterSource{Name: cluster, Repository: &v1alpha1.LocalReference{Name: repository}}}
}

// Seen is what exists of a copy.
type Seen struct {
	// Restore of the copy; nil: there is none. Foreign: there is one of its name that is somebody else's.
	Restore *v1alpha1.Restore
	Foreign bool
	// Cluster that this Restore has created; nil: there is none.
	Cluster *v1alpha1.PostgresCluster
}

// Observe reads it. The reader must not be a cache. Made is the UID of the Restore, where that was recorded: its cluster is known by
// it once the Restore is deleted.
func Observe(ctx context.Context, live client.Reader, owner client.Object, name string, made types.UID) (Seen, error) {
	seen, key := Seen{}, client.ObjectKey{Namespace: owner.GetNamespace(), Name: name}
	restore := &v1alpha1.Restore{}
	switch err := live.Get(ctx, key, restore); {
	case apierrors.IsNotFound(err):
	case err != nil:
		return seen, fmt.Errorf("read Restore %s: %w", name, err)
	case metav1.IsControlledBy(restore, owner):
		seen.Restore, made = restore, restore.UID
	default:
		seen.Foreign = true
	}
	cluster := &v1alpha1.PostgresCluster{}
	err := live.Get(ctx, key, cluster)
	if client.IgnoreNotFound(err) != nil {
		return seen, fmt.Errorf("read PostgresCluster %s: %w", name, err)
	}
	if err == nil && made != "" && cluster.Annotations[v1alpha1.AnnotationRestoredBy] == string(made) {
		seen.Cluster = cluster
	}
	return seen, nil
}

// Failure says why the copy could not be restored; empty: it did not fail.
func (s Seen) Failure() string {
	if s.Restore == nil {
		return ""
	}
	condition := meta.FindStatusCondition(s.Restore.Status.Conditions, v1alpha1.ConditionSucceeded)
	if condition == nil || condition.Status != metav1.ConditionFalse {
		return ""
	}
	return fmt.Sprintf("Restore %s has failed (%s): %s", s.Restore.Name, condition.Reason, condition.Message)
}

// Seconds from the creation of the Restore until the copy accepted connections; 0: it does not yet. Message then says what is
// waited for.
func (s Seen) Seconds() (seconds int64, message string) {
	status := &s.Restore.Status
	condition := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionSucceeded)
	switch {
	case condition == nil:
		return 0, fmt.Sprintf("The restore-controller has not looked at Restore %s yet.", s.Restore.Name)
	case condition.Status != metav1.ConditionTrue || status.CompletedAt == nil:
		return 0, fmt.Sprintf("Restore %s: %s", s.Restore.Name, condition.Message)
	}
	took := status.CompletedAt.Sub(s.Restore.CreationTimestamp.Time)
	return max(1, int64(took.Round(time.Second).Seconds())), ""
}

// Data is what was restored: the ID of the backup, and the time of the last commit.
func (s Seen) Data() (backup string, commit *metav1.MicroTime) {
	if plan := s.Restore.Status.Plan; plan != nil {
		backup = plan.BackupID
	}
	if reached := s.Restore.Status.Reached; reached != nil {
		commit = reached.LastCommit
	}
	return backup, commit
}

// Delete deletes an object of a copy as it was seen; that of another one of the same name stays.
func Delete(ctx context.Context, writer client.Client, object client.Object) error {
	if !object.GetDeletionTimestamp().IsZero() {
		return nil
	}
	err := writer.Delete(ctx, object, client.Preconditions{UID: ptr.To(object.GetUID())})
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete %T %s: %w", object, object.GetName(), err)
	}
	return nil
}
