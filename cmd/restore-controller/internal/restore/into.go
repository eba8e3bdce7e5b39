package restore

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/clustercopy"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/volumelock"
	"howdah.dev/howdah/pkg/workload"
)

// lookAgain is how often what no watch tells of is looked at: a copy that is being deleted, or the pod of a Job.
const lookAgain = 10 * time.Second

// intoRestorer restores tables into running clusters.
type intoRestorer struct{ *Reconciler }

// intoSeen is what one pass has seen of a restore into a running cluster.
type intoSeen struct {
	copy clustercopy.Seen
	// check is the Job that looks at the running cluster before the copy is restored.
	check workload.State
	// login is the Secret of the role; nil: there is none.
	login *corev1.Secret
}

func (o *observed) intoCluster() *v1alpha1.IntoCluster { return o.restore.Spec.Destination.IntoCluster }

func (o *observed) intoStatus() *v1alpha1.IntoClusterStatus { return o.restore.Status.IntoCluster }

func isCommitted(o *observed) bool {
	return o.intoStatus() != nil && o.intoStatus().CommittedAt != nil
}

// planned: a plan was all that was wanted, and it is made.
func isPlanned(o *observed) bool {
	return o.planOnly() && o.restore.Status.Plan != nil && o.intoStatus().CheckedAt != nil
}

// plan is the algorithm for a cluster that runs on. The copy and the Jobs are deleted in every case, and only then the Restore ends.
func (r intoRestorer) plan(o *observed) []step {
	cleanUp := []step{r.stopJob, r.removeCheck, r.removeCopy, awaitCopyGone}
	switch {
	case o.deleting() && o.ended():
		return []step{r.removeFinalizer}
	case o.deleting():
		return append(cleanUp, r.removeFinalizer)
	case o.ended():
		return []step{r.expire}
	case isCommitted(o) || o.intoStatus() != nil && isPlanned(o):
		return cleanUp
	case o.intoFailure() != nil:
		return append(append([]step{pinIntoFailure}, cleanUp...), concludeInto)
	}
	return []step{
		r.ensureFinalizer, preflightInto, beginInto,
		r.ensureCheck, r.awaitCheck, r.takeCheck,
		r.ensureCopy, pinCopyPlan, awaitCopy,
		pinCopying, r.ensureCopying, r.awaitCopying, r.takeCopied,
	}
}

// credentialsSecret is that of the role which creates the tables.
func credentialsOf(o *observed) string {
	if credentials := o.intoCluster().Credentials; credentials != nil {
		return credentials.SecretName
	}
	return protocol.AppSecret(o.intoCluster().Name)
}

func checkJobName(into *v1alpha1.IntoClusterStatus) string { return into.Copy + "-check-restore" }

// observe reads what exists of the work, past the cache.
func (r intoRestorer) observe(ctx context.Context, o *observed) (err error) {
	if o.intoCluster() == nil || o.ended() {
		return nil
	}
	into := o.intoStatus()
	if into == nil {
		o.into.login, err = find(ctx, r.Live, o.restore, credentialsOf(o), &corev1.Secret{})
		return err
	}
	if o.into.copy, err = clustercopy.Observe(ctx, r.Live, o.restore, into.Copy, into.CopyUID); err != nil {
		return err
	}
	if o.into.check, err = workload.Observe(ctx, r.Live, r.Live, o.restore, checkJobName(into)); err != nil {
		return err
	}
	o.into.check.Explain(ctx, r.Live, o.restore.Namespace)
	return nil
}

// preflightInto refuses what can't be done, before anything is created.
func preflightInto(_ context.Context, o *observed) flow.Outcome {
	if o.intoStatus() != nil {
		return flow.Next
	}
	for _, policy := range []func(*observed) flow.Outcome{clusterExists, clusterRemains, clusterIsAwake, clusterServes, loginExists} {
		if outcome := policy(o); !outcome.Finished() {
			return outcome
		}
	}
	return flow.Next
}

func clusterServes(o *observed) flow.Outcome {
	if volumelock.Ready(o.cluster) && o.cluster.Status.MajorVersion != 0 && o.cluster.Status.Image != "" {
		return flow.Next
	}
	return flow.Wait(v1alpha1.ReasonClusterNotReady, fmt.Sprintf("Waiting until PostgresCluster %s is ready. It says: %s", o.cluster.Name, volumelock.State(o.cluster)))
}

func loginExists(o *observed) flow.Outcome {
	name := credentialsOf(o)
	if o.into.login == nil {
		return missing(o, v1alpha1.ReasonSecretNotFound, fmt.Sprintf(
			"There is no Secret %s in namespace %s, which has the login of the role that creates the tables. Create it, or name another one in spec.destination.intoCluster.credentials.secretName.",
			name, o.restore.Namespace))
	}
	for _, key := range []string{"username", "password"} {
		if len(o.into.login.Data[key]) == 0 {
			return missing(o, v1alpha1.ReasonSecretNotFound, fmt.Sprintf("Secret %s has no %s. Add it, or name another Secret in spec.destination.intoCluster.credentials.secretName.", name, key))
		}
	}
	return flow.Next
}

// beginInto records which cluster it is, and the name of the copy, before anything is created.
func beginInto(_ context.Context, o *observed) flow.Outcome {
	status := &o.restore.Status
	if status.IntoCluster != nil {
		return flow.Next
	}
	status.Cluster = &v1alpha1.CreatedCluster{Name: o.cluster.Name, UID: o.cluster.UID}
	status.IntoCluster = &v1alpha1.IntoClusterStatus{
		Copy: clustercopy.Name(o.cluster.Name, "copy", o.restore.UID, o.restore.CreationTimestamp.Time),
	}
	status.StartedAt = &metav1.Time{Time: o.now}
	return flow.Save(v1alpha1.ReasonCheckingTarget, fmt.Sprintf("PostgresCluster %s is looked at first.", o.cluster.Name))
}

// still reports that the API server itself says so of the work: a cache that lags may show a Restore that has ended, and nobody would delete what is created
// for it.
func (r intoRestorer) still(ctx context.Context, o *observed) (bool, error) {
	now := &v1alpha1.Restore{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(o.restore), now); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	status := now.Status
	return now.UID == o.restore.UID && now.DeletionTimestamp.IsZero() && status.CompletedAt == nil && status.Failure == nil &&
		status.IntoCluster != nil && status.IntoCluster.CommittedAt == nil, nil
}

// ifWanted runs what creates something of the work, if that is still wanted.
func (r intoRestorer) ifWanted(ctx context.Context, o *observed, create func() flow.Outcome) flow.Outcome {
	switch still, err := r.still(ctx, o); {
	case err != nil:
		return flow.Retry(err)
	case !still:
		return flow.Poll(100*time.Millisecond, "", "")
	}
	return create()
}

// ensureCopy creates the Restore of the copy, and records which one it is.
func (r intoRestorer) ensureCopy(ctx context.Context, o *observed) flow.Outcome {
	into, found := o.intoStatus(), o.into.copy.Restore
	switch {
	case found == nil:
		return r.ifWanted(ctx, o, func() flow.Outcome { return r.createCopy(ctx, o) })
	case into.CopyUID == "":
		into.CopyUID = found.UID
		return flow.Save(v1alpha1.ReasonRestoringCopy, fmt.Sprintf("Restore %s of the temporary copy was created.", into.Copy))
	}
	return flow.Next
}

func (r intoRestorer) createCopy(ctx context.Context, o *observed) flow.Outcome {
	wanted, name := o.intoCluster(), o.intoStatus().Copy
	err := r.Client.Create(ctx, clustercopy.Copy{
		Owner: o.restore, Kind: v1alpha1.KindRestore, Name: name, Source: o.restore.Spec.Source, Target: o.restore.Spec.Target, Mode: o.restore.Spec.Mode,
		Storage: wanted.Storage, Resources: wanted.Resources,
	}.Restore())
	switch {
	case apierrors.IsInvalid(err):
		return flow.Stop(v1alpha1.ReasonInvalidSpec, fmt.Sprintf("The API server refuses the Restore of the temporary copy: %v. Correct it in another Restore.", err))
	case err != nil && !apierrors.IsAlreadyExists(err): // whose it is is seen in the next pass
		return flow.Retry(fmt.Errorf("create Restore %s: %w", name, err))
	}
	return flow.Save(v1alpha1.ReasonRestoringCopy, fmt.Sprintf("Restore %s of the temporary copy is being created.", name))
}

// pinCopyPlan takes the plan of the copy over, which is the plan of this Restore.
func pinCopyPlan(_ context.Context, o *observed) flow.Outcome {
	plan := o.into.copy.Restore.Status.Plan
	if o.restore.Status.Plan != nil || plan == nil {
		return flow.Next
	}
	o.restore.Status.Plan = plan.DeepCopy()
	o.restore.Status.Plan.Secrets, o.restore.Status.Plan.Dropped, o.restore.Status.Plan.RecordedBy = nil, nil, nil // of the copy, which nobody keeps
	return flow.Save(v1alpha1.ReasonPlanned, fmt.Sprintf("The plan is to restore backup %s to a temporary copy, to %s, and to copy from there.", plan.BackupID, plan.Target))
}

// awaitCopy waits for the restored copy. Its failure is plan's.
func awaitCopy(_ context.Context, o *observed) flow.Outcome {
	seconds, message := o.into.copy.Seconds()
	if seconds == 0 {
		return flow.Poll(lookAgain, v1alpha1.ReasonRestoringCopy, message+" status.progress of that Restore says how far it is.")
	}
	if o.into.copy.Cluster == nil || o.into.copy.Cluster.Status.Connection == nil || o.into.copy.Cluster.Status.Connection.SuperuserSecret == "" {
		return flow.Poll(lookAgain, v1alpha1.ReasonRestoringCopy, fmt.Sprintf("Waiting for the Secrets of PostgresCluster %s, the temporary copy.", o.intoStatus().Copy))
	}
	if o.restore.Status.Reached == nil && o.into.copy.Restore.Status.Reached != nil {
		o.restore.Status.Reached = o.into.copy.Restore.Status.Reached.DeepCopy()
		return flow.Save(v1alpha1.ReasonRestoringCopy, fmt.Sprintf("PostgresCluster %s, the temporary copy, is restored.", o.intoStatus().Copy))
	}
	return flow.Next
}

// removeCopy deletes the Restore of the copy. What it has created goes with it.
func (r intoRestorer) removeCopy(ctx context.Context, o *observed) flow.Outcome {
	into := o.intoStatus()
	switch {
	case into == nil || o.into.copy.Restore == nil:
		return flow.Next
	case into.CopyUID == "":
		into.CopyUID = o.into.copy.Restore.UID // by which its cluster is known once it is deleted
		return flow.Save(v1alpha1.ReasonDeleting, "The temporary copy is being deleted.")
	}
	if err := clustercopy.Delete(ctx, r.Client, o.into.copy.Restore); err != nil {
		return flow.Retry(err)
	}
	return flow.Poll(lookAgain, v1alpha1.ReasonDeleting, fmt.Sprintf("Deleting Restore %s and its PostgresCluster, the temporary copy.", into.Copy))
}

// awaitCopyGone waits until nothing is left of the copy, which goes with its owner.
func awaitCopyGone(_ context.Context, o *observed) flow.Outcome {
	if o.intoStatus() == nil || o.into.copy.Cluster == nil {
		return flow.Next
	}
	return flow.Poll(lookAgain, v1alpha1.ReasonDeleting, fmt.Sprintf("Waiting until PostgresCluster %s, the temporary copy, is deleted.", o.intoStatus().Copy))
}

// what is restored, for sentences.
func whatOf(o *observed) string {
	wanted := o.intoCluster()
	switch {
	case len(wanted.Tables) > 0:
		return join(wanted.Tables)
	case len(wanted.Schemas) > 0:
		return "schema " + join(wanted.Schemas)
	}
	return "the database"
}

func join[T ~string](names []T) string {
	var text []string
	for _, name := range names[:min(len(names), 8)] {
		text = append(text, string(name))
	}
	if more := len(names) - 8; more > 0 {
		text = append(text, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(text, ", ")
}
