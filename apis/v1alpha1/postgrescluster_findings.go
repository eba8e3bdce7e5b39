package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterFinding is a setting that does not fit what the primary does, or something else that a person should look at. Written by the db-controller, from
// what the agents say.
type ClusterFinding struct {
	// Reason of the finding, such as CheckpointsRequested. The runbook has an entry for each.
	Reason string `json:"reason"`
	// Since is when it was first found.
	Since metav1.Time `json:"since"`
	// Evidence has the numbers, as they were within the last hour.
	Evidence string `json:"evidence"`
	// Advice says what to do, with the path of the field to set and an example.
	Advice string `json:"advice"`
}

// Reasons of findings.
const (
	// ReasonCheckpointsRequested: most checkpoints come early, because max_wal_size is reached.
	ReasonCheckpointsRequested = "CheckpointsRequested"
	// ReasonTemporaryFiles: queries write large temporary files.
	ReasonTemporaryFiles = "TemporaryFiles"
	// ReasonAutovacuumBusy: all workers of autovacuum run all the time.
	ReasonAutovacuumBusy = "AutovacuumBusy"
	// ReasonConnectionsNearLimit: clients have nearly all sessions that they can have.
	ReasonConnectionsNearLimit = "ConnectionsNearLimit"
	// ReasonWraparoundAge: transaction IDs of a database are old, although autovacuum should have frozen them.
	ReasonWraparoundAge = "WraparoundAge"
	// ReasonSlotRetainsWAL: a replication slot retains much WAL.
	ReasonSlotRetainsWAL = "SlotRetainsWAL"
	// ReasonSlotsSetAside: logical slots wait for a person, because an undo or a rollback brought the data back.
	ReasonSlotsSetAside = "SlotsSetAside"
	// ReasonChecksumFailures: PostgreSQL has read pages with a wrong checksum.
	ReasonChecksumFailures = "ChecksumFailures"
	// ReasonClockSkew: the clocks of two instances differ.
	ReasonClockSkew = "ClockSkew"
	// ReasonCertificateExpires: the certificate of the server ends soon.
	ReasonCertificateExpires = "CertificateExpires"
	// ReasonIndexDamaged: amcheck has found damage in an index of the primary.
	ReasonIndexDamaged = "IndexDamaged"
	// ReasonReplicaDamaged: a replica has damaged pages or indexes.
	ReasonReplicaDamaged = "ReplicaDamaged"
	// ReasonChecksIncomplete: the last check of the primary did not reach all indexes.
	ReasonChecksIncomplete = "ChecksIncomplete"
	// ReasonChecksSuspended: spec.deepChecks.suspend is true, so nobody looks for damage.
	ReasonChecksSuspended = "ChecksSuspended"
	// ReasonServiceUnreachable: an instance can't commit through the Service -rw.
	ReasonServiceUnreachable = "ServiceUnreachable"
	// ReasonServiceNotResolved: the name of the Service -rw can't be resolved in a pod of the cluster.
	ReasonServiceNotResolved = "ServiceNotResolved"
)
