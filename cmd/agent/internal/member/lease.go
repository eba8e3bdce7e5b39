package member

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"sync"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/elect"
)

// annotation of the Lease with all that its spec has no field for.
const annotation = "howdah.dev/election"

const fieldManager = "howdah-agent"

// lease is the part of a coordination.k8s.io/v1 Lease that is read and written.
type lease struct {
	APIVersion string    `json:"apiVersion,omitempty"`
	Kind       string    `json:"kind,omitempty"`
	Metadata   leaseMeta `json:"metadata"`
	Spec       leaseSpec `json:"spec"`
}

type leaseMeta struct {
	Name              string            `json:"name,omitempty"`
	Namespace         string            `json:"namespace,omitempty"`
	ResourceVersion   string            `json:"resourceVersion,omitempty"`
	CreationTimestamp string            `json:"creationTimestamp,omitempty"`
	Labels            map[string]string `json:"labels,omitempty"`
	Annotations       map[string]string `json:"annotations,omitempty"`
	OwnerReferences   []owner           `json:"ownerReferences,omitempty"`
}

// owner is an owner reference without blockOwnerDeletion, which an agent may not set.
type owner struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
	Controller bool   `json:"controller,omitempty"`
}

type leaseSpec struct {
	HolderIdentity       *string `json:"holderIdentity"` // null takes it away
	LeaseDurationSeconds int     `json:"leaseDurationSeconds,omitempty"`
	RenewTime            string  `json:"renewTime,omitempty"`
	LeaseTransitions     int64   `json:"leaseTransitions,omitempty"`
}

// election is the annotation.
type election struct {
	Generation string         `json:"generation,omitempty"`
	Sequence   int64          `json:"sequence,omitempty"`
	Checkpoint elect.End      `json:"checkpoint,omitzero"`
	Timeline   int64          `json:"timeline,omitempty"`
	HolderUID  string         `json:"holderUID,omitempty"`
	Address    string         `json:"address,omitempty"`
	Started    string         `json:"started,omitempty"`
	LastHolder string         `json:"lastHolder,omitempty"`
	Members    []elect.Member `json:"members"`
	Quorum     int            `json:"quorum,omitempty"`
	Full       bool           `json:"full,omitempty"`
	Successor  string         `json:"successor,omitempty"`
	Complete   bool           `json:"complete,omitempty"`
	End        elect.End      `json:"end,omitzero"`
	// WordSeconds is for how long a member keeps its word, where the lease is kept by that. LeaseDurationSeconds is for agents that don't
	// know of words then, and RenewalSeconds is what it would be.
	WordSeconds    int `json:"wordSeconds,omitempty"`
	RenewalSeconds int `json:"renewalSeconds,omitempty"`
}

// record is what the Lease says. What can't be read of it is no reason to know nothing: its version and its holder are there.
func (l *lease) record() elect.Record {
	record := elect.Record{
		Version: l.Metadata.ResourceVersion, Created: l.Metadata.CreationTimestamp, Term: l.Spec.LeaseTransitions, Duration: seconds(l.Spec.LeaseDurationSeconds),
	}
	if l.Spec.HolderIdentity != nil {
		record.Holder = *l.Spec.HolderIdentity
	}
	known := election{}
	if text := l.Metadata.Annotations[annotation]; text != "" {
		if err := json.Unmarshal([]byte(text), &known); err != nil {
			record.Damaged = fmt.Sprintf("The annotation %s of the Lease can't be parsed (%v). Nobody takes over until it is corrected, or the Lease is deleted: "+
				"see \"When a person has to decide\" in docs/high-availability.md.", annotation, err)
			return record
		}
	}
	record.Timeline, record.Generation, record.HolderUID, record.Address = known.Timeline, known.Generation, known.HolderUID, known.Address
	record.Started, record.LastHolder, record.Members, record.Quorum = known.Started, known.LastHolder, known.Members, known.Quorum
	record.Successor, record.Complete, record.End = known.Successor, known.Complete, known.End
	record.Sequence, record.Checkpoint, record.Full = known.Sequence, known.Checkpoint, known.Full
	if record.Word = seconds(known.WordSeconds); record.Word > 0 {
		record.Duration = seconds(known.RenewalSeconds)
	}
	return record
}

// seconds of a number that somebody may have edited.
func seconds(n int) time.Duration { return time.Duration(max(0, min(n, math.MaxInt32))) * time.Second }

// inSeconds is a time as a whole number, no less.
func inSeconds(d time.Duration) int { return int(math.Ceil(d.Seconds())) }

// patchOf a record: its version is the precondition.
func patchOf(record elect.Record, now time.Time) (lease, error) {
	members := record.Members
	if members == nil {
		members = []elect.Member{}
	}
	said := election{
		Generation: record.Generation, Timeline: record.Timeline, HolderUID: record.HolderUID, Address: record.Address, Started: record.Started, LastHolder: record.LastHolder,
		Members: members, Quorum: record.Quorum, Successor: record.Successor, Complete: record.Complete, End: record.End,
		Sequence: record.Sequence, Checkpoint: record.Checkpoint, Full: record.Full,
	}
	if record.Word > 0 {
		said.WordSeconds, said.RenewalSeconds = inSeconds(record.Word), inSeconds(record.Duration)
	}
	text, err := json.Marshal(said)
	if err != nil {
		return lease{}, err
	}
	patch := lease{
		Metadata: leaseMeta{ResourceVersion: record.Version, Annotations: map[string]string{annotation: string(text)}},
		Spec: leaseSpec{
			LeaseDurationSeconds: inSeconds(record.Lasts()), RenewTime: now.UTC().Format("2006-01-02T15:04:05.000000Z07:00"),
			LeaseTransitions: record.Term,
		},
	}
	if record.Holder != "" {
		patch.Spec.HolderIdentity = &record.Holder
	}
	return patch, nil
}

const leases = "/apis/coordination.k8s.io/v1/namespaces/%s/leases"

func (m *Member) folder() string { return fmt.Sprintf(leases, m.Namespace) }
func (m *Member) path() string   { return m.folder() + "/" + m.leaseName() }

// leaseName is empty for an instance that was always alone: there is no Lease then, and nothing to read.
func (m *Member) leaseName() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.Lease
}

func (m *Member) readLease(ctx context.Context) (elect.Record, error) {
	if m.leaseName() == "" {
		return elect.Record{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	found := lease{}
	if err := m.API.Get(ctx, m.path(), &found); err != nil {
		return elect.Record{}, err
	}
	return m.known.read(&found), nil
}

// writeLease returns the new version.
func (m *Member) writeLease(ctx context.Context, record elect.Record) (string, error) {
	patch, err := patchOf(record, time.Now())
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	written := lease{}
	if record.Version == "" {
		err = m.API.Create(ctx, m.path(), m.creator(), m.known.replacement(patch), &written)
	} else {
		err = m.API.Merge(ctx, m.path(), fieldManager, patch, &written)
	}
	return written.Metadata.ResourceVersion, err
}

// creator is the field manager of a Lease that is created: of this process alone, because no manager is in conflict with itself.
func (o *Options) creator() string { return fieldManager + "-" + o.Self.UID + "-" + o.Self.Started }

// known is whose the Lease is, as it was read last. It goes into the Lease that takes its place, should it be deleted.
type known struct {
	mu   sync.Mutex
	meta leaseMeta
}

// read notes whose a Lease is, and returns its record.
func (k *known) read(found *lease) elect.Record {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.meta = found.Metadata
	return found.record()
}

// replacement is the Lease that takes the place of a deleted one.
func (k *known) replacement(patch lease) lease {
	k.mu.Lock()
	defer k.mu.Unlock()
	patch.APIVersion, patch.Kind = "coordination.k8s.io/v1", "Lease"
	patch.Metadata.Name, patch.Metadata.Namespace = k.meta.Name, k.meta.Namespace
	patch.Metadata.Labels, patch.Metadata.OwnerReferences = k.meta.Labels, k.meta.OwnerReferences
	return patch
}
