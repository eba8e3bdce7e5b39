package supervise

import (
	"context"
	"fmt"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/logicalslot"
	"howdah.dev/howdah/cmd/agent/internal/roles"
	"howdah.dev/howdah/pkg/agentapi"
)

const (
	declaredInterval = 3 * time.Minute // after which what somebody else has changed is put back
	declaredTime     = 10 * time.Minute
	maxDeclaredPause = time.Minute
	maxProblems      = 10 // in the status
)

// runDeclared keeps declared roles and databases as they are written, until ctx ends.
func (s *primaryServices) runDeclared(ctx context.Context) {
	defer s.set(func(status *agentapi.Status) { status.Declared = nil }) // it is another's to say then
	pause := time.Second
	for {
		next := declaredInterval
		if !s.keepDeclared(ctx) {
			next = pause
			pause = min(2*pause, maxDeclaredPause)
		}
		select {
		case <-ctx.Done():
			return
		case <-s.wakeups.declarations:
			pause = time.Second
		case <-time.After(next):
		}
	}
}

// keepDeclared makes everything as it is declared, and says whether it is.
func (s *primaryServices) keepDeclared(ctx context.Context) bool {
	in := s.latest.inputs() // and not those in the pod, which may have been refused
	if in.config.DataGeneration != s.copy.generation.DataGeneration() {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, declaredTime)
	defer cancel()
	source := roles.Source{ClusterUID: in.config.SpecUID, Generation: in.config.SpecGeneration}
	if in.config.Declared == nil {
		s.set(func(status *agentapi.Status) { status.Declared = nil })
		return roles.Undeclared(ctx, s.server, source) == nil
	}
	problems, err := roles.Declare(ctx, s.server, roles.Desired{
		Declared: *in.config.Declared, Source: source, Major: s.copy.generation.MajorVersion,
		Database: in.config.Database, Owner: in.config.Owner, Passwords: in.declared,
		Told: logicalslot.ToldBy(in.config),
	})
	if err != nil {
		if ctx.Err() == nil {
			s.Log.Warn("declared roles and databases can't be applied yet", "error", err)
		}
		return false
	}
	s.declare(in.config.Declared.Hash(), problems)
	return len(problems) == 0
}

// declare notes what became of what is declared.
func (s *primaryServices) declare(hash string, problems []string) {
	if more := len(problems) - maxProblems; more > 0 {
		problems = append(problems[:maxProblems:maxProblems], fmt.Sprintf("and %d more", more))
	}
	changed := s.set(func(status *agentapi.Status) {
		status.Declared = &agentapi.DeclaredStatus{Hash: hash, Problems: problems}
	})
	switch {
	case !changed:
	case len(problems) == 0:
		s.Log.Info("roles and databases are as declared")
	default:
		s.Log.Warn("not everything is as declared; trying again", "problems", problems)
	}
}
