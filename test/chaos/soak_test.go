//go:build chaos

package chaos

import (
	"flag"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/howdah/test/testkit/writes"
)

var minutes = flag.Int("minutes", 60, "how long the machine is kept busy")

// TestNoFailoverHappensOnABusyMachine keeps all processors busy beside clusters to which nothing else is done.
func TestNoFailoverHappensOnABusyMachine(t *testing.T) {
	for kind := range strings.SplitSeq(*replication, ",") {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := New(t, Options{Replication: Replication(kind), Renewal: Renewal(*renewal), Version: int32(*version)})
			r := &round{Subject: s}
			r.awaitRenewal()
			kept, fresh := r.client("kept", s.target, true), r.client("fresh", s.target, false)
			r.awaitRows(kept, rows)
			r.awaitRows(fresh, rows)
			term, began := s.term(), time.Now()
			keepBusy(t)
			r.pass(time.Duration(*minutes) * time.Minute)
			end := time.Now()
			acks := append(r.stop(kept), r.stop(fresh)...)
			t.Logf("%d rows in %s; longest gap %s, for new connections %s", len(acks), end.Sub(began).Round(time.Second),
				writes.Longest(kept.Acks(), began, end).Round(time.Millisecond), writes.Longest(fresh.Acks(), began, end).Round(time.Millisecond))
			if now := s.term(); now != term || writes.Failovers(acks) > 0 {
				t.Errorf("the term went from %d to %d, with %d failovers", term, now, writes.Failovers(acks))
			}
			s.awaitWhole()
		})
	}
}

// term counts how often the lease has changed hands.
func (s *Subject) term() int32 {
	s.Helper()
	lease := &coordinationv1.Lease{}
	s.Must(s.Get(s.Context(), client.ObjectKey{Namespace: s.Namespace, Name: name}, lease))
	return ptr.Deref(lease.Spec.LeaseTransitions, 0)
}

// keepBusy has a process more than there are processors do nothing at full speed until the test ends.
func keepBusy(t *testing.T) {
	t.Helper()
	for range runtime.NumCPU() + 1 {
		cmd := exec.Command("sh", "-c", "while :; do :; done")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
}
