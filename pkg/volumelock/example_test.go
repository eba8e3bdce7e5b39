package volumelock_test

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/volumelock"
)

// An Upgrade gets the volumes of the cluster shop, has it run on what a Job wrote, and gives them back. In a controller each of
// these calls is a step of its plan, with a Job between PinPrevious and HandOver.
func Example() {
	cluster := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "c"}}
	cluster.Status = v1alpha1.PostgresClusterStatus{DataGeneration: "g0", SystemIdentifier: "7", MajorVersion: 17, Image: "postgres:17"}
	upgrade := &v1alpha1.Upgrade{ObjectMeta: metav1.ObjectMeta{Name: "to-18", UID: "u"}}
	lock := volumelock.Lock{
		Requester: upgrade, Status: &upgrade.Status.VolumeLockStatus,
		ClusterName: "shop", ClusterUID: "c", Cluster: cluster, Now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
	}
	tell := func(outcome flow.Outcome) { fmt.Println(outcome.Reason, "-", outcome.Message) }

	tell(lock.Request(0, nil))
	tell(lock.Await())
	asDBController(cluster, upgrade)
	tell(lock.PinPrevious())
	fmt.Println("the Job works on", lock.Volume().ClaimName)
	tell(lock.HandOver(v1alpha1.Handover{DataGeneration: "g1", SystemIdentifier: "8", MajorVersion: 18, Image: "postgres:18"}))
	tell(lock.AwaitRunning(10 * time.Minute))
	asDBController(cluster, upgrade)
	fmt.Println("running:", lock.Running(), "on", cluster.Status.DataGeneration)
	tell(lock.Withdraw())
	// Output:
	// AwaitingVolumeLock - The volumes of PostgresCluster shop are requested from the db-controller.
	// AwaitingVolumeLock - The volumes of PostgresCluster shop are not granted yet. The db-controller has not responded yet.
	// Running - PostgresCluster shop is stopped, and its data generation g0 is kept.
	// the Job works on data-shop-0
	// AwaitingAdoption - Data generation g1 is handed over to PostgresCluster shop.
	// AwaitingAdoption - Waiting until PostgresCluster shop accepts connections on data generation g1. It says: The db-controller has not looked at it yet.
	// running: true on g1
	// ReturningVolumes - The volumes are given back to PostgresCluster shop.
}

// asDBController responds as the db-controller does: it grants the volumes, adopts what is handed over, and starts the cluster.
func asDBController(cluster *v1alpha1.PostgresCluster, upgrade *v1alpha1.Upgrade) {
	status := &cluster.Status
	requests := protocol.LockRequests(cluster, nil, []v1alpha1.Upgrade{*upgrade})
	status.VolumeLocks = protocol.VolumeLocks(status.VolumeLocks, requests, protocol.LockFacts{
		Stopped: true, Volumes: []v1alpha1.LockedVolume{{Instance: "shop-0", ClaimName: "data-shop-0"}},
	})
	if request := protocol.PendingHandover(status.VolumeLocks, requests); request != nil {
		status.VolumeLocks = protocol.Adopt(status.VolumeLocks, request)
		status.DataGeneration = request.Handover.DataGeneration
		status.VolumeLocks = protocol.Serve(status.VolumeLocks, status.DataGeneration, metav1.Now())
		status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonRunning}}
	}
}
