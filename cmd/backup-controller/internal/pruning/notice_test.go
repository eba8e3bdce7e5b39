package pruning

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
)

func TestAPolicyRemovesNothingBeforeItWasShownForADay(t *testing.T) {
	const policy = "recoveryWindow: 7d, keepLast: 2"
	ago := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(-d)} }
	long := now.Add(-90 * 24 * time.Hour)
	for name, c := range map[string]struct {
		status *v1alpha1.RetentionStatus
		period *metav1.Duration
		seen   time.Time
		want   time.Duration // until it may remove something
	}{
		"seen for the first time":       {nil, nil, long, 24 * time.Hour},
		"changed":                       {&v1alpha1.RetentionStatus{Policy: "recoveryWindow: 7d", PolicySince: ago(1000 * time.Hour)}, nil, long, 24 * time.Hour},
		"shown for an hour":             {&v1alpha1.RetentionStatus{Policy: policy, PolicySince: ago(time.Hour)}, nil, long, 23 * time.Hour},
		"shown for a day":               {&v1alpha1.RetentionStatus{Policy: policy, PolicySince: ago(24 * time.Hour)}, nil, long, 0},
		"a time that is yet to come":    {&v1alpha1.RetentionStatus{Policy: policy, PolicySince: ago(-1000 * time.Hour)}, nil, long, 24 * time.Hour},
		"no time":                       {&v1alpha1.RetentionStatus{Policy: policy}, nil, long, 24 * time.Hour},
		"shown, and the lineage is new": {&v1alpha1.RetentionStatus{Policy: policy, PolicySince: ago(1000 * time.Hour)}, nil, now.Add(-2 * time.Hour), 22 * time.Hour},
		"longer is wanted":              {&v1alpha1.RetentionStatus{Policy: policy, PolicySince: ago(time.Hour)}, &metav1.Duration{Duration: 48 * time.Hour}, long, 47 * time.Hour},
		"none is wanted":                {nil, &metav1.Duration{}, now, 0},
	} {
		repo := &v1alpha1.BackupRepository{Status: v1alpha1.BackupRepositoryStatus{Retention: c.status}}
		repo.Spec.Retention = &v1alpha1.RetentionSpec{RecoveryWindow: "7d", KeepLast: ptr.To[int32](2), NoticePeriod: c.period, DryRun: true}
		n := noticeOf(repo, now)
		if got := max(0, n.ends(c.seen).Sub(now)); got != c.want || n.policy != policy {
			t.Errorf("%s: %s, want %s; policy %q", name, got, c.want, n.policy)
		}
		if c.want > 0 && !strings.Contains(n.awaits("7-g1", c.seen), now.Add(c.want).Format("2006-01-02 15:04 UTC")) {
			t.Errorf("%s: %s", name, n.awaits("7-g1", c.seen))
		}
	}
}

// TestTheMessageSaysOfSeveralLineagesWhyNothingIsRemoved, and of many how many there are.
func TestTheMessageSaysOfSeveralLineagesWhyNothingIsRemoved(t *testing.T) {
	for want, waits := range map[string][]string{
		"": nil, "One waits. Two waits.": {"One waits.", "Two waits."}, "1. 2. 3. And 2 more.": {"1.", "2.", "3.", "4.", "5."},
	} {
		if got := (Result{waits: waits}).message(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
