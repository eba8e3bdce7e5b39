package schedule

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
)

// verdict is what became of a time that was due: a reason of the Ready condition and a sentence.
type verdict struct {
	reason, message string
}

// make makes the Backup for a time, as the policy allows. It may be repeated: one that it has made before counts.
func (r *Reconciler) make(ctx context.Context, o *observed, due time.Time) (verdict, error) {
	if name := o.made(due); name != "" {
		return o.done(name, due), nil
	}
	if refusal := o.refuse(due); refusal.reason != "" {
		return refusal, nil
	}
	if o.schedule.Spec.ConcurrencyPolicy == v1alpha1.ConcurrencyReplace {
		if err := r.cancel(ctx, o.unfinished()); err != nil {
			return verdict{}, err
		}
	}
	name, err := r.create(ctx, o.schedule, due)
	if err != nil {
		return verdict{}, err
	}
	if name == "" {
		return verdict{v1alpha1.ReasonNameConflict, fmt.Sprintf("The Backup for %s was not created: Backup %s and all similar names are taken by Backups that this schedule did not create.",
			o.in(due), backupName(o.schedule.Name, due, 1))}, nil
	}
	return o.done(name, due), nil
}

// refuse says why no Backup is made for a time; an empty reason if one is.
func (o *observed) refuse(due time.Time) verdict {
	spec := &o.schedule.Spec
	late := o.now.Sub(due)
	if limit := spec.StartingDeadlineSeconds; limit != nil && late > time.Duration(*limit)*time.Second {
		return verdict{v1alpha1.ReasonDeadlineExceeded, fmt.Sprintf(
			"The Backup for %s was not created: the schedule was checked only %s later, and spec.startingDeadlineSeconds is %d.", o.in(due), late.Round(time.Second), *limit)}
	}
	if !o.cluster {
		return verdict{v1alpha1.ReasonClusterNotFound, fmt.Sprintf("The Backup for %s was not created: PostgresCluster %s does not exist.", o.in(due), spec.Cluster.Name)}
	}
	if busy := o.unfinished(); len(busy) > 0 && spec.ConcurrencyPolicy == v1alpha1.ConcurrencyForbid {
		return verdict{v1alpha1.ReasonSkipped, fmt.Sprintf("The Backup for %s was not created, because Backup %s is still running.", o.in(due), busy[0].Name)}
	}
	return verdict{}
}

func (o *observed) done(name string, due time.Time) verdict {
	o.schedule.Status.LastBackup = name
	o.schedule.Status.LastScheduleTime = &metav1.Time{Time: due}
	return verdict{v1alpha1.ReasonScheduled, fmt.Sprintf("Backup %s was created for %s.", name, o.in(due))}
}

// cancel ends what is not done.
func (r *Reconciler) cancel(ctx context.Context, busy []*v1alpha1.Backup) error {
	for _, backup := range busy {
		if backup.Spec.Cancel {
			continue
		}
		changed := backup.DeepCopy()
		changed.Spec.Cancel = true
		if err := r.Client.Patch(ctx, changed, client.MergeFrom(backup)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("cancel Backup %s: %w", backup.Name, err)
		}
	}
	return nil
}

// create makes the Backup for a time, and returns its name. A name that somebody else has taken is passed over; one that
// this schedule has taken is its own, of a pass whose end was not recorded. Empty: all names are taken.
func (r *Reconciler) create(ctx context.Context, schedule *v1alpha1.BackupSchedule, due time.Time) (string, error) {
	for try := 1; try <= mostNames; try++ {
		backup := newBackup(schedule, backupName(schedule.Name, due, try))
		err := r.Client.Create(ctx, backup)
		if err == nil {
			return backup.Name, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return "", fmt.Errorf("create Backup %s: %w", backup.Name, err)
		}
		there := &v1alpha1.Backup{}
		if err := r.Client.Get(ctx, client.ObjectKeyFromObject(backup), there); err != nil {
			return "", fmt.Errorf("read Backup %s: %w", backup.Name, err)
		}
		if madeBy(schedule, there) {
			return there.Name, nil
		}
	}
	return "", nil
}

// newBackup has no owner: deleting a schedule must not delete what it has backed up.
func newBackup(schedule *v1alpha1.BackupSchedule, name string) *v1alpha1.Backup {
	return &v1alpha1.Backup{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: schedule.Namespace, Name: name,
			Labels: map[string]string{
				v1alpha1.LabelSchedule:  schedule.Name,
				v1alpha1.LabelCluster:   schedule.Spec.Cluster.Name,
				v1alpha1.LabelManagedBy: v1alpha1.ManagedBy,
			},
		},
		Spec: v1alpha1.BackupSpec{
			Cluster: schedule.Spec.Cluster, Type: schedule.Spec.Type, DeletionPolicy: schedule.Spec.DeletionPolicy,
			DamagedPages: schedule.Spec.DamagedPages, Resources: schedule.Spec.Resources.DeepCopy(),
		},
	}
}

func madeBy(schedule *v1alpha1.BackupSchedule, backup *v1alpha1.Backup) bool {
	return backup.Labels[v1alpha1.LabelSchedule] == schedule.Name && backup.Spec.Cluster == schedule.Spec.Cluster
}

// made is the name of the Backup that was made for a time; empty if the cache shows none.
func (o *observed) made(due time.Time) string {
	for try := 1; try <= mostNames; try++ {
		name := backupName(o.schedule.Name, due, try)
		for _, backup := range o.backups {
			if backup.Name == name {
				return name
			}
		}
	}
	return ""
}

func (o *observed) unfinished() []*v1alpha1.Backup {
	var busy []*v1alpha1.Backup
	for _, backup := range o.backups {
		if backup.Status.CompletedAt == nil && backup.DeletionTimestamp.IsZero() {
			busy = append(busy, backup)
		}
	}
	return busy
}

// mostNames is how many names are tried for one Backup.
const mostNames = 9

// backupName names the Backup that was due at a time, the first time with 1: where a Backup of that name is somebody
// else's, there are others. With the schedule's 41 characters at most it fits a Backup's 56.
func backupName(schedule string, due time.Time, try int) string {
	name := schedule + "-" + due.UTC().Format("0601021504")
	if try > 1 {
		name += fmt.Sprintf("-%d", try)
	}
	return name
}
