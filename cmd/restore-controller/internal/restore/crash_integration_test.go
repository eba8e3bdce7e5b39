//go:build integration

package restore

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/test/testkit/buckettest"
	"howdah.dev/howdah/test/testkit/mortal"
)

// crashed is a Restore whose controllers die with each of their writes.
type crashed struct {
	*lab
	restore *v1alpha1.Restore
	// shop is the cluster of a restore in place.
	shop *v1alpha1.PostgresCluster
}

// corrupt is how a Job fails.
var corrupt = agentapi.Outcome{Error: &agentapi.JobError{Reason: v1alpha1.ReasonDataCorrupt, Message: "object x is corrupt", Final: true}}

// reach waits until the Restore says that.
func (c *crashed) reach(status metav1.ConditionStatus, reason string) {
	c.await(c.restore, status, reason)
}

func (c *crashed) works()     { c.jobEnds(success(c.restore)) }
func (c *crashed) completed() { c.reach(metav1.ConditionTrue, v1alpha1.ReasonCompleted) }
func (c *crashed) restored()  { c.reach(metav1.ConditionUnknown, v1alpha1.ReasonAwaitingConfirmation) }

// running waits until the Job runs.
func (c *crashed) running() {
	c.Helper()
	what := ""
	c.eventually("the Job is there", func() bool { return c.there(&batchv1.Job{ObjectMeta: c.meta("r-restore")}) }, &what)
}

func (c *crashed) beginDeletion() {
	c.Helper()
	if err := c.Delete(context.Background(), c.restore); err != nil {
		c.Fatal(err)
	}
}

// delete deletes the Restore, and waits until it is gone.
func (c *crashed) delete() { c.Helper(); c.beginDeletion(); c.gone() }

func (c *crashed) gone() {
	c.Helper()
	what := "still there"
	c.eventually("it is gone", func() bool { return !c.there(c.restore) }, &what)
}

// generation is the data generation that the Restore writes.
func (c *crashed) generation() string { return protocol.DataGeneration(c.restore.UID, 0) }

// as expects the cluster to run on the previous data or on the restored data, and the other data to be given up, if any.
func (c *crashed) asBefore()   { c.expectShop(string(c.shop.UID), "g0", c.generation()) }
func (c *crashed) asRestored() { c.expectShop(string(c.shop.UID), c.generation(), "g0") }

// made expects one new cluster, which runs on the restored data and is nobody's but its own.
func (c *crashed) made() {
	c.Helper()
	clusters := &v1alpha1.PostgresClusterList{}
	if err := c.List(context.Background(), clusters, client.InNamespace(c.ns)); err != nil || len(clusters.Items) != 1 {
		c.Fatalf("%d clusters, %v", len(clusters.Items), err)
	}
	what := ""
	c.eventually("the new cluster is nobody's but its own", func() bool {
		made := c.cluster("copy")
		return c.there(made) && made.Status.DataGeneration == c.generation() && len(made.Status.VolumeLocks) == 0
	}, &what)
}

// nothing expects no cluster, and no Job that runs.
func (c *crashed) nothing() {
	c.Helper()
	job := &batchv1.Job{ObjectMeta: c.meta("r-restore")}
	if c.there(c.cluster("copy")) || c.there(job) && len(job.Status.Conditions) == 0 {
		c.Error("something is left")
	}
}

// backedUp has the Backup that the Restore wants succeed, when it wants it.
func (c *crashed) backedUp() {
	c.Helper()
	what := "it asks for none"
	c.eventually("a backup is wanted", func() bool { return c.there(c.restore) && c.restore.Status.BackupRequest != nil }, &what)
	c.answerBackup(c.restore)
}

// safelyBackedUp expects the Restore to name its safety backup.
func (c *crashed) safelyBackedUp() {
	c.Helper()
	if !strings.HasPrefix(c.restore.Status.SafetyBackup, "shop-safety-") {
		c.Errorf("%+v", c.restore.Status)
	}
}

// TestEachWriteMayBeTheLastOfAProcess has the controller die with each write, in every mode and on every way out, and begin again
// on a cache that is behind: what it shows of Restores, or of anything else, is from before that write. The cluster is as it was or
// as was asked in the end, never between.
func TestEachWriteMayBeTheLastOfAProcess(t *testing.T) {
	caches := map[string]mortal.Behind{
		"behind on Restores": mortal.Only(&v1alpha1.Restore{}), "behind on the rest": mortal.AllBut(&v1alpha1.Restore{}),
	}
	for name, way := range mortal.Some(ways) {
		for caches, behind := range mortal.Draw(caches) {
			t.Run(name+", "+caches, func(t *testing.T) { (&crashed{lab: newLab(t, encrypted)}).try(way, behind) })
		}
	}
}

func (c *crashed) try(w way, behind mortal.Behind) {
	c.patience = 4 * time.Minute
	c.store = buckettest.WithLogins(c.T, keptLogins(), 4, 5, 6)
	wrote := c.dieAtEachWrite(behind)
	spec := &v1alpha1.RestoreSpec{}
	if w.change != nil {
		w.change(spec)
	}
	if spec.Destination.InPlace != nil {
		c.shop = c.lab.running()
		if spec.Destination.InPlace.DiscardPrevious {
			c.fills(c.shop, "1014Mi")
		}
	}
	c.restore = c.lab.restore(w.change)
	w.story(c)
	// A plan is the shortest of all. How many there are exactly depends on what is met first.
	writes := wrote()
	c.Logf("%d processes died", len(writes))
	if len(writes) < 3 || len(writes) < 5 && spec.Mode != v1alpha1.RestorePlanOnly {
		c.Errorf("only %d processes died, with:\n%s", len(writes), strings.Join(writes, "\n"))
	}
	if c.there(c.restore) {
		c.clean()
	}
}

// clean expects a Restore that asks for nothing any more but its backup.
func (c *crashed) clean() {
	c.Helper()
	status := c.restore.Status
	if status.VolumeLockRequest != nil || status.Handover != nil || status.Release != nil {
		c.Errorf("it still asks: %+v", status)
	}
	if restored := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionRestored); restored != nil &&
		(restored.Status == metav1.ConditionTrue) != slices.Contains([]string{v1alpha1.ReasonAwaitingConfirmation, v1alpha1.ReasonCompleted},
			meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionSucceeded).Reason) {
		c.Errorf("it says both: %+v", status.Conditions)
	}
}
