//go:build integration

package upgrade

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/mortal"
)

// asRestoreController restores copies, and does for their clusters what Kubernetes' garbage collector does.
func (l *lab) asRestoreController(ctx context.Context) {
	restores, clusters := &v1alpha1.RestoreList{}, &v1alpha1.PostgresClusterList{}
	if l.List(ctx, restores, client.InNamespace(l.ns)) != nil || l.List(ctx, clusters, client.InNamespace(l.ns)) != nil {
		return
	}
	alive := map[string]bool{"": true}
	for i := range restores.Items {
		alive[string(restores.Items[i].UID)] = true
		l.restore(ctx, &restores.Items[i])
	}
	for i := range clusters.Items {
		if cluster := &clusters.Items[i]; !alive[cluster.Annotations[v1alpha1.AnnotationRestoredBy]] {
			_ = l.Delete(ctx, cluster)
		}
	}
}

func (l *lab) restore(ctx context.Context, restore *v1alpha1.Restore) {
	fails, lineage := "", ""
	l.set(func() { fails, lineage = l.fails, l.another })
	into := restore.Spec.Destination.NewCluster
	if meta.FindStatusCondition(restore.Status.Conditions, v1alpha1.ConditionSucceeded) != nil || into == nil {
		return
	}
	condition := metav1.Condition{Type: v1alpha1.ConditionSucceeded, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNoSpace, Message: fails}
	if fails == "" {
		if lineage == "" {
			lineage = "7-g0"
		}
		restore.Status.Plan = &v1alpha1.RestorePlan{
			Repository: "repo", Lineage: lineage, BackupID: "b1", Timeline: 1, FirstWAL: "a", LastWAL: "b", MajorVersion: 17,
			Image: "postgres:17", SystemIdentifier: "7", Target: "the end", DataGeneration: "g0",
		}
		copied := &v1alpha1.PostgresCluster{ObjectMeta: l.meta(into.Name)}
		copied.Annotations = map[string]string{v1alpha1.AnnotationRestoredBy: string(restore.UID)}
		if client.IgnoreAlreadyExists(l.begins(ctx, copied)) != nil {
			return
		}
		condition.Status, condition.Reason = metav1.ConditionTrue, v1alpha1.ReasonCompleted
	}
	restore.Status.CompletedAt = &metav1.Time{Time: restore.CreationTimestamp.Add(90 * time.Second)}
	meta.SetStatusCondition(&restore.Status.Conditions, condition)
	_ = l.Status().Update(ctx, restore)
}

// rehearses makes it a rehearsal.
func rehearses(s *v1alpha1.UpgradeSpec) {
	s.Rehearsal = &v1alpha1.Rehearsal{
		Assertions: []v1alpha1.DrillAssertion{{Name: "orders", Query: "SELECT count(*) > 0 FROM public.orders"}},
		Storage:    &v1alpha1.NewStorage{Size: "2Gi"},
	}
}

func looked(r agentapi.DrillResult) func(*crashed) {
	return func(c *crashed) { c.set(func() { c.look = drillOutcome(r) }) }
}

func drillOutcome(r agentapi.DrillResult) *agentapi.Outcome { return result(r) }

// upgradesCopy has the Job of the copy's upgrade succeed.
func (c *crashed) upgradesCopy() {
	c.set(func() {
		c.work = result(agentapi.UpgradeResult{DataGeneration: "g1", SystemIdentifier: "8", MajorVersion: 18, PreviousBytes: 1 << 20})
	})
}

// nothingLeft expects that the cluster was not touched, and that nothing is left of the copy.
func (c *crashed) nothingLeft() {
	c.Helper()
	c.asBefore()
	left := func() (names []string) {
		for _, list := range []client.ObjectList{&v1alpha1.PostgresClusterList{}, &v1alpha1.RestoreList{}, &v1alpha1.UpgradeList{}} {
			if err := c.List(context.Background(), list, client.InNamespace(c.ns)); err != nil {
				return []string{err.Error()}
			}
			items, _ := meta.ExtractList(list)
			for _, item := range items {
				if object := item.(client.Object); object.GetName() != "shop" && object.GetName() != "u" {
					names = append(names, fmt.Sprintf("%T %s", object, object.GetName()))
				}
			}
		}
		return names
	}
	if names := left(); len(names) > 0 {
		c.Errorf("left are %v", names)
	}
	configs := &corev1.ConfigMapList{}
	if err := c.List(context.Background(), configs, client.InNamespace(c.ns)); err != nil {
		c.Fatal(err)
	}
	for i := range configs.Items {
		if name := configs.Items[i].Name; strings.HasSuffix(name, "-check") && !strings.HasSuffix(name, "-upgrade-check") {
			c.Errorf("ConfigMap %s is left", name)
		}
	}
	if c.there(c.shop); len(c.shop.Status.ReleasedDataGenerations) > 0 {
		c.Errorf("data of the cluster was removed: %v", c.shop.Status.ReleasedDataGenerations)
	}
}

// says waits for how it has ended, and expects that in the message.
func (c *crashed) says(status metav1.ConditionStatus, reason, part string) {
	c.Helper()
	c.reach(status, reason)
	if message := meta.FindStatusCondition(c.upgrade.Status.Conditions, v1alpha1.ConditionSucceeded).Message; !strings.Contains(message, part) {
		c.Error(message)
	}
	c.nothingLeft()
}

func (c *crashed) rehearsing(what string, holds func(*v1alpha1.RehearsalStatus) bool) {
	c.Helper()
	c.eventually(what, func() bool {
		return c.there(c.upgrade) && c.upgrade.Status.Rehearsal != nil && holds(c.upgrade.Status.Rehearsal)
	}, func() string { return fmt.Sprintf("%+v", c.upgrade.Status.Rehearsal) })
}

func (c *crashed) copyRuns() {
	c.Helper()
	c.rehearsing("there is a copy", func(run *v1alpha1.RehearsalStatus) bool { return run.UpgradeUID != "" })
}

var rehearsals = map[string]story{
	"it succeeds": {change: rehearses, tell: func(c *crashed) {
		looked(agentapi.DrillResult{Seconds: 7})(c)
		c.upgradesCopy()
		c.says(metav1.ConditionTrue, v1alpha1.ReasonCompleted, "A copy of the cluster was upgraded from PostgreSQL 17 to 18, from backup b1. It accepted no connections for about ")
		run := c.upgrade.Status.Rehearsal
		if run.RestoreSeconds != 90 || run.CheckSeconds != 7 || run.DowntimeSeconds == 0 || run.PreflightSeconds == 0 || run.MaintenanceSeconds == 0 || run.PreviousBytes != 1<<20 {
			c.Errorf("%+v", run)
		}
	}},
	"it succeeds and expires": {
		change: func(s *v1alpha1.UpgradeSpec) { rehearses(s); s.TTLSecondsAfterFinished = ptr.To[int32](1) },
		tell: func(c *crashed) {
			looked(agentapi.DrillResult{})(c)
			c.upgradesCopy()
			c.gone()
			c.nothingLeft()
		}},
	"an assertion is false": {change: rehearses, tell: func(c *crashed) {
		looked(agentapi.DrillResult{FailedCount: 1, Failed: []agentapi.FailedAssertion{{Name: "orders", Message: "it is false"}}})(c)
		c.upgradesCopy()
		c.says(metav1.ConditionFalse, v1alpha1.ReasonAssertionFailed, "1 of 1 assertions are false: assertion orders: it is false.")
	}},
	"the copy can't be checked": {change: rehearses, tell: func(c *crashed) {
		c.set(func() { c.look = failed() })
		c.upgradesCopy()
		c.says(metav1.ConditionFalse, v1alpha1.ReasonDataCorrupt, "The upgraded copy could not be checked: Object x is corrupt.")
	}},
	"the check finds an obstacle": {change: rehearses, checking: true, tell: func(c *crashed) {
		c.set(func() {
			c.check = result(agentapi.UpgradeCheckResult{Findings: []agentapi.Finding{{Severity: "Error", Check: "x", Message: "it can't"}}})
		})
		c.says(metav1.ConditionFalse, v1alpha1.ReasonCheckFailed, "The copy could not be upgraded. It can't.")
		if len(c.upgrade.Status.Findings) != 1 || !meta.IsStatusConditionFalse(c.upgrade.Status.Conditions, v1alpha1.ConditionChecked) {
			c.Errorf("%+v", c.upgrade.Status)
		}
	}},
	"pg_upgrade fails": {change: rehearses, tell: func(c *crashed) {
		c.set(func() { c.work = failed() })
		c.says(metav1.ConditionFalse, v1alpha1.ReasonRehearsalFailed, "The copy could not be upgraded (RolledBack).")
	}},
	"the copy can't be restored": {
		change: func(s *v1alpha1.UpgradeSpec) { rehearses(s); s.Cancel = false },
		tell: func(c *crashed) {
			c.says(metav1.ConditionFalse, v1alpha1.ReasonRestoreFailed, "The copy could not be restored. Restore shop-rehearsal-")
		}},
	"it is cancelled": {change: rehearses, tell: func(c *crashed) {
		c.copyRuns()
		c.cancel()
		c.says(metav1.ConditionFalse, v1alpha1.ReasonCancelled, "spec.cancel")
	}},
	"it is deleted": {change: rehearses, tell: func(c *crashed) {
		c.copyRuns()
		c.delete()
		c.gone()
		c.nothingLeft()
	}},
	"it takes too long": {change: rehearses, tell: func(c *crashed) {
		c.copyRuns()
		c.ahead.Store(int64(25 * time.Hour))
		mortal.Wake(c.Client, c.upgrade)
		c.says(metav1.ConditionFalse, v1alpha1.ReasonRehearsalTimedOut, "Its last message was: ")
	}},
}

// TestEachWriteOfARehearsalMayBeTheLastOfAProcess is as TestEachWriteMayBeTheLastOfAProcess: in the end nothing is left of the copy,
// and the cluster was not touched.
func TestEachWriteOfARehearsalMayBeTheLastOfAProcess(t *testing.T) {
	caches := map[string]mortal.Behind{
		"behind on Upgrades": mortal.Only(&v1alpha1.Upgrade{}), "behind on the rest": mortal.AllBut(&v1alpha1.Upgrade{}),
	}
	for name, story := range mortal.Some(rehearsals) {
		for caches, behind := range mortal.Draw(caches) {
			t.Run(name+", "+caches, func(t *testing.T) {
				c := &crashed{lab: newLab(t)}
				if name == "the copy can't be restored" {
					c.set(func() { c.fails = "the volume is too small" })
				}
				c.try(story, behind)
			})
		}
	}
}

// rehearse makes a rehearsal with a controller that lives.
func rehearse(t *testing.T, change func(*v1alpha1.UpgradeSpec)) *crashed {
	c := &crashed{lab: newLab(t)}
	c.upgrade = c.lab.upgrade(func(s *v1alpha1.UpgradeSpec) { rehearses(s); change(s) })
	return c
}

func TestARehearsalOfWhatCannotBeUpgradedEndsBeforeAnythingIsCreated(t *testing.T) {
	none := func(*v1alpha1.PostgresCluster) {}
	for name, test := range map[string]struct {
		change       func(*v1alpha1.UpgradeSpec)
		cluster      func(*v1alpha1.PostgresCluster)
		reason, part string
	}{
		"a version that runs": {func(s *v1alpha1.UpgradeSpec) { s.Version = 17 }, none, v1alpha1.ReasonDowngrade, "already runs PostgreSQL 17"},
		"a cluster without repository": {func(*v1alpha1.UpgradeSpec) {}, func(c *v1alpha1.PostgresCluster) { c.Spec.Archive = nil },
			v1alpha1.ReasonNoArchive, "has no repository, so there is no backup to rehearse with"},
	} {
		t.Run(name, func(t *testing.T) {
			c := rehearse(t, test.change)
			before := c.shop.DeepCopy()
			test.cluster(c.shop)
			if err := c.Patch(t.Context(), c.shop, client.MergeFrom(before)); err != nil {
				t.Fatal(err)
			}
			c.startController()
			c.says(metav1.ConditionFalse, test.reason, test.part)
			if c.upgrade.Status.Rehearsal != nil {
				t.Errorf("it has begun: %+v", c.upgrade.Status.Rehearsal)
			}
		})
	}
}

func TestARehearsalFromABackupOfOtherDataIsRefused(t *testing.T) {
	c := rehearse(t, func(*v1alpha1.UpgradeSpec) {})
	c.set(func() { c.another = "7-gold" })
	c.startController()
	c.says(metav1.ConditionFalse, v1alpha1.ReasonBackupNotFound, "in lineage 7-gold, and not 17 in 7-g0. Take a Backup")
}

func TestARehearsalLeavesAloneWhatIsSomebodyElses(t *testing.T) {
	c := rehearse(t, func(*v1alpha1.UpgradeSpec) {})
	c.set(func() { c.check = nil })
	c.startController()
	c.copyRuns()
	theirs, name := &v1alpha1.Upgrade{}, c.upgrade.Status.Rehearsal.Name
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: c.ns, Name: name}, theirs); err != nil {
		t.Fatal(err)
	}
	before := theirs.DeepCopy()
	theirs.OwnerReferences, theirs.Finalizers = nil, nil
	if err := c.Patch(t.Context(), theirs, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	c.reach(metav1.ConditionFalse, v1alpha1.ReasonNameConflict)
	if !c.there(theirs) || !theirs.DeletionTimestamp.IsZero() {
		t.Error("it was deleted")
	}
}

func TestARehearsalNeverBecomesAnUpgrade(t *testing.T) {
	l := newLab(t)
	for part, change := range map[string]func(*v1alpha1.UpgradeSpec){
		"remove spec.checkOnly": func(s *v1alpha1.UpgradeSpec) { s.CheckOnly = true },
		"spec.confirmWithin":    func(s *v1alpha1.UpgradeSpec) { s.ConfirmWithin = &metav1.Duration{Duration: time.Hour} },
		"spec.maxDowntime":      func(s *v1alpha1.UpgradeSpec) { s.MaxDowntime = &metav1.Duration{Duration: time.Hour} },
		"spec.safetyBackup":     func(s *v1alpha1.UpgradeSpec) { s.SafetyBackup = true },
		"spec.decision":         func(s *v1alpha1.UpgradeSpec) { s.Decision = v1alpha1.UpgradeConfirm },
	} {
		refused := &v1alpha1.Upgrade{ObjectMeta: l.meta("refused"), Spec: v1alpha1.UpgradeSpec{Cluster: v1alpha1.LocalReference{Name: "shop"}, Version: 18}}
		rehearses(&refused.Spec)
		change(&refused.Spec)
		if err := l.Create(t.Context(), refused); err == nil || !strings.Contains(err.Error(), "spec.rehearsal upgrades a copy") || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v", part, err)
		}
	}
	made := l.upgrade(rehearses)
	for _, spec := range []string{`{"spec":{"rehearsal":null}}`, `{"spec":{"rehearsal":{"timeoutSeconds":90}}}`} {
		err := l.Patch(t.Context(), made.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(spec)))
		if err == nil || !strings.Contains(err.Error(), "a rehearsal never becomes an upgrade of the cluster itself") {
			t.Errorf("%s: %v", spec, err)
		}
	}
}
