// Package backupcmd creates a Backup, and tells what came of it.
package backupcmd

import (
	"context"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/kubectl-howdah/internal/await"
)

// maxClusterInName leaves room for the time in the name of a Backup, which has at most 56 characters.
const maxClusterInName = 40

// Request is a backup that a person asks for.
type Request struct {
	// Name of the Backup.
	Name        string
	Incremental bool
	// Hold keeps the Backup from retention.
	Hold    bool
	Wait    bool
	Timeout time.Duration
}

// NameFor is a name for a Backup of a cluster at a time.
func NameFor(cluster string, now time.Time) string {
	return cluster[:min(len(cluster), maxClusterInName)] + now.UTC().Format("-20060102150405")
}

// Ask creates the Backup of the cluster, and waits until it has ended if that is wanted.
func (r Request) Ask(ctx context.Context, c client.Client, key client.ObjectKey, out io.Writer) error {
	cluster := &v1alpha1.PostgresCluster{}
	if err := c.Get(ctx, key, cluster); err != nil {
		return err
	}
	if cluster.Spec.Archive == nil {
		return fmt.Errorf("PostgresCluster %s has no spec.archive, so there is no repository for a backup: set spec.archive.repository to a BackupRepository", key.Name)
	}
	backup := &v1alpha1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: r.Name},
		Spec:       v1alpha1.BackupSpec{Cluster: v1alpha1.LocalReference{Name: key.Name}, Hold: r.Hold},
	}
	if r.Incremental {
		backup.Spec.Type = v1alpha1.BackupIncremental
	}
	if err := c.Create(ctx, backup); err != nil {
		return err
	}
	fmt.Fprintf(out, "Backup %s is created.\n", r.Name)
	if !r.Wait {
		return nil
	}
	return r.await(ctx, c, client.ObjectKeyFromObject(backup), out)
}

// await prints what the Backup waits for whenever that changes.
func (r Request) await(ctx context.Context, c client.Client, key client.ObjectKey, out io.Writer) error {
	backup, said := &v1alpha1.Backup{}, ""
	err := await.Object(ctx, c, key, backup, r.Timeout, func() (bool, error) {
		succeeded := meta.FindStatusCondition(backup.Status.Conditions, v1alpha1.ConditionSucceeded)
		switch {
		case succeeded == nil:
			return false, nil
		case succeeded.Status == metav1.ConditionTrue:
			return true, nil
		case succeeded.Status == metav1.ConditionFalse:
			return false, fmt.Errorf("failed: %s", succeeded.Message)
		}
		if line := succeeded.Reason + ": " + succeeded.Message; line != said {
			fmt.Fprintln(out, line)
			said = line
		}
		return false, nil
	})
	if await.Unanswered(err) {
		return fmt.Errorf("%w; the backup continues: kubectl get pgb %s", err, key.Name)
	}
	if err == nil {
		fmt.Fprintf(out, "The backup has succeeded: %s, %d MiB of files, %d MiB added to the repository.\n", backup.Status.Type, backup.Status.LogicalBytes>>20, backup.Status.StoredBytes>>20)
	}
	return err
}
