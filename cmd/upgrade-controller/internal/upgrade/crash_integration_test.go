//go:build integration

package upgrade

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/test/testkit/jobs"
	"howdah.dev/howdah/test/testkit/mortal"
)

// crashed is an Upgrade whose controllers die with each of their writes.
type crashed struct {
	*lab
	upgrade *v1alpha1.Upgrade
	// act is done once the Job at is there, before the next controller begins; acted is closed then.
	at    string
	act   func(*crashed)
	acted chan struct{}
}

// begin starts a controller, on whatever was done meanwhile.
func (c *crashed) begin(process *mortal.Process) (stop func()) {
	if c.act != nil && c.there(c.job(c.at)) {
		c.act(c)
		c.act = nil
		close(c.acted)
	}
	c.process = process
	c.startController()
	return c.stop
}

// reach waits until the Upgrade says that.
func (c *crashed) reach(status metav1.ConditionStatus, reason string) {
	c.Helper()
	c.eventually(string(status)+" "+reason, func() bool {
		if !c.there(c.upgrade) {
			c.Fatal("the Upgrade is gone")
		}
		said := meta.FindStatusCondition(c.upgrade.Status.Conditions, v1alpha1.ConditionSucceeded)
		return said != nil && said.Status == status && said.Reason == reason
	}, func() string { return fmt.Sprintf("%+v", c.upgrade.Status) })
}

func (c *crashed) completed() { c.reach(metav1.ConditionTrue, v1alpha1.ReasonCompleted) }

// works has the Job of the upgrade succeed.
func (c *crashed) works() {
	c.set(func() {
		c.work = result(agentapi.UpgradeResult{DataGeneration: c.generation(), SystemIdentifier: "8", MajorVersion: 18})
	})
}

func (c *crashed) backsUpNow() { c.set(func() { c.backsUp = true }) }

// generation is the data generation that the Upgrade writes.
func (c *crashed) generation() string { return protocol.DataGeneration(c.upgrade.UID, 0) }

// runs waits until that Job runs.
func (c *crashed) runs(job string) {
	c.Helper()
	c.eventually("Job "+job+" runs", func() bool { return c.there(c.job(job)) }, func() string { return "there is none" })
}

// loses has a Job end without a word, and waits until it is made again.
func (c *crashed) loses(job string, outcome **agentapi.Outcome) {
	c.Helper()
	c.runs(job)
	former := c.job(job)
	if !c.there(former) {
		c.Fatalf("Job %s is gone", job)
	}
	c.set(func() { *outcome = &agentapi.Outcome{} })
	now := c.job(job)
	c.eventually("Job "+job+" is made again", func() bool { return c.there(now) && now.UID != former.UID }, func() string { return string(now.UID) })
}

func (c *crashed) patch(spec string) {
	c.Helper()
	if err := c.Patch(context.Background(), c.upgrade, client.RawPatch(types.MergePatchType, []byte(spec))); err != nil {
		c.Fatal(err)
	}
}

// tolerate has the cluster tolerate a taint, which keeps the pods of Jobs from their nodes: they have none in these tests.
func (c *crashed) tolerate() {
	c.Helper()
	const scheduling = `{"spec":{"scheduling":{"tolerations":[{"key":"dedicated","operator":"Exists"}]}}}`
	if err := c.Patch(context.Background(), c.shop, client.RawPatch(types.MergePatchType, []byte(scheduling))); err != nil {
		c.Fatal(err)
	}
}

// tolerates waits until a Job has what the cluster tolerates.
// losesCheck has the check run on a node that is lost, for so long that Kubernetes has told its pod to go.
func (c *crashed) losesCheck() {
	c.Helper()
	c.ahead.Store(int64(5 * time.Minute))
	job := c.job(checkName)
	if !c.there(job) {
		c.Fatal("there is no check")
	}
	if err := jobs.Strand(context.Background(), c, job); err != nil {
		c.Fatal(err)
	}
}

func (c *crashed) tolerates(name string) {
	c.Helper()
	job := c.job(name)
	c.eventually("Job "+name+" tolerates what the cluster does", func() bool {
		return c.there(job) && job.DeletionTimestamp.IsZero() && slices.ContainsFunc(job.Spec.Template.Spec.Tolerations,
			func(t corev1.Toleration) bool { return t.Key == "dedicated" })
	}, func() string { return fmt.Sprintf("%v", job.Spec.Template.Spec.Tolerations) })
}

func (c *crashed) cancel() { c.Helper(); c.patch(`{"spec":{"cancel":true}}`) }

func (c *crashed) delete() {
	c.Helper()
	if err := c.Delete(context.Background(), c.upgrade); err != nil {
		c.Fatal(err)
	}
}

// gone waits until the Upgrade is.
func (c *crashed) gone() {
	c.Helper()
	c.eventually("it is gone", func() bool { return !c.there(c.upgrade) }, func() string { return fmt.Sprintf("%+v", c.upgrade.Status) })
}

// as expects the cluster to run on the previous data and version, or as was asked; nobody holds it, and no Job is left.
func (c *crashed) asBefore() { c.Helper(); c.expect("g0", 17, "postgres:17", "7") }
func (c *crashed) asAsked()  { c.Helper(); c.expect(c.generation(), 18, "postgres:18", "8") }

func (c *crashed) expect(generation string, version int32, image, identifier string) {
	c.Helper()
	all := &batchv1.JobList{}
	c.eventually(fmt.Sprintf("shop runs PostgreSQL %d, and no Job is left", version), func() bool {
		if !c.there(c.shop) || c.List(context.Background(), all, client.InNamespace(c.ns)) != nil {
			return false
		}
		return len(all.Items) == 0 && len(c.shop.Status.VolumeLocks) == 0 && meta.IsStatusConditionTrue(c.shop.Status.Conditions, v1alpha1.ConditionReady)
	}, func() string { return fmt.Sprintf("%d Jobs; %+v", len(all.Items), c.shop.Status) })
	if s := c.shop.Status; s.DataGeneration != generation || s.MajorVersion != version || s.Image != image || s.SystemIdentifier != identifier {
		c.Errorf("it is between: %+v", s)
	}
}

// story is a way that an Upgrade can go.
type story struct {
	change func(*v1alpha1.UpgradeSpec)
	// checking: its check runs on. comparing: so does the Job that looks at the volume of the primary.
	checking, comparing bool
	// act is what a person does once the Job at is there.
	at  string
	act func(*crashed)
	// tell has the others do their part, and expects the end.
	tell func(*crashed)
}

const checkName, workName, compareName = "u-upgrade-check", "u-upgrade", "u-data-0"

func (c *crashed) endsCancelled() {
	c.Helper()
	c.reach(metav1.ConditionFalse, v1alpha1.ReasonCancelled)
	c.asBefore()
}
func (c *crashed) endsDeleted() { c.Helper(); c.gone(); c.asBefore() }

var stories = map[string]story{
	"it succeeds": {tell: func(c *crashed) { c.works(); c.backsUpNow(); c.completed(); c.asAsked() }},
	"it succeeds and expires": {
		change: func(s *v1alpha1.UpgradeSpec) {
			s.TTLSecondsAfterFinished, s.ConfirmWithin = ptr.To[int32](1), &metav1.Duration{}
		},
		tell: func(c *crashed) { c.works(); c.backsUpNow(); c.gone(); c.asAsked() },
	},
	"it only checks": {
		change: func(s *v1alpha1.UpgradeSpec) { s.CheckOnly = true },
		tell:   func(c *crashed) { c.completed(); c.asBefore() },
	},
	"its check finds an obstacle": {checking: true, tell: func(c *crashed) {
		c.set(func() {
			c.check = result(agentapi.UpgradeCheckResult{Findings: []agentapi.Finding{{Severity: "Error", Check: "x", Message: "it can't"}}})
		})
		c.reach(metav1.ConditionFalse, v1alpha1.ReasonCheckFailed)
		c.asBefore()
	}},
	"its check fails": {checking: true, tell: func(c *crashed) {
		c.set(func() { c.check = failed() })
		c.reach(metav1.ConditionFalse, v1alpha1.ReasonDataCorrupt)
		c.asBefore()
	}},
	"the results of its Jobs are lost": {checking: true, tell: func(c *crashed) {
		c.loses(checkName, &c.check)
		c.set(func() { c.check = result(agentapi.UpgradeCheckResult{}) })
		c.loses(workName, &c.work)
		c.works()
		c.backsUpNow()
		c.completed()
		c.asAsked()
	}},
	"its Job fails": {tell: func(c *crashed) {
		c.set(func() { c.work = failed() })
		c.reach(metav1.ConditionFalse, v1alpha1.ReasonRolledBack)
		c.asBefore()
	}},
	"its check waits for a node that the cluster tolerates only then": {checking: true, at: checkName, act: (*crashed).tolerate, tell: func(c *crashed) {
		c.tolerates(checkName)
		c.set(func() { c.check = result(agentapi.UpgradeCheckResult{}) })
		c.works()
		c.backsUpNow()
		c.completed()
		c.asAsked()
	}},
	"the node of its check is lost": {checking: true, at: checkName, act: (*crashed).losesCheck, tell: func(c *crashed) {
		c.set(func() { c.check = result(agentapi.UpgradeCheckResult{}) })
		c.works()
		c.backsUpNow()
		c.completed()
		c.asAsked()
	}},
	"the node of its check is lost, and it is cancelled": {checking: true, at: checkName, act: func(c *crashed) {
		c.losesCheck()
		c.cancel()
	}, tell: (*crashed).endsCancelled},
	"its Job waits for a node that the cluster tolerates only then": {at: workName, act: (*crashed).tolerate, tell: func(c *crashed) {
		c.tolerates(workName)
		c.works()
		c.backsUpNow()
		c.completed()
		c.asAsked()
	}},
	"it is cancelled while it checks":    {checking: true, at: checkName, act: (*crashed).cancel, tell: (*crashed).endsCancelled},
	"it is cancelled while its Job runs": {at: workName, act: (*crashed).cancel, tell: (*crashed).endsCancelled},
	"it is deleted while it checks":      {checking: true, at: checkName, act: (*crashed).delete, tell: (*crashed).endsDeleted},
	"it is deleted while its Job runs":   {at: workName, act: (*crashed).delete, tell: (*crashed).endsDeleted},
	"it is deleted before the new version runs": {tell: func(c *crashed) {
		c.neverStarts()
		c.delete()
		c.endsDeleted()
	}},
	"it is deleted when the new version runs": {tell: func(c *crashed) {
		c.works()
		c.eventually("the new version runs", func() bool { return c.there(c.upgrade) && c.upgrade.Status.UpAt != nil }, func() string { return "it doesn't" })
		c.delete()
		c.backsUpNow()
		c.gone()
		c.asAsked()
		c.released("g0")
	}},
	"it is confirmed": {tell: func(c *crashed) {
		c.works()
		c.backsUpNow()
		c.completed()
		c.patch(`{"spec":{"decision":"Confirm"}}`)
		c.confirmed(metav1.ConditionTrue, v1alpha1.ReasonConfirmed)
		c.asAsked()
		c.released("g0")
	}},
	"it is rolled back": {tell: func(c *crashed) {
		c.works()
		c.backsUpNow()
		c.completed()
		c.patch(`{"spec":{"decision":"RollBack","safetyBackup":true}}`)
		c.reach(metav1.ConditionFalse, v1alpha1.ReasonRolledBack)
		c.asBefore()
		c.released(c.generation())
	}},
	"it is rolled back before its first backup": {tell: func(c *crashed) {
		c.works()
		c.reach(metav1.ConditionUnknown, v1alpha1.ReasonAwaitingBackup)
		c.patch(`{"spec":{"decision":"RollBack"}}`)
		c.reach(metav1.ConditionFalse, v1alpha1.ReasonRolledBack)
		c.asBefore()
		c.released(c.generation())
	}},
	"files are linked, and its Job fails": {change: links, tell: func(c *crashed) {
		c.set(func() { c.work = failed() })
		c.reach(metav1.ConditionFalse, v1alpha1.ReasonRolledBack)
		c.asBefore()
		c.on("shop-1")
		c.released(c.generation())
	}},
	"files are linked, and it is deleted while its Job runs": {change: links, at: workName, act: (*crashed).delete, tell: func(c *crashed) {
		c.endsDeleted()
		c.on("shop-1")
	}},
	"files are linked, and the new version doesn't start in time": {change: links, tell: func(c *crashed) {
		c.neverStarts()
		c.ahead.Store(int64(startLimit + time.Minute))
		mortal.Wake(c.Client, c.upgrade)
		c.reach(metav1.ConditionFalse, v1alpha1.ReasonRolledBack)
		c.asBefore()
		c.on("shop-1")
	}},
	"files are linked, and it is rolled back": {change: links, tell: func(c *crashed) {
		c.works()
		c.backsUpNow()
		c.completed()
		c.on("shop-0")
		c.patch(`{"spec":{"decision":"RollBack"}}`)
		c.reach(metav1.ConditionFalse, v1alpha1.ReasonRolledBack)
		c.asBefore()
		c.on("shop-1")
		c.released(c.generation())
	}},
	"files are to be linked, and a volume can be looked at only once the cluster tolerates its node": {change: links, comparing: true, at: compareName, act: (*crashed).tolerate, tell: func(c *crashed) {
		c.tolerates(compareName)
		c.set(func() { c.comparing = false })
		c.works()
		c.backsUpNow()
		c.completed()
		c.asAsked()
	}},
	"files are to be linked, and no replica has everything": {change: links, checking: true, tell: func(c *crashed) {
		c.set(func() { c.lags, c.check = true, result(agentapi.UpgradeCheckResult{}) })
		c.reach(metav1.ConditionFalse, v1alpha1.ReasonRolledBack)
		c.asBefore()
		c.on("")
		if f := c.upgrade.Status.Failure; f == nil || f.Reason != v1alpha1.ReasonNoWayBack {
			c.Errorf("%+v", f)
		}
	}},
	"the new version doesn't start in time": {tell: func(c *crashed) {
		c.neverStarts()
		c.ahead.Store(int64(startLimit + time.Minute))
		mortal.Wake(c.Client, c.upgrade)
		c.reach(metav1.ConditionFalse, v1alpha1.ReasonRolledBack)
		c.asBefore()
		c.released(c.generation())
	}},
}

func links(s *v1alpha1.UpgradeSpec) { s.Transfer = v1alpha1.TransferLink }

// on expects whose volume the cluster has begun its data on last; empty: the one that it had.
func (c *crashed) on(instance string) {
	c.Helper()
	if !c.there(c.shop) || c.shop.Status.DataInstance != instance {
		c.Errorf("its data began on %q, and not on %q", c.shop.Status.DataInstance, instance)
	}
}

func failed() *agentapi.Outcome {
	return &agentapi.Outcome{Error: &agentapi.JobError{Reason: v1alpha1.ReasonDataCorrupt, Message: "object x is corrupt", Final: true}}
}

// neverStarts has the cluster not start on what the Job has written, and waits until the data is handed over.
func (c *crashed) neverStarts() {
	c.Helper()
	c.set(func() { c.refuses = c.generation() })
	c.works()
	c.reach(metav1.ConditionUnknown, v1alpha1.ReasonAwaitingAdoption)
}

// TestEachWriteMayBeTheLastOfAProcess has the controller die with each write, on every way that an Upgrade can go, and begin again
// on a cache that is behind: what it shows of Upgrades, or of anything else, is from before that write. The cluster is as it was or
// as was asked in the end, never between.
func TestEachWriteMayBeTheLastOfAProcess(t *testing.T) {
	caches := map[string]mortal.Behind{
		"behind on Upgrades": mortal.Only(&v1alpha1.Upgrade{}), "behind on the rest": mortal.AllBut(&v1alpha1.Upgrade{}),
	}
	for name, story := range mortal.Some(stories) {
		for caches, behind := range mortal.Draw(caches) {
			t.Run(name+", "+caches, func(t *testing.T) {
				c := &crashed{lab: newLab(t), at: story.at, act: story.act, acted: make(chan struct{})}
				c.try(story, behind)
			})
		}
	}
}

func (c *crashed) try(s story, behind mortal.Behind) {
	if s.checking {
		c.set(func() { c.check = nil })
	}
	c.set(func() { c.comparing = s.comparing })
	c.upgrade = c.lab.upgrade(s.change)
	wrote := mortal.Run(c.T, c.Client, &v1alpha1.Upgrade{}, behind, c.begin)
	if s.act != nil {
		select {
		case <-c.acted:
		case <-time.After(c.patience):
			c.Fatalf("there is no Job %s", s.at)
		}
	}
	s.tell(c)
	writes := wrote()
	c.Logf("%d processes died", len(writes))
	if len(writes) < 8 {
		c.Errorf("only %d processes died, with:\n%s", len(writes), strings.Join(writes, "\n"))
	}
	if c.there(c.upgrade) && (c.upgrade.Status.VolumeLockRequest != nil || c.upgrade.Status.BackupRequest != nil) {
		c.Errorf("it still asks: %+v", c.upgrade.Status)
	}
}
