package protocol

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/apis/v1alpha1"
)

// LockRequest is the request of one Restore or Upgrade for the volumes of a cluster.
type LockRequest struct {
	Kind     string
	Name     string
	UID      types.UID
	Created  metav1.Time
	Request  v1alpha1.VolumeLockRequest
	Handover *v1alpha1.Handover
	// BringsBack is the previous data, where a person has decided that it is to run again; nil: it isn't.
	BringsBack *v1alpha1.PreviousData
}

// LockRequests collects the requests for the volumes of this very cluster, oldest first: by creation, then UID.
func LockRequests(cluster *v1alpha1.PostgresCluster, restores []v1alpha1.Restore, upgrades []v1alpha1.Upgrade) []LockRequest {
	var requests []LockRequest
	add := func(kind string, meta metav1.ObjectMeta, lock *v1alpha1.VolumeLockRequest, handover *v1alpha1.Handover, back *v1alpha1.PreviousData) {
		if lock != nil && lock.ClusterUID == cluster.UID && meta.Namespace == cluster.Namespace {
			requests = append(requests, LockRequest{kind, meta.Name, meta.UID, meta.CreationTimestamp, *lock, handover, back})
		}
	}
	for i := range restores {
		status, back := &restores[i].Status, (*v1alpha1.PreviousData)(nil)
		if decided := status.Decided; decided != nil && decided.Decision == v1alpha1.DecisionUndo {
			back = status.Previous
		}
		add(v1alpha1.KindRestore, restores[i].ObjectMeta, status.VolumeLockRequest, status.Handover, back)
	}
	for i := range upgrades {
		status, back := &upgrades[i].Status, (*v1alpha1.PreviousData)(nil)
		if decided := status.Decided; decided != nil && decided.Decision == v1alpha1.UpgradeRollBack {
			back = status.Previous
		}
		add(v1alpha1.KindUpgrade, upgrades[i].ObjectMeta, status.VolumeLockRequest, status.Handover, back)
	}
	slices.SortFunc(requests, func(a, b LockRequest) int {
		if c := a.Created.Compare(b.Created.Time); c != 0 {
			return c
		}
		return strings.Compare(string(a.UID), string(b.UID))
	})
	return requests
}

// LockFacts is what the db-controller knows when it responds.
type LockFacts struct {
	// Stopped: no pod of the cluster writes to a volume or will, whichever process of the db-controller acts next.
	Stopped bool
	// Shutdown is how the server on the first of Volumes ended; empty: not known.
	Shutdown v1alpha1.ShutdownState
	// Archived: the last primary said, when it ended, that all WAL of the data is archived.
	Archived bool
	// Refusal is why nobody may lock the volumes now, such as that the cluster is being deleted. Empty: somebody may.
	Refusal string
	// Lacking is why it would lead nowhere to stop for a requester, by its UID: its previous data is on no volume any more.
	Lacking map[types.UID]string
	// Obstacle is why a stop would not come to an end, such as a pod on a lost node: nothing is stopped before it is gone. Empty:
	// there is none.
	Obstacle string
	// Untold is which instance doesn't know yet that replicas end after their primary. Empty: each one does.
	Untold string
	// Stuck is why a stop that has begun does not come to an end. Empty: it may.
	Stuck string
	// Now is the time of the response.
	Now time.Time
	// Volumes to give away. The first one has the data; the others are rebuilt from it.
	Volumes []v1alpha1.LockedVolume
}

// VolumeLocks computes PostgresCluster.status.volumeLocks from the requests and the previous locks. One requester at a time
// has the lock: it keeps it until its request is withdrawn or its object no longer exists, then the oldest is next.
func VolumeLocks(previous []v1alpha1.VolumeLock, requests []LockRequest, facts LockFacts) []v1alpha1.VolumeLock {
	holder := currentHolder(previous, requests)
	var locks []v1alpha1.VolumeLock
	for _, request := range requests {
		lock := v1alpha1.VolumeLock{Kind: request.Kind, Name: request.Name, RequesterUID: request.UID, Token: request.Request.Token, ReplicasLast: request.Request.ReplicasLast}
		old := findLock(previous, request)
		if old != nil {
			lock.StoppingSince, lock.Deadline, lock.TellingSince = old.StoppingSince, old.Deadline, old.TellingSince
		}
		switch {
		case old != nil && overdue(old, facts.Now):
			lock.State, lock.Message = v1alpha1.VolumeLockRefused, "No data was handed over within spec.maxDowntime."
		case old != nil && (owns(old.State) || old.State == v1alpha1.VolumeLockRefused):
			lock = *old
		case facts.Refusal != "":
			lock.State, lock.Message = v1alpha1.VolumeLockRefused, facts.Refusal
		case facts.Lacking[request.UID] != "" && lock.StoppingSince == nil:
			lock.State, lock.Message = v1alpha1.VolumeLockRefused, facts.Lacking[request.UID]
		case holder != nil && holder.UID != request.UID:
			lock.State = v1alpha1.VolumeLockQueued
			lock.Message = fmt.Sprintf("Waiting until %s %s gives the volumes back.", holder.Kind, holder.Name)
		default:
			lock = nextInTurn(lock, request.Request, facts)
		}
		locks = append(locks, lock)
	}
	return locks
}

// nextInTurn is the lock of the requester whose turn it is.
func nextInTurn(lock v1alpha1.VolumeLock, request v1alpha1.VolumeLockRequest, facts LockFacts) v1alpha1.VolumeLock {
	switch stopping := lock.StoppingSince != nil; {
	case facts.Stopped:
		begin(&lock, request, facts.Now)
		lock.State, lock.Volumes, lock.Shutdown, lock.Archived = v1alpha1.VolumeLockGranted, facts.Volumes, facts.Shutdown, facts.Archived
	case stopping && facts.Stuck != "":
		lock.State, lock.Message = v1alpha1.VolumeLockRefused, facts.Stuck
	case !stopping && facts.Obstacle != "":
		lock.State, lock.Message, lock.TellingSince = v1alpha1.VolumeLockQueued, facts.Obstacle, nil
	case !stopping && facts.Untold != "" && !toldLongEnough(&lock, facts.Now):
		lock.State, lock.Message = v1alpha1.VolumeLockQueued, facts.Untold
	default:
		begin(&lock, request, facts.Now)
		lock.State, lock.Message = v1alpha1.VolumeLockQueued, "PostgreSQL is being stopped."
	}
	return lock
}

// tellTime is how long an instance that doesn't learn that replicas end after their primary keeps a requester waiting that can do without.
// It is longer than a kubelet takes to bring a file up to date, and an agent to read it.
const tellTime = 15 * time.Second

// toldLongEnough records since when the instances are being told in which order they end, and says whether that has taken too long for a
// requester that can do without.
func toldLongEnough(lock *v1alpha1.VolumeLock, now time.Time) bool {
	if lock.TellingSince == nil {
		lock.TellingSince = &metav1.Time{Time: now.Truncate(time.Second)}
	}
	return !lock.ReplicasLast && now.Sub(lock.TellingSince.Time) > tellTime
}

// begin records that the cluster is stopped for a requester from now on, and for how long.
func begin(lock *v1alpha1.VolumeLock, request v1alpha1.VolumeLockRequest, now time.Time) {
	if lock.StoppingSince != nil {
		return
	}
	since := metav1.NewTime(now.Truncate(time.Second)) // as it comes back from the API server
	lock.StoppingSince = &since
	if request.MaxDowntime != nil {
		lock.Deadline = &metav1.Time{Time: since.Add(request.MaxDowntime.Duration)}
	}
}

// overdue reports that the time of a lock is over, and that nothing was handed over under it.
func overdue(lock *v1alpha1.VolumeLock, now time.Time) bool {
	waits := lock.State == v1alpha1.VolumeLockQueued || lock.State == v1alpha1.VolumeLockGranted
	return waits && lock.Deadline != nil && now.After(lock.Deadline.Time)
}

// Holder is the request that the cluster is stopped for: the one that has the lock, or else the first in the queue that was not
// refused. Nil: there is none.
func Holder(previous []v1alpha1.VolumeLock, requests []LockRequest) *LockRequest {
	return currentHolder(previous, requests)
}

func currentHolder(previous []v1alpha1.VolumeLock, requests []LockRequest) *LockRequest {
	for i := range requests {
		if old := findLock(previous, requests[i]); old != nil && owns(old.State) {
			return &requests[i]
		}
	}
	for i := range requests {
		if old := findLock(previous, requests[i]); old == nil || old.State != v1alpha1.VolumeLockRefused {
			return &requests[i]
		}
	}
	return nil
}

func owns(state v1alpha1.VolumeLockState) bool {
	return state == v1alpha1.VolumeLockGranted || state == v1alpha1.VolumeLockAdopted
}

func findLock(locks []v1alpha1.VolumeLock, request LockRequest) *v1alpha1.VolumeLock {
	for i := range locks {
		if locks[i].RequesterUID == request.UID && locks[i].Token == request.Request.Token {
			return &locks[i]
		}
	}
	return nil
}

// LockFor is the lock with which a cluster responds to a request, or nil while none counts: another cluster of that name,
// another token, or a status that is about an older spec.
func LockFor(cluster *v1alpha1.PostgresCluster, requester types.UID, request *v1alpha1.VolumeLockRequest) *v1alpha1.VolumeLock {
	if cluster == nil || request == nil || cluster.UID != request.ClusterUID ||
		!Current(cluster, cluster.Status.ObservedGeneration) {
		return nil
	}
	return findLock(cluster.Status.VolumeLocks, LockRequest{UID: requester, Request: *request})
}

// LockAhead is the lock of whoever else has the volumes, or is to have them next; nil: nobody else requests them. A
// requester that has yet to write its request waits for that one.
func LockAhead(cluster *v1alpha1.PostgresCluster, requester types.UID) *v1alpha1.VolumeLock {
	var next *v1alpha1.VolumeLock
	for i := range cluster.Status.VolumeLocks {
		lock := &cluster.Status.VolumeLocks[i]
		switch {
		case lock.RequesterUID == requester:
		case owns(lock.State):
			return lock
		case next == nil:
			next = lock
		}
	}
	return next
}

// PendingHandover is the handover that the db-controller has to adopt now: that of the lock's holder, under its granted
// token, with a generation that is not adopted yet. Naming the previous generation reverts an adoption, unless the adopted data
// has served clients.
func PendingHandover(locks []v1alpha1.VolumeLock, requests []LockRequest) *LockRequest {
	for i := range requests {
		handover := requests[i].Handover
		lock := findLock(locks, requests[i])
		if handover == nil || lock == nil || !owns(lock.State) || handover.Token != lock.Token {
			continue
		}
		if lock.AdoptedGeneration != handover.DataGeneration && lock.ServedSince == nil {
			return &requests[i]
		}
	}
	return nil
}

// Adopt records in the locks that the holder's handover was adopted. The volumes belong to the cluster again.
func Adopt(locks []v1alpha1.VolumeLock, request *LockRequest) []v1alpha1.VolumeLock {
	adopted := slices.Clone(locks)
	if lock := findLock(adopted, *request); lock != nil {
		lock.State = v1alpha1.VolumeLockAdopted
		lock.AdoptedGeneration = request.Handover.DataGeneration
		lock.Message, lock.Volumes, lock.ServedSince = "", nil, nil
	}
	return adopted
}

// RefuseHandover records in the locks that what the holder hands over can't be adopted. The cluster runs on what it ran on.
func RefuseHandover(locks []v1alpha1.VolumeLock, request *LockRequest, why string) []v1alpha1.VolumeLock {
	refused := slices.Clone(locks)
	if lock := findLock(refused, *request); lock != nil {
		lock.State, lock.Message, lock.Volumes = v1alpha1.VolumeLockRefused, why, nil
	}
	return refused
}

// Serve records in the locks that clients were led to a data generation that was adopted under one of them. It does so once.
func Serve(locks []v1alpha1.VolumeLock, generation string, now metav1.Time) []v1alpha1.VolumeLock {
	served := slices.Clone(locks)
	for i := range served {
		if lock := &served[i]; lock.State == v1alpha1.VolumeLockAdopted && lock.AdoptedGeneration == generation && lock.ServedSince == nil {
			lock.ServedSince = &now
		}
	}
	return served
}

// Adopted reports whether the cluster runs on the generation of the handover.
func Adopted(cluster *v1alpha1.PostgresCluster, requester types.UID, request *v1alpha1.VolumeLockRequest, handover *v1alpha1.Handover) bool {
	lock := LockFor(cluster, requester, request)
	return lock != nil && handover != nil && lock.State == v1alpha1.VolumeLockAdopted &&
		lock.AdoptedGeneration == handover.DataGeneration &&
		cluster.Status.DataGeneration == handover.DataGeneration
}

// MustBeStopped reports whether PostgreSQL has to be down: it is being stopped for who requests the volumes, and nothing of theirs
// has been adopted, or they take back what was.
func MustBeStopped(locks []v1alpha1.VolumeLock, requests []LockRequest) bool {
	holder := currentHolder(locks, requests)
	if holder == nil {
		return false
	}
	old := findLock(locks, *holder)
	switch {
	case old == nil:
		return false // it is answered first
	case old.State == v1alpha1.VolumeLockAdopted:
		return PendingHandover(locks, requests) != nil
	}
	return old.State == v1alpha1.VolumeLockGranted || old.StoppingSince != nil
}
