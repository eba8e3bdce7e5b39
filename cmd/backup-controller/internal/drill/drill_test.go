package drill

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/workload"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func at(after time.Duration) *metav1.Time { return &metav1.Time{Time: noon.Add(after)} }

// drilling is what is observed of a repository whose drill began at noon, as many minutes ago.
func drilling(minutes int) *observed {
	repo := &v1alpha1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "minio", UID: "r"}}
	repo.Spec.Drill = &v1alpha1.RepositoryDrill{Schedule: "0 12 * * *", Cluster: v1alpha1.LocalReference{Name: "shop"}, TimeoutSeconds: 3600}
	repo.Status.Drill = &v1alpha1.DrillStatus{UnderWay: &v1alpha1.DrillRun{Name: "shop-drill-1", StartedAt: *at(0), Message: "waiting"}}
	return &observed{repo: repo, now: noon.Add(time.Duration(minutes) * time.Minute)}
}

func TestWhenADrillIsWanted(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.RepositoryDrill, *v1alpha1.DrillStatus)
		want   bool
	}{
		"nothing has come": {func(*v1alpha1.RepositoryDrill, *v1alpha1.DrillStatus) {}, false},
		"a time has come":  {func(_ *v1alpha1.RepositoryDrill, s *v1alpha1.DrillStatus) { s.LastScheduleTime = at(0) }, true},
		"a time has come while suspended": {func(d *v1alpha1.RepositoryDrill, s *v1alpha1.DrillStatus) {
			d.Suspend, s.LastScheduleTime = true, at(0)
		}, false},
		"a time came while the last one ran": {func(_ *v1alpha1.RepositoryDrill, s *v1alpha1.DrillStatus) {
			s.LastScheduleTime, s.Last = at(0), &v1alpha1.DrillRun{StartedAt: *at(-time.Hour), CompletedAt: at(time.Minute)}
		}, false},
		"a time came after the last one": {func(_ *v1alpha1.RepositoryDrill, s *v1alpha1.DrillStatus) {
			s.LastScheduleTime, s.Last = at(0), &v1alpha1.DrillRun{CompletedAt: at(-time.Minute)}
		}, true},
		"another token, while suspended": {func(d *v1alpha1.RepositoryDrill, s *v1alpha1.DrillStatus) {
			d.Suspend, d.Token, s.Token = true, "b", "a"
		}, true},
		"the same token": {func(d *v1alpha1.RepositoryDrill, s *v1alpha1.DrillStatus) { d.Token, s.Token = "a", "a" }, false},
	} {
		o := drilling(0)
		c.change(o.repo.Spec.Drill, o.repo.Status.Drill)
		if got := o.wanted(); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestADrillTakesOfARecordWhatItsRepositorySays(t *testing.T) {
	o := drilling(0)
	o.repo.Spec.Drill.AcceptRecorded = []v1alpha1.RecordedField{v1alpha1.RecordedTolerations}
	if got := newRestore(o.repo, o.underWay()).Spec.Destination.NewCluster.AcceptRecorded; !slices.Equal(got, o.repo.Spec.Drill.AcceptRecorded) {
		t.Errorf("the Restore accepts %q", got)
	}
}

func TestTimesThatComeWhileSuspendedAreNotMadeUpFor(t *testing.T) {
	o := drilling(1)
	o.repo.Status.Drill.NextScheduleTime = at(0)
	o.repo.Spec.Drill.Suspend = true
	o.turn()
	if status := o.repo.Status.Drill; status.LastScheduleTime != nil || status.NextScheduleTime != nil {
		t.Errorf("suspended: %+v", status)
	}
	o.repo.Spec.Drill.Suspend = false
	o.turn()
	if status := o.repo.Status.Drill; status.LastScheduleTime != nil || !status.NextScheduleTime.Equal(at(24*time.Hour)) {
		t.Errorf("going on: %+v", status)
	}
	o.now = noon.Add(50 * time.Hour)
	o.turn()
	if status := o.repo.Status.Drill; !status.LastScheduleTime.Equal(at(24*time.Hour)) || !status.NextScheduleTime.Equal(at(72*time.Hour)) {
		t.Errorf("after an outage: %+v", status)
	}
}

func TestWhyADrillEndsWithoutAResult(t *testing.T) {
	restore := func(status metav1.ConditionStatus) *v1alpha1.Restore {
		r := &v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Name: "shop-drill-1"}}
		r.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionSucceeded, Status: status, Reason: "NoSpace", Message: "too small"}}
		return r
	}
	for name, c := range map[string]struct {
		minutes int
		change  func(*observed)
		reason  string
		says    string
	}{
		"it continues":              {59, func(*observed) {}, "", ""},
		"it waits for its restore":  {1, func(o *observed) { o.copy.Restore = restore(metav1.ConditionUnknown) }, "", ""},
		"it took too long":          {60, func(*observed) {}, v1alpha1.ReasonDrillTimedOut, "waiting"},
		"it is not wanted any more": {1, func(o *observed) { o.repo.Spec.Drill = nil }, v1alpha1.ReasonCancelled, ""},
		"its restore failed":        {1, func(o *observed) { o.copy.Restore = restore(metav1.ConditionFalse) }, v1alpha1.ReasonRestoreFailed, "(NoSpace): too small"},
		"its restore was deleted":   {1, func(o *observed) { o.underWay().RestoreUID = "gone" }, v1alpha1.ReasonRestoreFailed, "deleted"},
		"its restore is being deleted": {1, func(o *observed) {
			o.copy.Restore = restore(metav1.ConditionTrue)
			o.copy.Restore.DeletionTimestamp = at(0)
		}, v1alpha1.ReasonRestoreFailed, "deleted"},
		"its restore is another's": {1, func(o *observed) { o.copy.Foreign = true }, v1alpha1.ReasonNameConflict, "is not touched"},
		"its cluster was deleted":  {1, func(o *observed) { o.underWay().RestoreSeconds = 3; o.copy.Restore = restore(metav1.ConditionTrue) }, v1alpha1.ReasonRestoreFailed, "PostgresCluster"},
		"its Job failed": {1, func(o *observed) {
			o.job = workload.State{Exists: true, Failed: true, Outcome: &agentapi.Outcome{Error: &agentapi.JobError{Reason: "BadImage", Message: "no pg_amcheck"}}}
		}, "BadImage", "No pg_amcheck"},
	} {
		o := drilling(c.minutes)
		c.change(o)
		switch v := o.ending(); {
		case v == nil && c.reason != "":
			t.Errorf("%s: it continues", name)
		case v != nil && (v.reason != c.reason || !strings.Contains(v.message, c.says)):
			t.Errorf("%s: %+v", name, *v)
		}
	}
}

func TestWhatWasFoundIsOneSentence(t *testing.T) {
	run := &v1alpha1.DrillRun{BackupID: "b", RestoreSeconds: 61, LastCommit: &metav1.MicroTime{Time: noon}}
	failed := []agentapi.FailedAssertion{{Name: "a", Message: "it is false"}}
	const restored = "Backup b was restored in 1m1s, with everything until 2026-07-01T12:00:00Z"
	for want, c := range map[string]struct {
		result     agentapi.DrillResult
		assertions int
		outcome    v1alpha1.DrillOutcome
		reason     string
	}{
		restored + "; pg_amcheck found no damage.":                                 {agentapi.DrillResult{}, 0, v1alpha1.DrillSucceeded, v1alpha1.ReasonDrilled},
		restored + "; pg_amcheck found no damage, and 2 of 2 assertions are true.": {agentapi.DrillResult{}, 2, v1alpha1.DrillSucceeded, v1alpha1.ReasonDrilled},
		restored + ", but 1 of 2 assertions are false: assertion a: it is false.": {
			agentapi.DrillResult{FailedCount: 1, Failed: failed}, 2, v1alpha1.DrillFailed, v1alpha1.ReasonAssertionFailed,
		},
		restored + `, but pg_amcheck found 1 damaged: heap table "x"; false assertions: 1.`: {
			agentapi.DrillResult{CorruptCount: 1, Corrupt: []string{`heap table "x"`}, FailedCount: 1, Failed: failed}, 2, v1alpha1.DrillFailed, v1alpha1.ReasonDataCorrupt,
		},
	} {
		outcome, reason, message := outcomeOf(c.result, run, c.assertions)
		if outcome != c.outcome || reason != c.reason || message != want {
			t.Errorf("%s %s %q, not %q", outcome, reason, message, want)
		}
	}
}

func TestTheDrilledConditionSaysWhatTheLastDrillFound(t *testing.T) {
	good := &v1alpha1.DrillRun{Outcome: v1alpha1.DrillSucceeded, Reason: v1alpha1.ReasonDrilled, Message: "Good."}
	bad := &v1alpha1.DrillRun{Outcome: v1alpha1.DrillFailed, Reason: v1alpha1.ReasonAssertionFailed, Message: "Bad."}
	for name, c := range map[string]struct {
		last    *v1alpha1.DrillRun
		suspend bool
		invalid error
		status  metav1.ConditionStatus
		reason  string
		message string
	}{
		"none yet":                 {nil, false, nil, metav1.ConditionUnknown, v1alpha1.ReasonNotDrilledYet, "No drill has ended yet. One is under way: see status.drill.underWay."},
		"none yet, suspended":      {nil, true, nil, metav1.ConditionUnknown, v1alpha1.ReasonNotDrilledYet, "No drill has ended yet. The schedule is suspended by spec.drill.suspend."},
		"good, the next under way": {good, false, nil, metav1.ConditionTrue, v1alpha1.ReasonDrilled, "Good."},
		"bad, the next under way":  {bad, false, nil, metav1.ConditionFalse, v1alpha1.ReasonAssertionFailed, "Bad."},
		"good, suspended":          {good, true, nil, metav1.ConditionTrue, v1alpha1.ReasonDrilled, "Good. The schedule is suspended by spec.drill.suspend."},
		"good, but a bad schedule": {good, false, errors.New("never"), metav1.ConditionUnknown, v1alpha1.ReasonInvalidSchedule, "never."},
		"bad, and a bad schedule":  {bad, false, errors.New("never"), metav1.ConditionFalse, v1alpha1.ReasonAssertionFailed, "Bad. never."},
		"none yet, bad schedule":   {nil, false, errors.New("never"), metav1.ConditionUnknown, v1alpha1.ReasonInvalidSchedule, "never."},
	} {
		o := drilling(1)
		o.repo.Status.Drill.Last, o.repo.Spec.Drill.Suspend, o.invalid = c.last, c.suspend, c.invalid
		report(o, flow.Next)
		if got := o.repo.Status.Conditions[0]; got.Status != c.status || got.Reason != c.reason || got.Message != c.message {
			t.Errorf("%s: %s %s %q", name, got.Status, got.Reason, got.Message)
		}
	}
}

func TestARandomTimeLiesInTheWindowOfTheLineageThatWasWrittenLast(t *testing.T) {
	o := drilling(0)
	o.repo.Status.Lineages = []v1alpha1.LineageStatus{
		{Name: "8-g1", Cluster: "demo/other", RecoverableFrom: at(0), RecoverableTo: at(time.Hour)},
		{Name: "7-g3", Cluster: "demo/shop"},
		{Name: "7-g2", Cluster: "demo/shop", RecoverableFrom: at(0), RecoverableTo: at(time.Minute)},
		{Name: "7-g1", Cluster: "demo/shop", RecoverableFrom: at(-time.Hour), RecoverableTo: at(0)},
	}
	from, to, found := window(o.repo)
	if !found || !from.Equal(noon) || !to.Equal(noon.Add(time.Minute)) {
		t.Errorf("%s to %s, %t", from, to, found)
	}
	for name, random := range map[string]func(int64) int64{"first": func(int64) int64 { return 0 }, "last": func(n int64) int64 { return n - 1 }} {
		if got, found := pick(from, to, random); !found || !got.After(from) || got.After(to) {
			t.Errorf("%s: %s", name, got)
		}
	}
	if _, found := pick(noon, noon.Add(time.Second/2), func(int64) int64 { return 0 }); found {
		t.Error("a time in a window that has none")
	}
}

func TestTheJobRunsWhereTheRestoredClusterDoes(t *testing.T) {
	o := drilling(1)
	o.copy.Restore = &v1alpha1.Restore{Status: v1alpha1.RestoreStatus{Plan: &v1alpha1.RestorePlan{Image: "postgresql:17", MajorVersion: 17}}}
	o.copy.Cluster = &v1alpha1.PostgresCluster{Status: v1alpha1.PostgresClusterStatus{Connection: &v1alpha1.ConnectionStatus{Host: "copy"}}}
	if job := (&Reconciler{}).check(o).Job(); job.ClusterSpec != &o.copy.Cluster.Spec {
		t.Errorf("it runs where %+v says", job.ClusterSpec)
	}
}

func TestNamesOfDrillsAreShortAndDiffer(t *testing.T) {
	repo := drilling(0).repo
	repo.Spec.Drill.Cluster.Name = "a-cluster-with-a-name-of-forty-character"
	one, two := runName(repo, noon), runName(repo, noon.Add(time.Second))
	if one == two || len(one) > 40 || strings.Contains(one, "--") || runName(repo, noon) != one {
		t.Errorf("%s, %s", one, two)
	}
}

func TestALookComesBackAtTheNextTimeOrAtTheEndOfTheDrill(t *testing.T) {
	o := drilling(10)
	if got := again(o, flow.Wait("", "")).Round(time.Minute); got != 50*time.Minute {
		t.Errorf("a drill under way: %s", got)
	}
	if got := again(o, flow.Poll(time.Second, "", "")); got != time.Second {
		t.Errorf("one that looks again sooner: %s", got)
	}
	o.repo.Status.Drill.UnderWay, o.repo.Status.Drill.NextScheduleTime = nil, at(time.Hour)
	if got := again(o, flow.Next).Round(time.Minute); got != 50*time.Minute {
		t.Errorf("none under way: %s", got)
	}
}

func TestMetricsTellOfTheLastDrill(t *testing.T) {
	for _, c := range []struct {
		status v1alpha1.DrillStatus
		want   int
	}{
		{v1alpha1.DrillStatus{Last: &v1alpha1.DrillRun{StartedAt: *at(0), CompletedAt: at(time.Minute), Outcome: v1alpha1.DrillFailed}}, 2},
		{v1alpha1.DrillStatus{LastSuccessTime: at(0), Last: &v1alpha1.DrillRun{StartedAt: *at(0), CompletedAt: at(0), RestoreSeconds: 3}}, 4},
	} {
		sent := 0
		repo := &v1alpha1.BackupRepository{Status: v1alpha1.BackupRepositoryStatus{Drill: &c.status}}
		measure(repo, func(*prometheus.Desc, float64, ...string) { sent++ })
		if sent != c.want {
			t.Errorf("%d metrics of %+v", sent, c.status)
		}
	}
}
