// Package volumelock is the requester's side of the volume lock: it gets the volumes of a PostgresCluster whose PostgreSQL was
// stopped, has the cluster run on the data that was written there, and leads back to the previous data where that fails. It
// promises that a cluster is never left between two data generations, nor down because of a response that nobody acts on.
//
// A kind that works on the volumes of a cluster
//
//   - embeds [v1alpha1.VolumeLockStatus] in its status, and is among those that [protocol.LockRequests] collects;
//   - reads the PostgresCluster past the cache in every pass, and its own Job as well once it gives up: whoever trusts a lock
//     that has ended writes beside PostgreSQL;
//   - builds a [Lock] of what it saw, and calls one method of it in each step of its plan:
//
// To do the work: AwaitTurn before its own plan is recorded, then Request, Await, PinPrevious, its Job on Volume, HandOver,
// AwaitRunning, and Withdraw.
//
// To give up, when Failure, its Job or a person says so and the cluster isn't Running yet: record the failure in
// status.failure, stop the Job and wait for its pods, then TakeBack, AwaitTakenBack, Withdraw and AwaitReturned.
//
// Once the cluster has served clients on the new data, no failure leads back: only a decision of a person does. The db-controller
// records that and keeps to it, so it also holds for a controller that was away. A controller asks for RunsNew before it asks
// for a reason to give up.
//
// Every method changes nothing but the status, so that a crash between two steps is only a repeat.
package volumelock

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
)

// Lock is the lock of one requester on the volumes of one cluster, as both were seen in one pass.
type Lock struct {
	// Requester is the object that works on the volumes.
	Requester metav1.Object
	// Status is the requester's; the methods change it.
	Status *v1alpha1.VolumeLockStatus
	// ClusterName is the name of the PostgresCluster.
	ClusterName string
	// ClusterUID is its UID in the recorded plan; empty before there is one.
	ClusterUID types.UID
	// Cluster of that name, read past the cache; nil if there is none.
	Cluster *v1alpha1.PostgresCluster
	// Now is the time of the pass.
	Now time.Time
}

// Gone reports that the cluster of the plan no longer exists.
func (l Lock) Gone() bool {
	return l.Cluster == nil || l.ClusterUID != "" && l.Cluster.UID != l.ClusterUID
}

// AwaitTurn keeps out of the way of whoever else has the volumes or waits for them. The db-controller would queue a request,
// but the plan behind it would be out of date by the time it is granted.
func (l Lock) AwaitTurn() flow.Outcome {
	if ahead := protocol.LockAhead(l.Cluster, l.Requester.GetUID()); ahead != nil {
		return flow.Wait(v1alpha1.ReasonQueued, fmt.Sprintf("%s %s works on PostgresCluster %s first.", ahead.Kind, ahead.Name, l.ClusterName))
	}
	return flow.Next
}

// Request records the request for the volumes. attempt tells the requests of one object apart; without maxDowntime the cluster
// may be down for as long as the work takes.
func (l Lock) Request(attempt int, maxDowntime *metav1.Duration) flow.Outcome {
	if l.Status.VolumeLockRequest != nil {
		return flow.Next
	}
	l.Status.VolumeLockRequest = &v1alpha1.VolumeLockRequest{
		Cluster: l.Cluster.Name, ClusterUID: l.Cluster.UID, Token: protocol.Token(l.Requester.GetUID(), attempt), Mode: v1alpha1.VolumeLockStopped,
		MaxDowntime: maxDowntime,
	}
	return flow.Save(v1alpha1.ReasonAwaitingVolumeLock, fmt.Sprintf("The volumes of PostgresCluster %s are requested from the db-controller.", l.ClusterName))
}

// Response of the db-controller to the request; nil while none counts.
func (l Lock) Response() *v1alpha1.VolumeLock {
	return protocol.LockFor(l.Cluster, l.Requester.GetUID(), l.Status.VolumeLockRequest)
}

// Granted reports that the volumes are the requester's. A grant without a volume is none.
func (l Lock) Granted() bool {
	response := l.Response()
	return response != nil && response.State == v1alpha1.VolumeLockGranted && len(response.Volumes) > 0
}

// Await waits until the volumes are granted. There is nothing to wait for any more once the new data was handed over.
func (l Lock) Await() flow.Outcome {
	l.noteDown()
	if l.Granted() || l.Status.Handover != nil {
		return flow.Next
	}
	why := "The db-controller has not responded yet."
	if response := l.Response(); response != nil && response.Message != "" {
		why = flow.Sentence(response.Message)
	}
	return flow.Wait(v1alpha1.ReasonAwaitingVolumeLock, fmt.Sprintf("The volumes of PostgresCluster %s are not granted yet. %s", l.ClusterName, why))
}

// noteDown records since when the cluster is being stopped, as the db-controller says.
func (l Lock) noteDown() {
	response := l.Response()
	if l.Status.DownAt == nil && response != nil && l.Cluster.Status.SystemIdentifier != "" { // one without data was never up
		l.Status.DownAt = response.StoppingSince
	}
}

// Volume is the one that has the data; empty unless the volumes are Granted.
func (l Lock) Volume() v1alpha1.LockedVolume {
	if !l.Granted() {
		return v1alpha1.LockedVolume{}
	}
	return l.Response().Volumes[0]
}

// PinPrevious records what the cluster ran on, and whose volume has every commit of it, before anything is written.
func (l Lock) PinPrevious() flow.Outcome {
	if l.Status.Previous != nil || l.Status.Handover != nil {
		return flow.Next
	}
	now := l.Cluster.Status
	l.Status.Previous = &v1alpha1.PreviousData{
		DataGeneration: now.DataGeneration, Instance: l.Volume().Instance, VolumeUID: l.Volume().UID,
		SystemIdentifier: now.SystemIdentifier, MajorVersion: now.MajorVersion, Image: now.Image, Archived: l.Granted() && l.Response().Archived,
	}
	if archive := now.Archive; archive != nil {
		l.Status.Previous.Repository = archive.Repository
	}
	return flow.Save(v1alpha1.ReasonRunning, fmt.Sprintf("PostgresCluster %s is stopped, and its data generation %s is kept.", l.ClusterName, now.DataGeneration))
}

// HandOver offers the data that was written, of which the caller names generation, system identifier, major version and image.
func (l Lock) HandOver(data v1alpha1.Handover) flow.Outcome {
	if l.Status.Handover != nil {
		return flow.Next
	}
	data.Token, data.Instance, data.VolumeUID = l.Status.VolumeLockRequest.Token, l.Volume().Instance, l.Volume().UID
	l.Status.Handover, l.Status.HandedOverAt = &data, &metav1.Time{Time: l.Now}
	return flow.Save(v1alpha1.ReasonAwaitingAdoption, fmt.Sprintf("Data generation %s is handed over to PostgresCluster %s.", data.DataGeneration, l.ClusterName))
}

// Running reports that the cluster has served clients on what was handed over. It may be down by now.
func (l Lock) Running() bool {
	return protocol.Adopted(l.Cluster, l.Requester.GetUID(), l.Status.VolumeLockRequest, l.Status.Handover) && l.ServedSince() != nil
}

// RunsNew reports that the cluster has served clients on the new data, whatever was handed over since: the db-controller does not
// take that back any more.
func (l Lock) RunsNew() bool {
	return l.ServedSince() != nil && l.Status.Previous != nil && l.Response().AdoptedGeneration != l.Status.Previous.DataGeneration
}

// RanBefore reports that the cluster runs on what the requester has written, and that no lock of the requester says that it was adopted. So that lock was over
// before: clients have used the data, and the status of the requester is older than that of its cluster, as after a backup of etcd was restored.
func (l Lock) RanBefore(wrote string) bool {
	return !l.Gone() && l.Cluster.Status.DataGeneration == wrote && !slices.ContainsFunc(l.Cluster.Status.VolumeLocks, func(v v1alpha1.VolumeLock) bool {
		return v.RequesterUID == l.Requester.GetUID() && v.State == v1alpha1.VolumeLockAdopted
	})
}

// ServedSince is when clients were led to the data that was adopted last; nil: they were not, as far as the db-controller says.
func (l Lock) ServedSince() *metav1.Time {
	response := l.Response()
	if response == nil || response.State != v1alpha1.VolumeLockAdopted {
		return nil
	}
	return response.ServedSince
}

// AwaitRunning waits until the cluster accepts connections on what was handed over. Failure tells when that lasts longer than
// limit; zero is no limit.
func (l Lock) AwaitRunning(limit time.Duration) flow.Outcome {
	if l.Running() {
		return flow.Next
	}
	message := fmt.Sprintf("Waiting until PostgresCluster %s accepts connections on data generation %s. It says: %s",
		l.ClusterName, l.Status.Handover.DataGeneration, State(l.Cluster))
	left := l.TimeLeft()
	if limit > 0 && l.Status.HandedOverAt != nil {
		until := max(time.Second, l.Status.HandedOverAt.Add(limit).Sub(l.Now))
		left = min(cmp.Or(left, until), until)
	}
	if left == 0 {
		return flow.Wait(v1alpha1.ReasonAwaitingAdoption, message)
	}
	return flow.Poll(left, v1alpha1.ReasonAwaitingAdoption, message)
}

// TimeLeft is how much of the maximal downtime is left, at least a second; zero: it is not bounded.
func (l Lock) TimeLeft() time.Duration {
	response := l.Response()
	if response == nil || response.Deadline == nil {
		return 0
	}
	return max(time.Second, response.Deadline.Sub(l.Now))
}

// Withdraw gives the volumes back, and takes back what was offered. If anything was offered, that comes after AwaitRunning or
// AwaitTakenBack.
func (l Lock) Withdraw() flow.Outcome {
	if l.Status.VolumeLockRequest == nil && l.Status.Handover == nil {
		return flow.Next
	}
	l.noteDown()
	l.Status.VolumeLockRequest, l.Status.Handover = nil, nil
	return flow.Save(v1alpha1.ReasonReturningVolumes, fmt.Sprintf("The volumes are given back to PostgresCluster %s.", l.ClusterName))
}

// AwaitReturned waits until the db-controller has seen that the request was withdrawn. Only then is it certain what the cluster
// runs on.
func (l Lock) AwaitReturned() flow.Outcome {
	if l.Cluster == nil || !slices.ContainsFunc(l.Cluster.Status.VolumeLocks, func(v v1alpha1.VolumeLock) bool { return v.RequesterUID == l.Requester.GetUID() }) {
		return flow.Next
	}
	return flow.Wait(v1alpha1.ReasonReturningVolumes, fmt.Sprintf("Waiting for the db-controller to take the volumes of PostgresCluster %s back.", l.ClusterName))
}
