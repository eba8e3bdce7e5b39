package volumelock

import (
	"fmt"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
)

// TakeBack hands the previous data over in place of the new data, if that was offered.
func (l Lock) TakeBack() flow.Outcome {
	if l.Status.Handover == nil || l.Status.VolumeLockRequest == nil || l.Status.Previous == nil || l.Gone() {
		return flow.Next
	}
	return l.HandBack()
}

// HandBack hands the previous data over, on the volume of the instance that has every commit of it: the volume that was granted
// first may be another one by now, after a failover on the new data.
func (l Lock) HandBack() flow.Outcome {
	previous := l.Status.Previous
	if l.Status.Handover != nil && l.Status.Handover.DataGeneration == previous.DataGeneration {
		return flow.Next
	}
	l.Status.Handover = &v1alpha1.Handover{
		Token: l.Status.VolumeLockRequest.Token, DataGeneration: previous.DataGeneration, SystemIdentifier: previous.SystemIdentifier,
		MajorVersion: previous.MajorVersion, Image: previous.Image, Instance: previous.Instance, VolumeUID: previous.VolumeUID,
	}
	return flow.Save(v1alpha1.ReasonRollingBack, fmt.Sprintf("The previous data is handed back to PostgresCluster %s.", l.ClusterName))
}

// refused reports that the db-controller has refused the request, so that the cluster runs on what it ran on.
func (l Lock) refused() bool {
	response := l.Response()
	return response != nil && response.State == v1alpha1.VolumeLockRefused
}

// AwaitTakenBack waits until the db-controller says that it has taken what was handed over last, before the volumes are given
// back. That the cluster still runs on the previous data says nothing: it may be about to take the new data.
func (l Lock) AwaitTakenBack() flow.Outcome {
	if l.Status.Handover == nil || l.Status.VolumeLockRequest == nil || l.Gone() || l.refused() ||
		protocol.Adopted(l.Cluster, l.Requester.GetUID(), l.Status.VolumeLockRequest, l.Status.Handover) {
		return flow.Next
	}
	return flow.Wait(v1alpha1.ReasonRollingBack, fmt.Sprintf("Waiting until PostgresCluster %s takes its previous data back. It says: %s",
		l.ClusterName, State(l.Cluster)))
}
