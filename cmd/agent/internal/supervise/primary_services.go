package supervise

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/archive"
	"howdah.dev/howdah/cmd/agent/internal/maintain"
	"howdah.dev/howdah/cmd/agent/internal/roles"
	"howdah.dev/howdah/pkg/agentapi"
)

const (
	rolesTime     = 2 * time.Minute
	maxRolesPause = 30 * time.Second
)

// primaryServices run beside a primary, in goroutines of their own, on what they were given when they started.
type primaryServices struct {
	*shared
	copy     *adopted
	archiver *archive.Archiver
	replicas *replicas
}

// run does what a running server needs beside its supervision, until ctx ends: roles and database, the word to
// clients that they may come, facts for the status.
func (s *primaryServices) run(ctx context.Context) {
	s.learn(ctx)
	led := make(chan struct{})
	go func() {
		defer close(led)
		s.replicas.run(ctx)
	}()
	defer func() { <-led }()
	s.resumeLogical(ctx) // before clients are told to come, and before what is declared is kept
	pause := time.Second
	again := s.keepRoles(ctx)
	told := s.announce(ctx) // whatever became of the roles: sessions are taken
	if ctx.Err() == nil {
		s.beginArchive(ctx)
	}
	var beside sync.WaitGroup
	beside.Go(func() { s.maintain(ctx) })
	beside.Go(func() { s.runDeclared(ctx) })
	beside.Go(func() { s.runDeclaredSlots(ctx) })
	beside.Go(func() { s.shipOpenSegment(ctx) })
	beside.Go(func() { s.judge(ctx) })
	beside.Go(func() { newDeepChecks(s.shared, s.copy, true).run(ctx) })
	defer beside.Wait()
	tick := time.NewTicker(factsInterval)
	defer tick.Stop()
	for {
		var retry <-chan time.Time
		if again {
			retry = time.After(pause)
			pause = min(2*pause, maxRolesPause)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.learn(ctx)
			told = told || s.announce(ctx)
			s.tidy()
			continue
		case <-retry:
		case <-s.wakeups.credentials:
			pause = time.Second
		}
		again = s.keepRoles(ctx)
	}
}

// announce tells clients to come if this is the primary, and says whether it did.
func (s *primaryServices) announce(ctx context.Context) bool {
	if status := s.Status(); ctx.Err() != nil || status.Role != rolePrimary || status.Closed != "" {
		return false
	}
	s.publisher.Set(true)
	s.publisher.Role(rolePrimary, false)
	return true
}

// maintenancePause is between two tries of maintenance that was kept from its work.
const maintenancePause = time.Minute

// maintainer does what the generation of a copy asks for.
func (i *instance) maintainer(copy *adopted) *maintain.Maintainer {
	return &maintain.Maintainer{
		Server: i.server, Generation: copy.generation, Dir: i.Volume.Dir(copy.generation.ID), BinDir: copy.binDir, Log: i.Log,
		MayBlock: func() bool { return i.mayBlock(time.Now()) },
		Report: func(left, messages []string) {
			i.set(func(status *agentapi.Status) { status.Maintenance, status.MaintenanceMessages = left, messages })
		},
	}
}

// maintain does what the generation asks for, in the background.
func (s *primaryServices) maintain(ctx context.Context) {
	maintainer := s.maintainer(s.copy)
	for {
		err := maintainer.Run(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		if !errors.Is(err, maintain.ErrLater) {
			s.Log.Error("maintenance is interrupted; trying again", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(maintenancePause):
		}
	}
}

// beginArchive has the first segment of a data generation archived at once, so that it shows early whether the archive
// works. It also reloads the configuration: a checkpointer that was started before the end of recovery sleeps through
// archive_timeout until something wakes it.
func (s *primaryServices) beginArchive(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, factsTime)
	defer cancel()
	err := s.probe.Ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `SELECT pg_reload_conf(),
			CASE WHEN archived_count = 0 AND NOT pg_is_in_recovery() THEN pg_switch_wal() END FROM pg_stat_archiver`)
		return err
	})
	if err != nil && ctx.Err() == nil {
		s.Log.Warn("the first WAL segment is not archived early", "error", err)
	}
}

// keepRoles makes roles and database what they should be, and says whether it has to be tried again.
func (s *primaryServices) keepRoles(ctx context.Context) (again bool) {
	in := s.latest.inputs()
	ctx, cancel := context.WithTimeout(ctx, rolesTime)
	defer cancel()
	err := roles.Ensure(ctx, s.server, roles.Wanted{
		Major: s.copy.generation.MajorVersion, Database: in.config.Database, Owner: in.config.Owner,
		Password: in.password, SuperuserPassword: in.super, FailoverDrill: in.config.FailoverDrill != "",
	})
	if err == nil {
		s.clearMessage(rolesMessage)
		return false
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return false
	}
	s.Log.Error("roles and databases are not as requested yet; trying again", "error", err)
	s.set(func(status *agentapi.Status) { status.Message = rolesMessage + sentence(err) })
	return true
}

const rolesMessage = "the application's role and database can't be created: "

func (i *instance) clearMessage(prefix string) {
	i.set(func(status *agentapi.Status) {
		if strings.HasPrefix(status.Message, prefix) {
			status.Message = ""
		}
	})
}
