package majorupdate

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) // a Sunday

// facts are those of a cluster that runs PostgreSQL 15, is well, and is to run 18; change makes them otherwise.
func facts(change func(*Facts)) Facts {
	f := Facts{
		Cluster: &v1alpha1.PostgresCluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "shop", UID: "c1", Generation: 3},
			Spec:       v1alpha1.PostgresClusterSpec{Version: 18, Updates: &v1alpha1.Updates{Major: v1alpha1.UpdateAutomatic}},
			Status: v1alpha1.PostgresClusterStatus{
				ObservedGeneration: 3, MajorVersion: 15, Image: "postgres:15", DataGeneration: "g1",
				Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}},
			},
		},
		Images: map[int32]string{15: "postgres:15", 18: "postgres:18"}, Now: noon,
	}
	if change != nil {
		change(&f)
	}
	return f
}

// ended is an Upgrade that has ended like that.
func ended(u *v1alpha1.Upgrade, status metav1.ConditionStatus, message string) {
	u.Status.CompletedAt = &metav1.Time{Time: noon}
	u.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionSucceeded, Status: status, Message: message}}
}

// checked adds a check that has found no obstacle.
func (f *Facts) checked() *v1alpha1.Upgrade {
	check := f.begin().Create
	check.UID = "check"
	ended(check, metav1.ConditionTrue, "It can be done.")
	f.Upgrades = append(f.Upgrades, *check)
	return &f.Upgrades[len(f.Upgrades)-1]
}

// followed adds what follows the check.
func (f *Facts) followed() *v1alpha1.Upgrade {
	successor := f.upgrade(SuccessorName(f.checked()))
	successor.UID = "successor"
	f.Upgrades = append(f.Upgrades, *successor)
	return &f.Upgrades[len(f.Upgrades)-1]
}

func (f *Facts) recorded() {
	f.Upgrades[0].Status.Successor = &v1alpha1.SuccessorUpgrade{Name: "shop-to-18-x", UID: "successor"}
}

// others adds an Upgrade that a person has created.
func (f *Facts) others(change func(*v1alpha1.Upgrade)) {
	theirs := v1alpha1.Upgrade{ObjectMeta: metav1.ObjectMeta{Name: "theirs", UID: "theirs"}, Spec: v1alpha1.UpgradeSpec{Cluster: v1alpha1.LocalReference{Name: "shop"}, Version: 18}}
	change(&theirs)
	f.Upgrades = append(f.Upgrades, theirs)
}

func (f *Facts) restore(change func(*v1alpha1.Restore)) {
	restore := v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Name: "back"}, Spec: v1alpha1.RestoreSpec{Destination: v1alpha1.RestoreDestination{InPlace: &v1alpha1.InPlace{Name: "shop"}}}}
	change(&restore)
	f.Restores = append(f.Restores, restore)
}

func sundays(f *Facts) {
	f.Cluster.Spec.Updates.Window = &v1alpha1.MaintenanceWindow{Schedule: "0 3 * * 0", TimeZone: "UTC", Duration: metav1.Duration{Duration: time.Hour}}
}

const (
	nothing  = "nothing"
	check    = "check"
	upgrades = "upgrade"
	records  = "record"
)

// does says in a word what a decision leads to.
func does(d Decision) string {
	switch {
	case d.Create != nil && d.Create.Spec.CheckOnly:
		return check
	case d.Create != nil:
		return upgrades
	case d.Check != nil:
		return records
	}
	return nothing
}

func TestAVersionByPolicyIsCheckedFirstAndReachedOnceInItsWindow(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Facts)
		does   string
		says   string
	}{
		"it is checked first":                {nil, check, "which checks"},
		"a person decides by default":        {func(f *Facts) { f.Cluster.Spec.Updates = nil }, nothing, ""},
		"only minor versions are automatic":  {func(f *Facts) { f.Cluster.Spec.Updates = &v1alpha1.Updates{Minor: v1alpha1.UpdateAutomatic} }, nothing, ""},
		"the version runs":                   {func(f *Facts) { f.Cluster.Status.MajorVersion = 18 }, nothing, ""},
		"a higher version runs":              {func(f *Facts) { f.Cluster.Spec.Version = 15; f.Cluster.Status.MajorVersion = 18 }, nothing, ""},
		"nothing has run yet":                {func(f *Facts) { f.Cluster.Status.MajorVersion = 0 }, nothing, ""},
		"it is being deleted":                {func(f *Facts) { f.Cluster.DeletionTimestamp = &metav1.Time{Time: noon} }, nothing, ""},
		"the suite has no image":             {func(f *Facts) { delete(f.Images, 18) }, nothing, "no image for PostgreSQL 18"},
		"spec names an image of the new":     {func(f *Facts) { delete(f.Images, 18); f.Cluster.Spec.Image = "mine:18" }, check, "which checks"},
		"spec names the image that runs":     {func(f *Facts) { f.Cluster.Spec.Image = "postgres:15" }, nothing, "which runs. Set spec.image"},
		"its check doesn't wait for windows": {sundays, check, "which checks"},
		"its check runs":                     {func(f *Facts) { f.checked().Status.CompletedAt = nil }, nothing, "checks whether"},
		"its check is being deleted":         {func(f *Facts) { f.checked().DeletionTimestamp = &metav1.Time{Time: noon} }, nothing, "is being deleted"},
		"its check has failed":               {func(f *Facts) { ended(f.checked(), metav1.ConditionFalse, "Drop it") }, nothing, "The check has failed: Drop it. Nothing more is done. When that is fixed, delete Upgrade shop-to-18-check-"},
		"its check was cancelled":            {func(f *Facts) { ended(f.checked(), metav1.ConditionFalse, "Cancelled") }, nothing, "Cancelled."},
		"the name of its check is taken":     {func(f *Facts) { f.checked().OwnerReferences = nil }, nothing, "created by somebody else"},
		"a check for another image":          {func(f *Facts) { f.checked(); f.Cluster.Spec.Image = "mine:18" }, check, "which checks"},
		"a check for another version":        {func(f *Facts) { f.checked(); f.Cluster.Spec.Version = 17; f.Images[17] = "postgres:17" }, check, "which checks"},
		"a check for a former cluster":       {func(f *Facts) { f.checked(); f.Cluster.UID = "c2" }, check, "which checks"},
		"it was checked, without a window":   {func(f *Facts) { f.checked() }, upgrades, "which upgrades PostgresCluster shop."},
		"it was checked, before the window":  {func(f *Facts) { sundays(f); f.checked() }, nothing, "It waits until 2026-03-08 at 03:00 UTC"},
		"it was checked, in the window":      {func(f *Facts) { sundays(f); f.checked(); f.Now = noon.Add(15*time.Hour + 6*24*time.Hour) }, upgrades, "which upgrades PostgresCluster shop."},
		"not before a time": {func(f *Facts) {
			f.checked()
			f.Cluster.Spec.Updates.NotBefore = &metav1.Time{Time: noon.Add(time.Hour)}
		}, nothing, "It waits until 2026-03-01 at 13:00 UTC"},
		"a window that is invalid":         {func(f *Facts) { sundays(f); f.Cluster.Spec.Updates.Window.TimeZone = "Mars"; f.checked() }, nothing, "The upgrade can never start: spec.updates.window.timeZone"},
		"it was checked, and made Manual":  {func(f *Facts) { f.checked(); f.Cluster.Spec.Updates.Major = v1alpha1.UpdateManual }, nothing, ""},
		"its Upgrade exists":               {func(f *Facts) { f.followed() }, records, "upgrades PostgresCluster shop."},
		"its Upgrade continues":            {func(f *Facts) { f.followed(); f.recorded() }, nothing, "upgrades PostgresCluster shop."},
		"its Upgrade has failed":           {func(f *Facts) { ended(f.followed(), metav1.ConditionFalse, "PostgreSQL 15 runs"); f.recorded() }, nothing, "PostgreSQL 15 runs. It is not tried again. To retry, delete Upgrade shop-to-18-check-"},
		"its Upgrade was deleted":          {func(f *Facts) { f.checked(); f.recorded() }, nothing, "was deleted. To upgrade the cluster anyway, delete Upgrade shop-to-18-check-"},
		"the name of its Upgrade is taken": {func(f *Facts) { f.followed().OwnerReferences = nil }, nothing, "created by somebody else"},
	} {
		t.Run(name, func(t *testing.T) {
			decision := Decide(facts(c.change))
			if does(decision) != c.does || !strings.Contains(decision.Message, c.says) || (c.says == "") != (decision.Message == "") {
				t.Errorf("%s, and says %q", does(decision), decision.Message)
			}
		})
	}
}

func TestNothingBeginsWhileSomethingElseGoesOn(t *testing.T) {
	up := func(u *v1alpha1.Upgrade) { u.Status.UpAt = &metav1.Time{Time: noon} }
	for name, c := range map[string]struct {
		change func(*Facts)
		says   string
	}{
		"it hibernates": {func(f *Facts) { f.Cluster.Spec.Hibernate = true }, "spec.hibernate is false"},
		"failover is paused": {func(f *Facts) {
			f.Cluster.Spec.Failover = &v1alpha1.Failover{PausedUntil: &metav1.Time{Time: noon.Add(time.Hour)}}
		}, "no longer paused"},
		"repairs are paused": {func(f *Facts) {
			f.Cluster.Spec.Repair = &v1alpha1.Repair{PausedFrom: &metav1.Time{Time: noon}, PausedUntil: &metav1.Time{Time: noon.Add(time.Hour)}}
		}, "repairs are no longer paused, at 2026-03-01T13:00:00Z"},
		"somebody has the volume": {func(f *Facts) {
			f.Cluster.Status.VolumeLocks = []v1alpha1.VolumeLock{{Kind: "Restore", Name: "back", RequesterUID: "r", State: v1alpha1.VolumeLockQueued}}
		}, "Restore back gives the volumes back"},
		"the image is changing": {func(f *Facts) { f.Cluster.Status.ImageChange = &v1alpha1.ImageChange{To: "postgres:15.9"} }, "the change to postgres:15.9"},
		"it is not Ready":       {func(f *Facts) { f.Cluster.Status.Conditions[0].Status = metav1.ConditionFalse }, "Ready"},
		"its status is old":     {func(f *Facts) { f.Cluster.Generation++ }, "Ready"},
		"a replica is down": {func(f *Facts) {
			f.Cluster.Status.Conditions = append(f.Cluster.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReplicated, Status: metav1.ConditionFalse})
		}, "all replicas follow"},
		"a Restore continues":           {func(f *Facts) { f.restore(func(*v1alpha1.Restore) {}) }, "Restore back has ended"},
		"a person's Upgrade continues":  {func(f *Facts) { f.others(func(*v1alpha1.Upgrade) {}) }, "Upgrade theirs has ended"},
		"a person's Upgrade has failed": {func(f *Facts) { f.others(func(u *v1alpha1.Upgrade) { ended(u, metav1.ConditionFalse, "x") }) }, "as long as Upgrade theirs exists"},
		"an Upgrade can be rolled back": {func(f *Facts) {
			f.others(func(u *v1alpha1.Upgrade) { u.Spec.Version = 15; ended(u, metav1.ConditionTrue, ""); up(u) })
		}, "is confirmed or rolled back"},
	} {
		for when, before := range map[string]func(*Facts){"before the check": func(*Facts) {}, "after the check": func(f *Facts) { f.checked() }} {
			t.Run(name+", "+when, func(t *testing.T) {
				decision := Decide(facts(func(f *Facts) { before(f); c.change(f) }))
				if does(decision) != nothing || !strings.Contains(decision.Message, c.says) {
					t.Errorf("%s, and says %q", does(decision), decision.Message)
				}
			})
		}
	}
}

func TestWhatDoesNotTouchTheClusterIsNoObstacle(t *testing.T) {
	for name, change := range map[string]func(*Facts){
		"a pause that is over": func(f *Facts) { f.Cluster.Spec.Failover = &v1alpha1.Failover{PausedUntil: &metav1.Time{Time: noon}} },
		"a Restore that has ended": func(f *Facts) {
			f.restore(func(r *v1alpha1.Restore) { r.Status.CompletedAt = &metav1.Time{Time: noon} })
		},
		"a Restore that only plans":     func(f *Facts) { f.restore(func(r *v1alpha1.Restore) { r.Spec.Mode = v1alpha1.RestorePlanOnly }) },
		"a Restore of another cluster":  func(f *Facts) { f.restore(func(r *v1alpha1.Restore) { r.Spec.Destination.InPlace.Name = "other" }) },
		"a person's check":              func(f *Facts) { f.others(func(u *v1alpha1.Upgrade) { u.Spec.CheckOnly = true }) },
		"a rehearsal":                   func(f *Facts) { f.others(func(u *v1alpha1.Upgrade) { u.Spec.Rehearsal = &v1alpha1.Rehearsal{} }) },
		"an Upgrade of another cluster": func(f *Facts) { f.others(func(u *v1alpha1.Upgrade) { u.Spec.Cluster.Name = "other" }) },
		"an Upgrade of a former cluster": func(f *Facts) {
			f.others(func(u *v1alpha1.Upgrade) { u.Status.Plan = &v1alpha1.UpgradePlan{ClusterUID: "c0"} })
		},
		"an Upgrade to what runs, confirmed": func(f *Facts) {
			f.others(func(u *v1alpha1.Upgrade) {
				u.Spec.Version = 15
				ended(u, metav1.ConditionTrue, "")
				u.Status.UpAt, u.Status.SettledAt = &metav1.Time{Time: noon}, &metav1.Time{Time: noon}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			if decision := Decide(facts(change)); does(decision) != check {
				t.Errorf("%s, and says %q", does(decision), decision.Message)
			}
		})
	}
}

func TestTheNamesOfAutomaticUpgradesFollowFromSpecAndFit(t *testing.T) {
	f := facts(func(f *Facts) { f.Cluster.Name = strings.Repeat("a", 26) + "-" + strings.Repeat("b", 13) })
	created := Decide(f).Create
	if again := Decide(f).Create; created.Name != again.Name || len(created.Name) > 48 || !metav1.IsControlledBy(created, f.Cluster) || !created.Spec.Automatic {
		t.Errorf("%+v, and then %s", created, again.Name)
	}
	if *created.OwnerReferences[0].Controller == false || created.OwnerReferences[0].BlockOwnerDeletion != nil {
		t.Errorf("it keeps its owner from being deleted, or is not its: %+v", created.OwnerReferences)
	}
	first, second := created.DeepCopy(), created.DeepCopy()
	first.UID, second.UID = "1", "2"
	if one, two := SuccessorName(first), SuccessorName(second); one == two || len(one) > 48 || one == created.Name {
		t.Errorf("what follows another check has the same name: %s, %s", one, two)
	}
}
