package pitrtest

import (
	"testing"

	"howdah.dev/howdah/pkg/pitr"
)

// Check compares a verdict.
func (w Want) Check(t testing.TB, v pitr.Verdict) {
	t.Helper()
	got := Want{Code: v.Code, Places: len(v.Places)}
	if c := v.Candidate; c != nil {
		got.Lineage = c.Lineage
		if w.Unlinked != 0 {
			got.Unlinked = c.Unlinked
		}
		if r := c.Reach; r != nil && w.Backup != "" {
			got.Backup, got.Timeline = r.Backup.ID, r.Timeline
		}
		if v.Code == pitr.Reachable {
			got.Last, got.End, got.Bound = c.Reach.Last().Name(), v.StopAt.End(), v.Bound
		}
	}
	if w.Missing != "" {
		got.Missing = v.Missing.Name()
	}
	if got != w {
		t.Errorf("the verdict is %+v, want %+v", got, w)
	}
}

// Times says that the case asks for a time of its only lineage, of which the windows of that lineage have to say the same as the
// verdict.
func (c *Case) Times() bool {
	t := c.Target
	return len(c.Lineages) == 1 && c.BackupID == "" && t.Time != nil && t.Inclusive == nil && t.Timeline == 0 && !c.Live() && c.Want.Code != pitr.InFuture
}

// CheckWindows compares the times that are said to be recoverable with what the case says of its own, in both directions.
func (c *Case) CheckWindows(t testing.TB, windows []pitr.Window) {
	t.Helper()
	at, within := *c.Target.Time, false
	for _, w := range windows {
		within = within || !at.Before(w.From) && !at.After(w.To)
	}
	if within != (c.Want.Code == pitr.Reachable) {
		t.Errorf("%s is in a window: %t, but the verdict is %s: %+v", at, within, c.Want.Code, windows)
	}
}
