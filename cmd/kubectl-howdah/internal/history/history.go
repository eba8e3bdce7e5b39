// Package history shows the specs with which a cluster was Ready, and goes back to one.
package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/kubectl-howdah/internal/prompt"
	"howdah.dev/howdah/pkg/spechistory"
)

// read returns a cluster and its revisions, the newest first.
func read(ctx context.Context, c client.Client, key client.ObjectKey) (*v1alpha1.PostgresCluster, []appsv1.ControllerRevision, error) {
	cluster, all := &v1alpha1.PostgresCluster{}, &appsv1.ControllerRevisionList{}
	if err := c.Get(ctx, key, cluster); err != nil {
		return nil, nil, err
	}
	if err := c.List(ctx, all, client.InNamespace(key.Namespace), client.MatchingLabels(spechistory.Labels(key.Name))); err != nil {
		return nil, nil, err
	}
	own := slices.DeleteFunc(all.Items, func(revision appsv1.ControllerRevision) bool { return !metav1.IsControlledBy(&revision, cluster) })
	return cluster, spechistory.Sorted(own), nil
}

// Show lists the revisions of a cluster with what each changed, and what the present spec changes of the newest.
func Show(ctx context.Context, c client.Client, key client.ObjectKey, out io.Writer) error {
	cluster, revisions, err := read(ctx, c, key)
	if err != nil {
		return err
	}
	if len(revisions) == 0 {
		fmt.Fprintf(out, "%s has not been Ready yet, so no spec of it is kept.\n", key.Name)
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "REVISION\tFIRST READY\tCHANGES")
	var earlier *v1alpha1.PostgresClusterSpec
	for _, revision := range slices.Backward(revisions) {
		spec, err := spechistory.Spec(&revision)
		if err != nil {
			return err
		}
		changes := []string{"(the oldest that is kept)"}
		if earlier != nil {
			if changes, err = spechistory.Changes(earlier, spec); err != nil {
				return err
			}
		}
		printRow(table, fmt.Sprint(revision.Revision), revision.CreationTimestamp.UTC().Format(time.RFC3339), changes)
		earlier = spec
	}
	changes, err := spechistory.Changes(earlier, &cluster.Spec)
	if err != nil {
		return err
	}
	if len(changes) > 0 {
		printRow(table, "(spec)", "not yet", changes)
	}
	return table.Flush()
}

func printRow(out io.Writer, revision, at string, changes []string) {
	for i, change := range changes {
		if i > 0 {
			revision, at = "", ""
		}
		fmt.Fprintf(out, "%s\t%s\t%s\n", revision, at, change)
	}
}

// Rollback of a spec that a person asks for.
type Rollback struct {
	// To is the number of the revision; 0: the one before the newest, or the newest where spec has changed since.
	To int64
	// Yes: nobody is asked.
	Yes bool
	In  io.Reader
	Out io.Writer
}

// Carry says what would change and what can't, asks, and writes the spec. The API server has checked it before anybody is asked.
func (r Rollback) Carry(ctx context.Context, c client.Client, key client.ObjectKey) error {
	cluster, revisions, err := read(ctx, c, key)
	if err != nil {
		return err
	}
	revision, err := r.choose(cluster, revisions)
	if err != nil {
		return err
	}
	kept, err := spechistory.Spec(revision)
	if err != nil {
		return err
	}
	to, stays := spechistory.Back(cluster, kept)
	changes, err := spechistory.Changes(&cluster.Spec, to)
	if err != nil {
		return err
	}
	for _, line := range stays {
		fmt.Fprintln(r.Out, line)
	}
	if len(changes) == 0 {
		fmt.Fprintf(r.Out, "Nothing else differs from revision %d, so nothing was changed.\n", revision.Revision)
		return nil
	}
	fmt.Fprintf(r.Out, "Revision %d changes:\n  %s\n", revision.Revision, strings.Join(changes, "\n  "))
	// Of the spec, only what changes is written: this program may be older than fields that somebody has set. With the version that was read,
	// what somebody has changed meanwhile isn't overwritten.
	patch := client.MergeFromWithOptions(cluster.DeepCopy(), client.MergeFromWithOptimisticLock{})
	cluster.Spec = *to
	if err := c.Patch(ctx, cluster.DeepCopy(), patch, client.DryRunAll); err != nil {
		return fmt.Errorf("revision %d can't be applied: %w", revision.Revision, err)
	}
	if !r.Yes {
		if yes, err := prompt.New(r.In, r.Out).Typed(ctx, fmt.Sprintf("To write this spec, type %s: ", key.Name), key.Name); err != nil || !yes {
			return cmp.Or(err, errors.New("nothing was changed"))
		}
	}
	if err := c.Patch(ctx, cluster, patch); apierrors.IsConflict(err) {
		return fmt.Errorf("%s has changed since it was read, so nothing was written: run the command again (%w)", key.Name, err)
	} else if err != nil {
		return err
	}
	fmt.Fprintf(r.Out, "The spec of %s is that of revision %d. A tool that applies it from elsewhere, such as Argo CD or Flux, has to be given the same.\n", key.Name, revision.Revision)
	return nil
}

func (r Rollback) choose(cluster *v1alpha1.PostgresCluster, revisions []appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	if r.To > 0 {
		i := slices.IndexFunc(revisions, func(revision appsv1.ControllerRevision) bool { return revision.Revision == r.To })
		if i < 0 {
			return nil, fmt.Errorf("there is no revision %d of %s; kubectl howdah history %[2]s lists those that are kept", r.To, cluster.Name)
		}
		return &revisions[i], nil
	}
	for i := range revisions {
		spec, err := spechistory.Spec(&revisions[i])
		if err != nil {
			return nil, err
		}
		changes, err := spechistory.Changes(&cluster.Spec, spec)
		if err != nil || len(changes) > 0 {
			return &revisions[i], err
		}
	}
	return nil, fmt.Errorf("no spec of %s is kept but the present one", cluster.Name)
}
