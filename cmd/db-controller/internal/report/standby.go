package report

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/condition"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/postgres"
)

const (
	mostStandbyProblems                       = 16
	longestStandbyName, longestStandbyText    = 200, 1000
	longestStandbyReason, shownStandbyProblem = 64, 600
)

// Standby puts into the status what the Job of a standby has said, as far as it can be true.
func Standby(o *observed.Cluster) {
	said := observed.StandbyReport(o)
	if !observed.StandsBy(o) || said == nil {
		return
	}
	if o.Cluster.Status.Standby == nil {
		o.Cluster.Status.Standby = &v1alpha1.StandbyStatus{}
	}
	status := o.Cluster.Status.Standby
	status.Stage = v1alpha1.StandbyStage(said.Stage)
	status.Lineage, status.Backup = observed.Bounded(said.Lineage, longestStandbyName), observed.Bounded(said.Backup, longestStandbyName)
	status.ReplayedLSN, status.ArchivedLSN = position(said.Replayed), position(said.Archived)
	status.ReplayedTime, status.ArchivedAt = timeOf(said.ReplayedTime), timeOf(said.ArchivedAt)
	status.Timeline, status.LagBytes = max(0, said.Timeline), max(0, said.LagBytes)
	status.Problems = nil
	for _, p := range said.Problems[:min(len(said.Problems), mostStandbyProblems)] {
		status.Problems = append(status.Problems, v1alpha1.StandbyProblem{
			Reason: observed.Bounded(p.Reason, longestStandbyReason), Message: flow.Sentence(observed.Bounded(p.Message, longestStandbyText)),
		})
	}
	status.Reinit, status.ReinitializedAt = reinit(said.Reinit), timeOf(said.ReinitializedAt)
	restores := said.Stage == agentapi.StandbyRestoring || status.Reinit != nil && status.Reinit.Stage == v1alpha1.StandbyReinitRestoring
	if status.Progress = nil; restores {
		status.Progress = o.ImportProgress()
	}
}

// reinit is another copy, as far as what was said of it can be true.
func reinit(said *agentapi.StandbyReinit) *v1alpha1.StandbyReinit {
	if said == nil {
		return nil
	}
	stage := v1alpha1.StandbyReinitStage(said.Stage)
	switch stage {
	case v1alpha1.StandbyReinitPlanned, v1alpha1.StandbyReinitRestoring, v1alpha1.StandbyReinitCatchingUp:
	default:
		return nil
	}
	return &v1alpha1.StandbyReinit{
		Stage: stage, Reason: standbyReason(said.Reason), BeyondLSN: position(said.Beyond), StartsAt: *observed.TimeOf(said.StartsAt),
		Lineage: observed.Bounded(said.Lineage, longestStandbyName), Backup: observed.Bounded(said.Backup, longestStandbyName),
	}
}

func timeOf(said *time.Time) *metav1.Time {
	if said == nil {
		return nil
	}
	return observed.TimeIfSet(*said)
}

// position is an LSN as PostgreSQL writes it; what isn't one is left out.
func position(text string) string {
	lsn, err := postgres.ParseLSN(text)
	if err != nil || lsn.IsZero() {
		return ""
	}
	return lsn.String()
}

// reportStandby shows how a standby follows its source, until it was promoted.
func reportStandby(o *observed.Cluster, conditions map[string]condition.Finding) {
	status := o.Cluster.Status.Standby
	if !observed.StandsBy(o) || status != nil && status.PromotedAt != nil {
		meta.RemoveStatusCondition(&o.Cluster.Status.Conditions, v1alpha1.ConditionFollowsSource)
		return
	}
	Standby(o)
	if o.Begun() {
		conditions[v1alpha1.ConditionFollowsSource] = followsSource(o)
	}
}

// followsSource says whether what the source archives is replayed.
func followsSource(o *observed.Cluster) condition.Finding {
	status := o.Cluster.Status.Standby
	reason, message := StandbyState(o)
	switch {
	case standbyTrouble(o) != "":
		return condition.False(v1alpha1.ReasonNotFollowing, message)
	case status == nil || status.Stage != v1alpha1.StandbyFollowing:
		return condition.False(reason, message)
	case len(status.Problems) > 0:
		return condition.False(standbyReason(status.Problems[0].Reason), message)
	}
	return condition.True(reason, message)
}

// standbyReason is one of those that a standby may have. A pod could say anything.
func standbyReason(said string) string {
	switch said {
	case v1alpha1.ReasonDiverged, v1alpha1.ReasonWALMissing, v1alpha1.ReasonSourceMoved, v1alpha1.ReasonReinitializing:
		return said
	}
	return v1alpha1.ReasonNotFollowing
}

// StandbyState is what a standby does, for the conditions.
func StandbyState(o *observed.Cluster) (reason, message string) {
	status := o.Cluster.Status.Standby
	repository := o.Cluster.Spec.Standby.Source.Repository.Name
	trouble := standbyTrouble(o)
	promoting := status != nil && (status.Promotion != nil || status.Stage == v1alpha1.StandbyPromoting)
	switch {
	case promoting:
		reason, message = v1alpha1.ReasonPromoting, "The standby is being promoted."
	case status == nil || status.Stage != v1alpha1.StandbyFollowing:
		reason, message = v1alpha1.ReasonRestoringBackup, fmt.Sprintf("The newest backup in BackupRepository %s is being restored%s.", repository, percentOf(status))
	default:
		reason, message = v1alpha1.ReasonFollowingArchive, fmt.Sprintf("The standby follows lineage %s in BackupRepository %s%s. To promote it, set spec.standby.promote.", status.Lineage, repository, how(status))
	}
	if trouble != "" {
		message += " " + trouble
	}
	if status == nil {
		return reason, message
	}
	for _, p := range status.Problems {
		message += " " + observed.Bounded(p.Message, shownStandbyProblem)
	}
	return reason, message
}

// standbyTrouble is what keeps the pod of the Job from running, or why the last one has ended; empty: nothing does. How a pod has ended that
// another one has replaced since doesn't matter.
func standbyTrouble(o *observed.Cluster) string {
	state := o.InitJob
	switch {
	case !state.Exists:
		return ""
	case state.Failed:
		_, message := state.FailureReason()
		return "The Job has failed: " + message
	case o.StandbyMissing != "":
		return fmt.Sprintf("Secret %s of the repository does not exist: create it.", o.StandbyMissing)
	case state.LivePods > 0:
		return state.Message
	}
	return state.Trouble()
}

func percentOf(status *v1alpha1.StandbyStatus) string {
	if status == nil || status.Progress == nil || status.Progress.TotalBytes <= 0 {
		return ""
	}
	p := status.Progress
	return fmt.Sprintf(": %.1f of %.1f MiB", float64(p.DoneBytes)/(1<<20), float64(p.TotalBytes)/(1<<20))
}

// how far a standby is.
func how(status *v1alpha1.StandbyStatus) string {
	parts := []string{""}
	if status.ReplayedLSN != "" {
		parts = append(parts, "replayed up to LSN "+status.ReplayedLSN)
	}
	if status.ReplayedTime != nil {
		parts = append(parts, "last commit at "+status.ReplayedTime.UTC().Format(time.RFC3339))
	}
	if status.ArchivedAt != nil {
		parts = append(parts, fmt.Sprintf("%.1f MiB of the archive to replay, which was written last at %s", float64(status.LagBytes)/(1<<20), status.ArchivedAt.UTC().Format(time.RFC3339)))
	}
	return strings.Join(parts, ", ")
}
