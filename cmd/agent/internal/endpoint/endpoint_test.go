package endpoint

import (
	"context"
	"encoding/json"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/kube"
	"howdah.dev/howdah/pkg/agentapi"
)

// server keeps the slice that was applied last; it refuses while it is broken.
type server struct {
	mu      sync.Mutex
	broken  bool
	applied []slice
	change  chan struct{}
	asked   chan struct{} // nil, or what it waits for before it does anything
}

func (s *server) Apply(_ context.Context, _, manager string, object any) error {
	if s.asked != nil {
		<-s.asked
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken {
		s.broken = false
		return &kube.StatusError{Code: 403, Reason: "Forbidden", Message: "no create"}
	}
	said := object.(slice)
	if said.Metadata.ResourceVersion != s.version() {
		return &kube.StatusError{Code: 409, Reason: "Conflict", Message: "the object has been modified"}
	}
	s.applied = append(s.applied, said)
	s.change <- struct{}{}
	return nil
}

func (s *server) Get(_ context.Context, _ string, into any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := slice{}
	if len(s.applied) > 0 {
		found = s.applied[len(s.applied)-1]
	}
	found.Metadata.ResourceVersion = s.version()
	raw, err := json.Marshal(found)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}

// version of what is there.
func (s *server) version() string { return strconv.Itoa(len(s.applied) + 1) }

func publisher(t *testing.T, s *server) *Publisher {
	p := New(s, Pod{Namespace: "demo", Name: "shop-0", UID: "u", Node: "n1", IP: "10.0.0.7"}, "shop-rw", 5432, func() bool { return true }, slog.New(slog.DiscardHandler))
	go p.Run(t.Context())
	return p
}

func TestThePrimaryWritesItsAddressAndTakesItAway(t *testing.T) {
	s := &server{change: make(chan struct{}, 9)}
	p := publisher(t, s)
	p.Set(true)
	<-s.change
	p.Withdraw(t.Context())
	if len(s.applied) != 2 || !s.applied[0].Endpoints[0].Conditions.Ready || s.applied[1].Endpoints[0].Conditions.Ready {
		t.Errorf("%+v", s.applied)
	}
	if e := s.applied[0].Endpoints[0]; e.Addresses[0] != "10.0.0.7" || e.NodeName != "n1" || e.TargetRef.Name != "shop-0" || s.applied[0].AddressType != "IPv4" {
		t.Errorf("%+v", s.applied[0])
	}
}

func TestAPodThatIsJustBeingPutIntoTheSliceIsTakenOutOfItAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{change: make(chan struct{}, 9), asked: make(chan struct{})}
		p := publisher(t, s)
		p.Set(true)
		synctest.Wait() // the server has been asked, and hasn't answered
		go func() {
			s.asked <- struct{}{}
			s.asked <- struct{}{}
		}()
		p.Withdraw(t.Context())
		if len(s.applied) != 2 || s.applied[1].Endpoints[0].Conditions.Ready {
			t.Errorf("%+v", s.applied)
		}
	})
}

func TestAPodThatTheServerRefusesHasNothingToTakeAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{change: make(chan struct{}, 9), asked: make(chan struct{}), broken: true}
		p := publisher(t, s)
		p.Set(true)
		synctest.Wait()
		go func() { s.asked <- struct{}{} }()
		p.Withdraw(t.Context())
		if len(s.applied) != 0 {
			t.Errorf("%+v", s.applied)
		}
	})
}

func TestAPodThatWasNeverInTheSliceDoesNotTouchIt(t *testing.T) {
	s := &server{change: make(chan struct{}, 9)}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	publisher(t, s).Withdraw(ctx)
	if ctx.Err() != nil || len(s.applied) != 0 {
		t.Errorf("%v, %+v", ctx.Err(), s.applied)
	}
}

func TestASliceThatIsNotThereYetIsWrittenLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{change: make(chan struct{}, 9), broken: true}
		p := publisher(t, s)
		p.Set(true)
		<-s.change
		synctest.Wait() // the publisher knows that it is written
		if !p.stands(t.Context()) {
			t.Error("what was written is not what is there")
		}
		s.applied = append(s.applied, slice{})
		if p.stands(t.Context()) {
			t.Error("an empty slice counts as written")
		}
	})
}

func TestASixthVersionAddressIsOne(t *testing.T) {
	for ip, want := range map[string]string{"10.1.2.3": "IPv4", "fd00::7": "IPv6"} {
		if got := addressType(ip); got != want {
			t.Errorf("%s is %s", ip, got)
		}
	}
}

func TestHowAPrimaryHasEndedIsSaidUntilAnotherOneServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{change: make(chan struct{}, 9)}
		p := publisher(t, s)
		p.Set(true)
		<-s.change
		synctest.Wait()
		s.broken = true // for a moment
		p.Ended(t.Context(), agentapi.Shutdown{Instance: "shop-0", DataGeneration: "g1", Unarchived: []string{"000000010000000000000007"}})
		last := s.applied[len(s.applied)-1]
		if last.Endpoints[0].Conditions.Ready || last.Metadata.Annotations[agentapi.AnnotationShutdown] !=
			`{"instance":"shop-0","dataGeneration":"g1","unarchived":["000000010000000000000007"]}` {
			t.Errorf("%+v", last)
		}
		p.Set(true)
		synctest.Wait()
		if last := s.applied[len(s.applied)-1]; !last.Endpoints[0].Conditions.Ready || last.Metadata.Annotations[agentapi.AnnotationShutdown] != "" {
			t.Errorf("what was said of a server before is still said: %+v", last)
		}
		other := last
		for _, leads := range []bool{true, false} {
			other.Endpoints = []endpoint{{TargetRef: targetRef{UID: "another"}, Conditions: conditions{Ready: leads}}}
			other.Metadata.Annotations = map[string]string{agentapi.AnnotationDataGeneration: "g0"}
			s.applied = append(s.applied, other)
			said := len(s.applied)
			p.Ended(t.Context(), agentapi.Shutdown{Instance: "shop-0"})
			if (len(s.applied) > said) == leads {
				t.Errorf("another primary leads clients: %t, and it writes %+v", leads, s.applied[said:])
			}
			if now := s.applied[len(s.applied)-1].Metadata.Annotations[agentapi.AnnotationDataGeneration]; now != "g0" {
				t.Errorf("clients were led to %s, it says, and not to g0", now)
			}
		}
	})
}
