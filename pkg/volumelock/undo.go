package volumelock

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
)

// DefaultConfirmWithin is how long the previous data is kept where nothing is said.
const DefaultConfirmWithin = 24 * time.Hour

// ConfirmBy is until when the previous data is kept of what has run since then.
func ConfirmBy(since metav1.Time, within *metav1.Duration) time.Time {
	if within != nil {
		return since.Add(within.Duration)
	}
	return since.Add(DefaultConfirmWithin)
}

// Undo leads back to the previous data once clients have used the new data. Only a person decides that, and what was written since is
// lost: the decision is recorded before Request. It is called Request, Await, HandBack, AwaitBack, and then AwaitReturned and
// Release of the new data.
type Undo struct {
	Lock
	// Wrote is the data generation that the requester has written.
	Wrote string
	// Writers have replaced the data of the cluster, as ReadWriters reads them; needed only while it is Replaced.
	Writers []protocol.Writer
	// Kind of the requester, such as Restore, and NewData what the cluster runs on, such as "the restored data", for a person.
	Kind, NewData string
	// Reason of the steps.
	Reason string
}

// undoAttempt tells the request for the undo from the one for the work.
const undoAttempt = 1

// Request requests the volumes once more, if the cluster runs on what the requester has written.
func (u Undo) Request() flow.Outcome {
	if u.Status.VolumeLockRequest != nil {
		return flow.Next
	}
	if outcome := u.Possible(); !outcome.Finished() {
		return outcome
	}
	return u.shown(u.Lock.Request(undoAttempt, nil))
}

// shown is a step of the lock as one of the undo.
func (u Undo) shown(outcome flow.Outcome) flow.Outcome {
	if !outcome.Finished() {
		outcome.Reason = u.Reason
	}
	return outcome
}

// Possible refuses to undo what can't be undone, while the cluster still serves.
func (u Undo) Possible() flow.Outcome {
	previous := u.Status.Previous
	switch {
	case u.Gone():
		return flow.Stop(v1alpha1.ReasonUndoImpossible, fmt.Sprintf("PostgresCluster %s was deleted, and its previous data with it.", u.ClusterName))
	case slices.Contains(u.Cluster.Status.ReleasedDataGenerations, previous.DataGeneration):
		return flow.Stop(v1alpha1.ReasonUndoImpossible, fmt.Sprintf("The previous data was deleted. The cluster continues with %s.", u.NewData))
	case u.Cluster.Status.DataGeneration != u.Wrote:
		return u.possibleAfter()
	case !slices.ContainsFunc(u.Cluster.Status.Instances, func(i v1alpha1.InstanceStatus) bool { return i.Name == previous.Instance }):
		return u.removed()
	case slices.ContainsFunc(u.Cluster.Status.Instances, u.replaced):
		return flow.Stop(v1alpha1.ReasonUndoImpossible, u.volumeGone())
	}
	return flow.Next
}

// removed waits for an instance that was taken away: its volume is kept as long as this may be undone.
func (u Undo) removed() flow.Outcome {
	instance := u.Status.Previous.Instance
	ordinal, err := strconv.Atoi(strings.TrimPrefix(instance, u.ClusterName+"-"))
	if err != nil || ordinal < int(u.Cluster.DesiredInstances()) {
		return flow.Stop(v1alpha1.ReasonUndoImpossible, fmt.Sprintf(
			"The previous data is on the volume of %s, and that instance no longer exists. The cluster continues with %s.", instance, u.NewData))
	}
	return flow.Wait(u.Reason, fmt.Sprintf("The previous data is on the volume of %s, which was removed when the number of instances was reduced to %d. Set spec.instances of PostgresCluster %s to %d to bring it back.",
		instance, u.Cluster.DesiredInstances(), u.ClusterName, ordinal+1))
}

// replaced says that the previous data was on the volume of an instance that has another one now.
func (u Undo) replaced(i v1alpha1.InstanceStatus) bool {
	previous := u.Status.Previous
	return i.Name == previous.Instance && previous.VolumeUID != "" && i.VolumeUID != "" && i.VolumeUID != previous.VolumeUID
}

func (u Undo) volumeGone() string {
	return fmt.Sprintf("The previous data was on the volume of %s, which was deleted; the one of that name is another one. The cluster continues with %s.",
		u.Status.Previous.Instance, u.NewData)
}

// lookAgain is how often who waits for others to be undone looks whether they still can be: no watch tells.
const lookAgain = time.Minute

// Replaced reports that the cluster runs on other data than the requester wrote, and that nothing is requested yet.
func (u Undo) Replaced() bool {
	return !u.Gone() && u.Status.VolumeLockRequest == nil && u.Cluster.Status.DataGeneration != u.Wrote
}

// possibleAfter waits for what has replaced the new data to be undone, as long as that may be.
func (u Undo) possibleAfter() flow.Outcome {
	now := u.Cluster.Status
	way := protocol.FindWayBack(now.DataGeneration, u.Wrote, u.Writers)
	switch {
	case slices.Contains(now.ReleasedDataGenerations, u.Wrote):
		return u.never("what replaced it was confirmed")
	case way.Blocked != nil:
		return u.never(fmt.Sprintf("%s %s replaced it and can no longer be undone", way.Blocked.Kind, way.Blocked.Name))
	case way.Reached != u.Wrote && Ready(u.Cluster): // where it runs on nothing, a person may still choose what it runs on
		return u.never(fmt.Sprintf("no Restore or Upgrade can undo data generation %s", way.Reached))
	}
	return flow.Poll(lookAgain, u.Reason, fmt.Sprintf("The data of PostgresCluster %s was replaced since, and it runs on data generation %s. %s",
		u.ClusterName, now.DataGeneration, undoFirst(way.Next)))
}

// undoFirst says what has to be undone first.
func undoFirst(next *protocol.Writer) string {
	switch {
	case next == nil:
		return "Waiting until it accepts connections."
	case next.Decided:
		return fmt.Sprintf("Waiting until %s %s is undone.", next.Kind, next.Name)
	case next.Kind == v1alpha1.KindUpgrade:
		return fmt.Sprintf("To undo this as well, first set spec.decision: %s of Upgrade %s.", v1alpha1.UpgradeRollBack, next.Name)
	}
	return fmt.Sprintf("To undo this as well, first set spec.decision: %s of Restore %s.", v1alpha1.DecisionUndo, next.Name)
}

// never refuses for good what could only be undone after something else that can't be.
func (u Undo) never(why string) flow.Outcome {
	return flow.Stop(v1alpha1.ReasonUndoImpossible, fmt.Sprintf(
		"The data that this %s wrote can't be restored, because %s. The previous data is still on the volume of %s, and is removed with this %[1]s.",
		u.Kind, why, u.Status.Previous.Instance))
}

// Await waits until the cluster is stopped, and looks once more whether it can be undone.
func (u Undo) Await() flow.Outcome {
	status := u.Status
	if status.Handover != nil {
		return flow.Next
	}
	if u.Gone() {
		return u.Possible()
	}
	if refusal := u.Refusal(); refusal != nil {
		if u.Cluster.DeletionTimestamp.IsZero() && u.Response().StoppingSince != nil { // it could not be stopped this time
			status.VolumeLockRequest = nil
			return flow.Save(u.Reason, refusal.Message)
		}
		return u.impossible(refusal.Message)
	}
	if outcome := u.Lock.Await(); !outcome.Finished() {
		return u.shown(outcome)
	}
	if u.Cluster.Status.DataGeneration != u.Wrote {
		status.VolumeLockRequest = nil // Request says why
		return flow.Save(u.Reason, "What the cluster runs on has changed meanwhile.")
	}
	instance, uid := status.Previous.Instance, status.Previous.VolumeUID
	if !slices.ContainsFunc(u.Response().Volumes, func(v v1alpha1.LockedVolume) bool {
		return v.Instance == instance && (uid == "" || v.UID == "" || v.UID == uid)
	}) {
		return u.impossible(fmt.Sprintf("The previous data is on the volume of %s, which the db-controller did not grant, or which was deleted since.", instance))
	}
	return flow.Next
}

// impossible gives the volumes back for good: to request them again would stop the cluster again.
func (u Undo) impossible(why string) flow.Outcome {
	u.Status.VolumeLockRequest, u.Status.Handover = nil, nil
	return flow.Stop(v1alpha1.ReasonUndoImpossible, fmt.Sprintf("%s The cluster continues with %s.", why, u.NewData))
}

// HandBack offers the previous data.
func (u Undo) HandBack() flow.Outcome { return u.shown(u.Lock.HandBack()) }

// AwaitBack waits until the cluster accepts connections on the previous data, and gives the volumes back.
func (u Undo) AwaitBack() flow.Outcome {
	if u.Gone() {
		return u.Possible()
	}
	if refusal := u.Refusal(); refusal != nil { // the db-controller has not found the volume
		return u.impossible(refusal.Message)
	}
	if outcome := u.AwaitRunning(0); !outcome.Finished() {
		return u.shown(outcome)
	}
	u.Status.UndoneAt = &metav1.Time{Time: u.Now}
	u.Withdraw()
	return flow.Save(u.Reason, "The cluster runs on its previous data.")
}

// Leaves says whether the previous data may still be on a volume, of a requester that could not bring it back. It is deleted with the requester.
func (l Lock) Leaves() bool {
	return !l.Gone() && l.Status.Previous != nil && l.Status.UndoneAt == nil && !slices.Contains(l.Cluster.Status.ReleasedDataGenerations, l.Status.Previous.DataGeneration)
}

// Release asks the db-controller to have a data generation removed from the volumes, and waits until it has noted that.
func (l Lock) Release(generation string) flow.Outcome {
	status := l.Status
	switch {
	case l.Gone() || !l.Cluster.DeletionTimestamp.IsZero() || l.Cluster.Status.DataGeneration == generation,
		protocol.Released(l.Cluster, status.Release):
		status.Release = nil
		return flow.Next
	case status.Release == nil:
		if slices.Contains(l.Cluster.Status.ReleasedDataGenerations, generation) {
			return flow.Next
		}
		status.Release = &v1alpha1.ReleaseRequest{Cluster: l.Cluster.Name, ClusterUID: l.Cluster.UID, DataGeneration: generation}
		return flow.Save(v1alpha1.ReasonConfirming, "Data generation "+generation+" is to be removed.")
	}
	return flow.Wait(v1alpha1.ReasonConfirming, "Waiting for the db-controller to have data generation "+generation+" removed.")
}
