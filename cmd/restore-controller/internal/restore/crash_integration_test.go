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
	"k8s.io/utils/ptr"
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

// delete deletes the Restore, and waits until it is gone.
func (c *crashed) delete() {
	c.Helper()
	if err := c.Delete(context.Background(), c.restore); err != nil {
		c.Fatal(err)
	}
	c.gone()
}

func (c *crashed) gone() {
	c.Helper()
	what := "still there"
	c.eventually("it is gone", func() bool { return !c.there(c.restore) }, &what)
}

// generation is the data generation that the Restore writes.
func (c *crashed) generation() string { return protocol.DataGeneration(c.restore.UID, 0) }

// as expects the cluster to run on the data of before or on the restored data, and the other data to be given up, if any.
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
		return c.there(made) && made.Status.DataGeneration == c.generation() && len(made.Status.Holds) == 0
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
	c.eventually("a backup is wanted", func() bool { return c.there(c.restore) && c.restore.Status.BackupWanted != nil }, &what)
	c.answerBackup(c.restore)
}

// TestEachWriteMayBeTheLastOfAProcess has the controller die with each write, in every mode and on every way out, and begin again
// on a cache that is behind that write: the cluster is as it was or as was asked in the end, never between.
func TestEachWriteMayBeTheLastOfAProcess(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*v1alpha1.RestoreSpec)
		story  func(*crashed)
	}{
		"a new cluster": {nil, func(c *crashed) { c.works(); c.completed(); c.made() }},
		"a new cluster from a bare bucket": {fromBareBucket, func(c *crashed) {
			c.works()
			c.completed()
			c.made()
			if password, controlled, _ := c.password("copy-app"); password != "as it was" || !controlled {
				c.Errorf("copy-app has %q, controlled by the cluster: %t", password, controlled)
			}
		}},
		"a new cluster, and the Restore expires": {func(s *v1alpha1.RestoreSpec) { s.TTLSecondsAfterFinished = ptr.To[int32](1) }, func(c *crashed) {
			c.works()
			c.backedUp()
			c.gone()
			c.made()
		}},
		"a new cluster whose Job fails": {nil, func(c *crashed) {
			c.jobEnds(corrupt)
			c.reach(metav1.ConditionFalse, v1alpha1.ReasonDataCorrupt)
			c.nothing()
		}},
		"a new cluster that is cancelled": {nil, func(c *crashed) {
			c.running()
			c.patchSpec(c.restore, `{"cancel":true}`)
			c.reach(metav1.ConditionFalse, v1alpha1.ReasonCancelled)
			c.nothing()
		}},
		"a new cluster that is not wanted any more": {nil, func(c *crashed) { c.running(); c.delete(); c.nothing() }},
		"a plan": {func(s *v1alpha1.RestoreSpec) { inPlace(s); s.Mode = v1alpha1.RestorePlanOnly }, func(c *crashed) {
			c.completed()
			c.expectShop(string(c.shop.UID), "g0", "")
		}},
		"in place, confirmed": {inPlace, func(c *crashed) {
			c.works()
			c.restored()
			c.patchSpec(c.restore, `{"decision":"Confirm"}`)
			c.completed()
			c.asRestored()
		}},
		"in place, undone": {inPlace, func(c *crashed) {
			c.works()
			c.restored()
			c.patchSpec(c.restore, `{"decision":"Undo"}`)
			c.reach(metav1.ConditionFalse, v1alpha1.ReasonUndone)
			c.asBefore()
		}},
		"in place, and nobody decides": {func(s *v1alpha1.RestoreSpec) {
			inPlace(s)
			s.ConfirmWithin = &metav1.Duration{Duration: time.Second}
		}, func(c *crashed) { c.works(); c.completed(); c.asRestored() }},
		"in place, and the Restore is deleted before a decision": {inPlace, func(c *crashed) { c.works(); c.restored(); c.delete(); c.asRestored() }},
		"in place, and the Restore is deleted while it is undone": {inPlace, func(c *crashed) {
			c.works()
			c.restored()
			c.patchSpec(c.restore, `{"decision":"Undo"}`)
			c.reach(metav1.ConditionUnknown, v1alpha1.ReasonUndoing)
			c.delete()
			c.asBefore()
		}},
		"in place, with a safety backup": {func(s *v1alpha1.RestoreSpec) { inPlace(s); s.Destination.InPlace.SafetyBackup = true }, func(c *crashed) {
			c.backedUp()
			c.works()
			c.restored()
			if !strings.HasPrefix(c.restore.Status.SafetyBackup, "shop-safety-") {
				c.Errorf("%+v", c.restore.Status)
			}
			c.expectShop(string(c.shop.UID), c.generation(), "")
		}},
		"in place, and its Job fails": {inPlace, func(c *crashed) {
			c.jobEnds(corrupt)
			c.reach(metav1.ConditionFalse, v1alpha1.ReasonDataCorrupt)
			c.asBefore()
		}},
		"in place, cancelled": {inPlace, func(c *crashed) {
			c.running()
			c.patchSpec(c.restore, `{"cancel":true}`)
			c.reach(metav1.ConditionFalse, v1alpha1.ReasonCancelled)
			c.asBefore()
		}},
		"in place, not wanted any more": {inPlace, func(c *crashed) { c.running(); c.delete(); c.asBefore() }},
		"in place, and the cluster doesn't start in time": {inPlace, func(c *crashed) {
			c.mu.Lock()
			c.refuses = c.generation()
			c.mu.Unlock()
			c.works()
			c.reach(metav1.ConditionUnknown, v1alpha1.ReasonAwaitingAdoption)
			c.ahead.Store(int64(startLimit + time.Minute))
			mortal.Wake(c.Client, c.restore)
			c.reach(metav1.ConditionFalse, v1alpha1.ReasonNotStarted)
			c.asBefore()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c := &crashed{lab: newLab(t)}
			c.patience = 4 * time.Minute
			c.store = buckettest.WithLogins(t, keptLogins(), 4, 5, 6)
			wrote := c.dieAtEachWrite(mortal.Only(&v1alpha1.Restore{}))
			spec := &v1alpha1.RestoreSpec{}
			if test.change != nil {
				test.change(spec)
			}
			if spec.Destination.InPlace != nil {
				c.shop = c.lab.running()
			}
			c.restore = c.lab.restore(test.change)
			test.story(c)
			// A plan is the shortest of all. How many there are exactly depends on what is met first.
			if writes := wrote(); len(writes) < 3 || len(writes) < 10 && spec.Mode != v1alpha1.RestorePlanOnly {
				t.Errorf("only %d processes died, with:\n%s", len(writes), strings.Join(writes, "\n"))
			}
			if c.there(c.restore) {
				c.clean()
			}
		})
	}
}

func inPlace(s *v1alpha1.RestoreSpec) {
	s.Destination = v1alpha1.RestoreDestination{InPlace: &v1alpha1.InPlace{Name: "shop"}}
}

func fromBareBucket(s *v1alpha1.RestoreSpec) {
	s.Source = v1alpha1.RestoreSource{Repository: &v1alpha1.RepositorySource{Name: "repo"}}
}

// clean expects a Restore that asks for nothing any more but its backup.
func (c *crashed) clean() {
	c.Helper()
	status := c.restore.Status
	if status.Hold != nil || status.Handover != nil || status.Release != nil {
		c.Errorf("it still asks: %+v", status)
	}
	if restored := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionRestored); restored != nil &&
		(restored.Status == metav1.ConditionTrue) != slices.Contains([]string{v1alpha1.ReasonAwaitingConfirmation, v1alpha1.ReasonCompleted},
			meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionSucceeded).Reason) {
		c.Errorf("it says both: %+v", status.Conditions)
	}
}
