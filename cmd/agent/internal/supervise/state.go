package supervise

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/api"
	"howdah.dev/howdah/cmd/agent/internal/archive"
	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/pkg/agentapi"
)

// State is what the agent knows, for those who ask.
type State struct {
	server local.Server
	probe  *local.Probe

	mu       sync.Mutex
	status   agentapi.Status
	archiver *archive.Archiver
	member   *election

	promotedAt    time.Time
	promotionTook time.Duration

	started   chan struct{} // closed when Started
	startOnce sync.Once
	lastBeat  time.Time
	patient   bool // something that may take long is being waited for
	probed    time.Time
	probeErr  error
	probeLock sync.Mutex // held while the server is asked
}

func newState(pod string) *State {
	return &State{status: agentapi.Status{Pod: pod, State: agentapi.StateStarting}, lastBeat: time.Now(), started: make(chan struct{})}
}

// set changes the status and says whether it is another one now.
func (s *State) set(change func(*agentapi.Status)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.status
	change(&s.status)
	if s.status.State == agentapi.StateFailed || s.status.State == agentapi.StateRunning && s.status.Role != "" {
		s.startOnce.Do(func() { close(s.started) })
	}
	return !reflect.DeepEqual(before, s.status)
}

func (s *State) setMember(e *election) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.member = e
}

// Election is the instance's part in it; nil: it has not begun.
func (s *State) Election() api.Election {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.member == nil {
		return nil
	}
	return s.member
}

func (s *State) setArchiver(a *archive.Archiver) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.archiver = a
}

// Status is a copy of what is known now.
func (s *State) Status() agentapi.Status {
	s.mu.Lock()
	status, archiver, elected := s.status, s.archiver, s.member
	promotedAt, took := s.promotedAt, s.promotionTook
	s.mu.Unlock()
	if elected != nil {
		if status.Election = elected.Status(); status.Election != nil {
			status.Election.PromotedAt, status.Election.PromotionSeconds = promotedAt, took.Seconds()
		}
	}
	status.PendingRestart = slices.Clone(status.PendingRestart)
	status.Maintenance = slices.Clone(status.Maintenance)
	status.MaintenanceMessages = slices.Clone(status.MaintenanceMessages)
	if archiver != nil {
		status.Archive = archiver.Status()
	}
	return status
}

// ArchiveCounts are how many files were archived and how many tries failed.
func (s *State) ArchiveCounts() (pushed, failures int64) {
	s.mu.Lock()
	archiver := s.archiver
	s.mu.Unlock()
	if archiver == nil {
		return 0, 0
	}
	return archiver.Counts()
}

// Server is where PostgreSQL answers.
func (s *State) Server() local.Server { return s.server }

const deadTime = time.Minute

// beat says that the supervisor continues.
func (s *State) beat() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastBeat = time.Now()
}

// waiting says that the supervisor waits for something that may take long, until the returned function is called.
func (s *State) waiting() (done func()) {
	set := func(patient bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.patient, s.lastBeat = patient, time.Now()
	}
	set(true)
	return func() { set(false) }
}

// Alive says whether the supervisor continues.
func (s *State) Alive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.patient || time.Since(s.lastBeat) < deadTime
}

// Started waits until the server has served once, or failed, and says whether it did before the context ended.
func (s *State) Started(ctx context.Context) bool {
	select {
	case <-s.started:
		return true
	default:
	}
	select {
	case <-s.started:
		return true
	case <-ctx.Done():
		return false
	}
}

const (
	probeTime = 3 * time.Second
	probeAge  = 500 * time.Millisecond // an answer that is younger is given again
)

// Ready says why the server doesn't serve; nil: it does. However many ask, one question at a time goes to the server.
func (s *State) Ready(ctx context.Context) error {
	status := s.Status()
	if status.State != agentapi.StateRunning {
		return errors.New("PostgreSQL is " + string(status.State))
	}
	if status.Role == "" {
		return errors.New("the role of this instance is not known yet")
	}
	s.probeLock.Lock()
	defer s.probeLock.Unlock()
	if time.Since(s.probed) < probeAge {
		return s.probeErr
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	s.probeErr = s.probe.Ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "SELECT 1")
		return err
	})
	s.probed = time.Now()
	return s.probeErr
}
