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
			got.Last, got.End = c.Reach.Last().Name(), v.StopAt.End()
		}
	}
	if w.Missing != "" {
		got.Missing = v.Missing.Name()
	}
	if got != w {
		t.Errorf("the verdict is %+v, want %+v", got, w)
	}
}
