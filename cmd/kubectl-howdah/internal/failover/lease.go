package failover

import (
	"encoding/json"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
)

// annotation of the Lease in which agents keep what they know of the election; see docs/high-availability.md.
const annotation = "howdah.dev/election"

// annotationBefore keeps what a decision has replaced. No agent reads it.
const annotationBefore = "howdah.dev/election-before-failover"

// election is what is read of it.
type election struct {
	Generation string   `json:"generation,omitempty"`
	Timeline   int64    `json:"timeline,omitempty"`
	LastHolder string   `json:"lastHolder,omitempty"`
	Members    []member `json:"members"`
	Quorum     int      `json:"quorum,omitempty"`
	Complete   bool     `json:"complete,omitempty"`
	End        position `json:"end,omitzero"`
	// WordSeconds isn't 0 where the holder renews the lease through its members.
	WordSeconds int `json:"wordSeconds,omitempty"`
	// unrecorded: the Lease is empty, in place of one that was deleted. Generation and LastHolder are those of the cluster's status.
	unrecorded bool
	// decided is the instance that a person has chosen since, and that has not taken the lease; empty: there is none.
	decided string
	// text is how all of it was written, with what isn't read here.
	text json.RawMessage
}

// replaced is what annotationBefore says.
type replaced struct {
	// Term that the decision has given the Lease. Whoever takes the lease begins a later one.
	Term       int32           `json:"term"`
	Unrecorded bool            `json:"unrecorded,omitempty"`
	Election   json.RawMessage `json:"election"`
}

// wordWrites is after what time a holder that renews the lease through its members has written it again, whatever happens.
const wordWrites = 130 * time.Second

// lasts is for how long a Lease stays the same at most while its holder is alive.
func lasts(lease *coordinationv1.Lease, known *election) time.Duration {
	if known.WordSeconds > 0 {
		return wordWrites
	}
	return time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second
}

type member struct {
	Name     string   `json:"name"`
	Replayed position `json:"replayed,omitzero"`
}

// position in the WAL.
type position struct {
	Timeline int64  `json:"timeline"`
	LSN      uint64 `json:"lsn"`
}

func (p position) String() string {
	if p.LSN == 0 {
		return "-"
	}
	return fmt.Sprintf("%X/%X on timeline %d", p.LSN>>32, uint32(p.LSN), p.Timeline)
}

// before says whether a position comes before another one.
func (p position) before(other position) bool {
	return p.Timeline < other.Timeline || p.Timeline == other.Timeline && p.LSN < other.LSN
}

func readElection(lease *coordinationv1.Lease, status *v1alpha1.PostgresClusterStatus) (election, error) {
	text := lease.Annotations[annotation]
	known := election{text: json.RawMessage(text)}
	if text == "" && ptr.Deref(lease.Spec.HolderIdentity, "") == "" {
		known = election{Generation: status.DataGeneration, LastHolder: status.Primary, unrecorded: true}
	} else if err := json.Unmarshal([]byte(text), &known); err != nil {
		return known, fmt.Errorf("the annotation %s of Lease %s can't be parsed (%w): correct it first", annotation, lease.Name, err)
	}
	if known.Generation == "" || known.LastHolder == "" {
		return known, fmt.Errorf("the annotation %s of Lease %s doesn't say who was primary last, so nobody has been", annotation, lease.Name)
	}
	return beforeDecision(lease, known)
}

// beforeDecision is what was known before a person decided, for as long as nobody has taken the lease since: the decision says of the chosen
// instance that it was primary last, so that its agent takes the lease, though it may lack what was acknowledged.
func beforeDecision(lease *coordinationv1.Lease, known election) (election, error) {
	text, kept, earlier := lease.Annotations[annotationBefore], replaced{}, election{}
	if text == "" || ptr.Deref(lease.Spec.HolderIdentity, "") != "" {
		return known, nil
	}
	err := json.Unmarshal([]byte(text), &kept)
	if err == nil {
		err = json.Unmarshal(kept.Election, &earlier)
	}
	switch {
	case err != nil:
		return known, fmt.Errorf("the annotation %s of Lease %s can't be parsed (%w): correct it first, or remove it if an instance has been primary since the last failover",
			annotationBefore, lease.Name, err)
	case kept.Term != ptr.Deref(lease.Spec.LeaseTransitions, 0) || earlier.Generation != known.Generation || earlier.LastHolder == "":
		return known, nil
	}
	earlier.decided, earlier.unrecorded, earlier.text = known.LastHolder, kept.Unrecorded, kept.Election
	earlier.Timeline = max(earlier.Timeline, known.Timeline) // of two decisions, the later one needs a timeline of its own
	return earlier, nil
}

// had is what an instance had at least, as the last primary knew.
func (e *election) had(name string) (position, bool) {
	for _, m := range e.Members {
		if m.Name == name {
			return m.Replayed, true
		}
	}
	return position{}, false
}

// decide changes the Lease so that an instance takes it: it was primary last, as far as any agent knows from now on. Its timeline is one that
// nobody has, and its term tells it from every Lease that there was. What was known before is kept: the instance may never take the lease.
func decide(lease *coordinationv1.Lease, known *election, to string, timeline int64) error {
	text, err := json.Marshal(election{Generation: known.Generation, Timeline: timeline, LastHolder: to, Members: []member{}})
	if err != nil {
		return err
	}
	term := ptr.Deref(lease.Spec.LeaseTransitions, 0) + 1
	kept := replaced{Term: term, Unrecorded: known.unrecorded, Election: known.text}
	if len(kept.Election) == 0 {
		if kept.Election, err = json.Marshal(known); err != nil {
			return err
		}
	}
	earlier, err := json.Marshal(kept)
	if err != nil {
		return err
	}
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	lease.Annotations[annotation], lease.Annotations[annotationBefore] = string(text), string(earlier)
	lease.Spec.HolderIdentity = nil
	lease.Spec.LeaseTransitions = &term
	return nil
}
