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
	known, text := election{}, lease.Annotations[annotation]
	if text == "" && ptr.Deref(lease.Spec.HolderIdentity, "") == "" {
		known = election{Generation: status.DataGeneration, LastHolder: status.Primary, unrecorded: true}
	} else if err := json.Unmarshal([]byte(text), &known); err != nil {
		return known, fmt.Errorf("the annotation %s of Lease %s can't be parsed (%w): correct it first", annotation, lease.Name, err)
	}
	if known.Generation == "" || known.LastHolder == "" {
		return known, fmt.Errorf("the annotation %s of Lease %s doesn't say who was primary last, so nobody has been", annotation, lease.Name)
	}
	return known, nil
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

// decide changes the Lease so that an instance takes it: it was primary last, as far as anybody knows from now on. Its timeline is one
// that nobody has, and its term tells it from every Lease that there was.
func decide(lease *coordinationv1.Lease, known *election, to string, timeline int64) error {
	text, err := json.Marshal(election{Generation: known.Generation, Timeline: timeline, LastHolder: to, Members: []member{}})
	if err != nil {
		return err
	}
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	lease.Annotations[annotation] = string(text)
	lease.Spec.HolderIdentity = nil
	lease.Spec.LeaseTransitions = ptr.To(ptr.Deref(lease.Spec.LeaseTransitions, 0) + 1)
	return nil
}
