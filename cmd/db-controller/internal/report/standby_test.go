package report

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/condition"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/workload"
)

// standby whose Job has said something.
func standby(said string, change func(o *observed.Cluster)) *observed.Cluster {
	return observedtest.Running(func(o *observed.Cluster) {
		o.Cluster.Status = v1alpha1.PostgresClusterStatus{DataGeneration: "g1"}
		delete(o.Live, observed.Key("StatefulSet", "shop"))
		o.Cluster.Spec.Standby = &v1alpha1.Standby{Source: v1alpha1.StandbySource{Repository: v1alpha1.StandbyRepository{Name: "dr"}}}
		o.InitJob = workload.State{Exists: true, LivePods: 1}
		o.ImportReport = &corev1.ConfigMap{Data: map[string]string{agentapi.StandbyKey: said}}
		if change != nil {
			change(o)
		}
	})
}

const saysFollowing = `{"stage":"Following","lineage":"7-g0","backup":"first","replayed":"0/5000000","replayedTime":"2026-03-01T12:00:00Z","timeline":2,"archived":"0/6000000","archivedAt":"2026-03-01T12:01:00Z","lagBytes":1048576}`

func TestAStandbySaysWhetherItFollows(t *testing.T) {
	for name, c := range map[string]struct {
		said    string
		change  func(*observed.Cluster)
		status  metav1.ConditionStatus
		reason  string
		message string
	}{
		"it says nothing yet": {"", nil, metav1.ConditionFalse, v1alpha1.ReasonRestoringBackup, "The newest backup in BackupRepository dr is being restored."},
		"it restores": {`{"stage":"Restoring"}`, func(o *observed.Cluster) {
			o.ImportReport.Data[agentapi.ImportProgressKey] = `{"phase":"Fetching","doneBytes":1048576,"totalBytes":4194304}`
		}, metav1.ConditionFalse, v1alpha1.ReasonRestoringBackup, "is being restored: 1.0 of 4.0 MiB."},
		"it can't restore":     {`{"stage":"Restoring","problems":[{"reason":"NotFollowing","message":"the repository is empty"}]}`, nil, metav1.ConditionFalse, v1alpha1.ReasonRestoringBackup, "The repository is empty."},
		"it saysFollowing":     {saysFollowing, nil, metav1.ConditionTrue, v1alpha1.ReasonFollowingArchive, "replayed up to LSN 0/5000000, last commit at 2026-03-01T12:00:00Z, 1.0 MiB of the archive to replay, which was written last at 2026-03-01T12:01:00Z. To promote it, set spec.standby.promote."},
		"another copy is made": {`{"stage":"Following","problems":[{"reason":"Reinitializing","message":"It is."},{"reason":"Diverged","message":"It has."}]}`, nil, metav1.ConditionFalse, v1alpha1.ReasonReinitializing, "It is. It has."},
		"it has diverged":      {`{"stage":"Following","problems":[{"reason":"Diverged","message":"It has."}]}`, nil, metav1.ConditionFalse, v1alpha1.ReasonDiverged, "It has."},
		"a reason of its own":  {`{"stage":"Following","problems":[{"reason":"Odd","message":"It is."}]}`, nil, metav1.ConditionFalse, v1alpha1.ReasonNotFollowing, "It is."},
		"it is being promoted": {strings.Replace(saysFollowing, "Following", "Promoting", 1), nil, metav1.ConditionFalse, v1alpha1.ReasonPromoting, "The standby is being promoted."},
		"it was asked to be": {saysFollowing, func(o *observed.Cluster) {
			o.Cluster.Status.Standby = &v1alpha1.StandbyStatus{Promotion: &v1alpha1.StandbyPromotionRequest{Mode: v1alpha1.PromoteImmediately}}
		}, metav1.ConditionTrue, v1alpha1.ReasonPromoting, "The standby is being promoted."},
		"its pod waits": {saysFollowing, func(o *observed.Cluster) { o.InitJob.Message = "Pod x can't be scheduled." }, metav1.ConditionFalse, v1alpha1.ReasonNotFollowing, "Pod x can't be scheduled."},
		"a former pod has ended": {saysFollowing, func(o *observed.Cluster) {
			o.InitJob.Outcome = &agentapi.Outcome{Error: &agentapi.JobError{Message: "The pod was stopped"}}
		}, metav1.ConditionTrue, v1alpha1.ReasonFollowingArchive, "The standby follows lineage 7-g0"},
		"there is no pod": {saysFollowing, func(o *observed.Cluster) {
			o.InitJob.LivePods, o.InitJob.Outcome = 0, &agentapi.Outcome{Error: &agentapi.JobError{Message: "The pod was stopped"}}
		}, metav1.ConditionFalse, v1alpha1.ReasonNotFollowing, "The pod was stopped."},
		"a Secret was deleted": {saysFollowing, func(o *observed.Cluster) { o.StandbyMissing = "keys" }, metav1.ConditionFalse, v1alpha1.ReasonNotFollowing, "Secret keys of the repository does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			o, found := standby(c.said, c.change), map[string]condition.Finding{}
			reportStandby(o, found)
			got := found[v1alpha1.ConditionFollowsSource]
			if got.Status != c.status || got.Reason != c.reason || !strings.Contains(got.Message, c.message) {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestAClusterThatIsNoStandbyHasNoSuchCondition(t *testing.T) {
	promoted := metav1.NewTime(observedtest.Noon)
	for name, o := range map[string]*observed.Cluster{
		"another":  observedtest.Running(nil),
		"promoted": standby(saysFollowing, func(o *observed.Cluster) { o.Cluster.Status.Standby = &v1alpha1.StandbyStatus{PromotedAt: &promoted} }),
		"it runs":  standby(saysFollowing, func(o *observed.Cluster) { o.Cluster.Status.SystemIdentifier = "7" }),
	} {
		o.Cluster.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionFollowsSource, Status: metav1.ConditionTrue}}
		found := map[string]condition.Finding{}
		if reportStandby(o, found); len(found) != 0 || len(o.Cluster.Status.Conditions) != 0 {
			t.Errorf("%s: %+v, %+v", name, found, o.Cluster.Status.Conditions)
		}
	}
}

// TestWhatThePodOfAStandbySaysFitsIntoTheStatus whatever it says: a status that the API server refuses would stop the cluster.
func TestWhatThePodOfAStandbySaysFitsIntoTheStatus(t *testing.T) {
	long := strings.Repeat("é", 5_000)
	content, err := json.Marshal(agentapi.StandbyReport{
		Stage: agentapi.StandbyFollowing, Lineage: long, Backup: long, Replayed: long, Archived: "0/XYZ", Timeline: -1, LagBytes: -1,
		Problems: slices.Repeat([]agentapi.StandbyProblem{{Reason: long, Message: long}}, 300),
	})
	if err != nil {
		t.Fatal(err)
	}
	o := standby(string(content), nil)
	Standby(o)
	status := o.Cluster.Status.Standby
	if len(status.Problems) != mostStandbyProblems || status.ReplayedLSN != "" || status.ArchivedLSN != "" || status.Timeline != 0 || status.LagBytes != 0 {
		t.Errorf("%+v", status)
	}
	for text, most := range map[string]int{status.Lineage: longestStandbyName, status.Problems[0].Reason: longestStandbyReason, status.Problems[0].Message: longestStandbyText + 1} {
		if n := utf8.RuneCountInString(text); n > most {
			t.Errorf("there is a text of %d characters", n)
		}
	}
	if _, message := StandbyState(o); utf8.RuneCountInString(message) > 32768 {
		t.Errorf("a message of %d characters", utf8.RuneCountInString(message))
	}
	for _, said := range []string{`{"stage":"Odd"}`, `{`, `[]`} {
		odd := standby(said, nil)
		if Standby(odd); odd.Cluster.Status.Standby != nil {
			t.Errorf("%s: %+v", said, odd.Cluster.Status.Standby)
		}
	}
}

func TestAnotherCopyOfAStandbyIsShown(t *testing.T) {
	const planned = `{"stage":"Following","reinitializedAt":"2026-02-01T12:00:00Z","reinit":{"stage":"Planned","reason":"Diverged","lineage":"7-g0","backup":"b","beyond":"0/5000000","startsAt":"2026-03-01T12:10:00Z"}}`
	restoring := strings.Replace(planned, "Planned", "Restoring", 1)
	for said, want := range map[string]string{
		planned: "Planned", restoring: "Restoring", strings.Replace(planned, "Planned", "Odd", 1): "", saysFollowing: "",
	} {
		o := standby(said, func(o *observed.Cluster) {
			o.ImportReport.Data[agentapi.ImportProgressKey] = `{"phase":"Fetching","doneBytes":1,"totalBytes":4}`
		})
		Standby(o)
		status, got := o.Cluster.Status.Standby, ""
		if r := status.Reinit; r != nil {
			got = string(r.Stage)
			if r.Reason != "Diverged" || r.Lineage != "7-g0" || r.Backup != "b" || r.BeyondLSN != "0/5000000" || r.StartsAt.Minute() != 10 || status.ReinitializedAt == nil {
				t.Errorf("%+v", r)
			}
		}
		if got != want || (status.Progress != nil) != (want == "Restoring") {
			t.Errorf("%s: %q, progress %+v", said, got, status.Progress)
		}
	}
}
