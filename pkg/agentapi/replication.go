package agentapi

import "time"

// ElectionStatus is what an agent knows of the election.
type ElectionStatus struct {
	// Leader is the pod that holds the lease; empty: nobody does.
	Leader string `json:"leader,omitempty"`
	// Term is of the Lease that was created at LeaseCreated, such as 2026-07-01T12:00:00Z.
	LeaseCreated string `json:"leaseCreated,omitempty"`
	Term         int64  `json:"term,omitempty"`
	// Members may take over.
	Members []string `json:"members,omitempty"`
	// Quorum is on how many of the members an acknowledged commit is; 0 is asynchronous.
	Quorum int `json:"quorum,omitempty"`
	// Degraded: commits of this leader don't wait for replicas that are yet to be built in this data generation.
	Degraded bool `json:"degraded,omitempty"`
	// Failsafe: the API server is away, and the members agree that the leader continues.
	Failsafe bool `json:"failsafe,omitempty"`
	// Renewal is how the leader keeps the lease at the moment, as itself says: RenewalAPIServer or RenewalMembers. Empty: this is not
	// the leader, or its agent is of a version that doesn't know the second.
	Renewal string `json:"renewal,omitempty"`
	// Silent are the members that don't respond the datagrams of a leader which is to keep the lease by their word.
	Silent []string `json:"silent,omitempty"`
	// Waiting says in a sentence why there is no primary here or elsewhere, when there is none.
	Waiting string `json:"waiting,omitempty"`
	// Switchover that was asked for last, by its token.
	Switchover *SwitchoverStatus `json:"switchover,omitempty"`
	// LeaseAgeSeconds since the lease was renewed, or since it was seen to have been.
	LeaseAgeSeconds float64 `json:"leaseAgeSeconds,omitempty"`
	// PromotedAt is when this instance became primary last, and PromotionSeconds how long that took.
	PromotedAt       time.Time `json:"promotedAt,omitzero"`
	PromotionSeconds float64   `json:"promotionSeconds,omitempty"`
}

// ReplicationStatus is how a replica follows.
type ReplicationStatus struct {
	Streaming bool `json:"streaming"`
	// ReceivedLSN and ReplayedLSN are what it has.
	ReceivedLSN string `json:"receivedLSN,omitempty"`
	ReplayedLSN string `json:"replayedLSN,omitempty"`
	// LagBytes behind the primary, and LagSeconds since the replica was level with it.
	LagBytes   int64   `json:"lagBytes"`
	LagSeconds float64 `json:"lagSeconds"`
	// OverdueBytes are those of LagBytes that the primary wrote more than a moment ago; nil: the primary's agent doesn't tell.
	OverdueBytes *int64 `json:"overdueBytes,omitempty"`
	// DelaySeconds is how late the replica replays WAL, as a person has asked for, and as it does by now; 0: at once. A late one doesn't lag.
	DelaySeconds int64 `json:"delaySeconds,omitempty"`
	// ReplayPaused: somebody has paused the replay of a delayed replica.
	ReplayPaused bool `json:"replayPaused,omitempty"`
	// FromArchive: the primary has no more the WAL that the replica needs, so it reads the archive.
	FromArchive bool `json:"fromArchive,omitempty"`
}

// Overdue is how many bytes a replica lags, without what its primary wrote a moment ago where that is known.
func (r *ReplicationStatus) Overdue() int64 {
	if r.OverdueBytes != nil {
		return *r.OverdueBytes
	}
	return r.LagBytes
}

// RejoinStatus is the work that makes a copy fit to follow the primary.
type RejoinStatus struct {
	// Method: Rewind or Clone.
	Method string `json:"method"`
	// Source is the pod that it is made from.
	Source     string    `json:"source"`
	StartedAt  time.Time `json:"startedAt"`
	BytesDone  int64     `json:"bytesDone,omitempty"`
	BytesTotal int64     `json:"bytesTotal,omitempty"`
	// Attempts so far, this one too.
	Attempts int `json:"attempts,omitempty"`
	// Message of the try before, when it failed.
	Message string `json:"message,omitempty"`
}

// Copy is one folder of data on the volume.
type Copy struct {
	ID string `json:"id"`
	// Of is the data generation that it is a copy of; equal to ID for the original.
	Of string `json:"of"`
}

// SwitchoverRequest asks the primary to give its role away. One that was carried out, or refused, under the same token
// is not carried out again.
type SwitchoverRequest struct {
	Token string `json:"token"`
	// To is the pod that takes over; empty: the one that is furthest ahead.
	To string `json:"to,omitempty"`
}

// SwitchoverStatus is the answer.
type SwitchoverStatus struct {
	Token string `json:"token"`
	// State: Running, Done or Refused.
	State   string `json:"state"`
	Message string `json:"message,omitempty"`
	// Untouched: it was refused at once, and the primary was not stopped for it.
	Untouched bool `json:"untouched,omitempty"`
}

// States of a switchover.
const (
	SwitchoverRunning = "Running"
	SwitchoverDone    = "Done"
	SwitchoverRefused = "Refused"
)

// Position says how much of the WAL an instance has.
type Position struct {
	Pod string `json:"pod"`
	// Generation that it runs on.
	Generation string `json:"generation"`
	// Term that it knows, of the Lease that was created at LeaseCreated, such as 2026-07-01T12:00:00Z; empty: it doesn't say.
	Term         int64  `json:"term"`
	LeaseCreated string `json:"leaseCreated,omitempty"`
	// Replica: PostgreSQL runs as one and accepts connections, so that it could be promoted.
	Replica bool `json:"replica"`
	// Timeline and LSN of what it has received and flushed. The LSN is a number, as it is compared.
	Timeline int64  `json:"timeline"`
	LSN      uint64 `json:"lsn"`
	// Streaming from the holder of Term.
	Streaming bool `json:"streaming"`
	// Promised the holder not to take over for now.
	Promised bool `json:"promised,omitempty"`
	// Stalled: the disk of the instance has not answered for so long that the instance does not take over.
	Stalled bool `json:"stalled,omitempty"`
}

// PositionRequest asks an instance how far it is.
type PositionRequest struct {
	// Version of the Lease that whoever asks would take by the answer.
	Version string `json:"version,omitempty"`
	// Ended: the holder of the lease asks, whose server has ended. Nobody takes the lease by this answer.
	Ended bool `json:"ended,omitempty"`
}

// FollowRequest is what a replica tells its primary.
type FollowRequest struct {
	Position Position `json:"position"`
	Address  string   `json:"address"`
	// Leaving: the replica is about to end, and readers shall be sent to others.
	Leaving bool `json:"leaving,omitempty"`
}

// FollowAnswer is what the primary tells its replica.
type FollowAnswer struct {
	Term int64 `json:"term"`
	// LSN that the primary has written, and DueLSN what it had a moment ago: whoever lacks that lags. 0: it isn't told.
	LSN      uint64 `json:"lsn"`
	DueLSN   uint64 `json:"dueLSN,omitempty"`
	Timeline int64  `json:"timeline"`
	// Slots are the positions before which the WAL is not needed any more, by the pod that a slot is for.
	Slots map[string]uint64 `json:"slots,omitempty"`
	// Maintenance that the primary has yet to do; nil: it doesn't say.
	Maintenance *MaintenanceLeft `json:"maintenance,omitempty"`
	// ArchivedWAL is the last segment that is archived; empty: none yet. Archives: there is an archive.
	ArchivedWAL string `json:"archivedWAL,omitempty"`
	Archives    bool   `json:"archives,omitempty"`
}

// MaintenanceLeft is what is yet to be done after a restore or a major upgrade: Extensions, Statistics.
type MaintenanceLeft struct {
	Work []string `json:"work,omitempty"`
}

// FailsafeRequest asks a member whether it follows, and to promise not to take the lease for a while if it does.
type FailsafeRequest struct {
	Leader     string `json:"leader"`
	Generation string `json:"generation"`
	Term       int64  `json:"term"`
}

// FailsafeAnswer is the promise, or why not.
type FailsafeAnswer struct {
	// Pod that promises: an address may have become another's.
	Pod     string `json:"pod"`
	Follows bool   `json:"follows"`
	Message string `json:"message,omitempty"`
}

// WordKey is the key with which a primary signs its questions for the word of a replica, and the replica its answers. Both send datagrams to the
// other's AgentPort.
type WordKey struct {
	Leader     string `json:"leader"`
	Generation string `json:"generation"`
	// ID tells the key from others in a datagram.
	ID     []byte `json:"id"`
	Secret []byte `json:"secret"`
}

// WordAnswer says whether the replica answers to questions that are signed with the key, or why not.
type WordAnswer struct {
	Pod     string `json:"pod"`
	Agreed  bool   `json:"agreed"`
	Message string `json:"message,omitempty"`
}
