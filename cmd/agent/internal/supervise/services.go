package supervise

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/maintain"
	"howdah.dev/howdah/cmd/agent/internal/roles"
	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

const (
	factsInterval = 5 * time.Second
	factsTime     = 10 * time.Second
	rolesTime     = 2 * time.Minute
	maxRolesPause = 30 * time.Second
)

// runServices does what a running server needs beside its supervision, until ctx ends: roles and database, the word to
// clients that they may come, facts for the status.
func (r *runner) runServices(ctx context.Context) {
	r.learn(ctx)
	led := make(chan struct{})
	go func() {
		defer close(led)
		r.lookAfterReplicas(ctx)
	}()
	defer func() { <-led }()
	pause := time.Second
	again := r.keepRoles(ctx)
	told := r.announce(ctx) // whatever became of the roles: sessions are taken
	if ctx.Err() == nil {
		r.beginArchive(ctx)
	}
	var beside sync.WaitGroup
	beside.Go(func() { r.maintain(ctx) })
	beside.Go(func() { r.runDeclared(ctx) })
	beside.Go(func() { r.shipOpenSegment(ctx) })
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
			r.learn(ctx)
			told = told || r.announce(ctx)
			continue
		case <-retry:
		case <-r.credentials:
			pause = time.Second
		}
		again = r.keepRoles(ctx)
	}
}

// announce tells clients to come if this is the primary, and says whether it did.
func (r *runner) announce(ctx context.Context) bool {
	if ctx.Err() != nil || r.Status().Role != rolePrimary {
		return false
	}
	r.publisher.Set(true)
	r.publisher.Role(rolePrimary)
	return true
}

const (
	rolePrimary = "primary"
	roleReplica = "replica"
)

// maintenancePause is between two tries of maintenance that was kept from its work.
const maintenancePause = time.Minute

func (r *runner) maintainer() *maintain.Maintainer {
	return &maintain.Maintainer{
		Server: r.server, Generation: r.adopted.generation, Dir: r.Volume.Dir(r.adopted.generation.ID), BinDir: r.adopted.binDir, Log: r.Log,
		Report: func(left, messages []string) {
			r.set(func(status *agentapi.Status) { status.Maintenance, status.MaintenanceMessages = left, messages })
		},
	}
}

// maintain does what the generation asks for, in the background.
func (r *runner) maintain(ctx context.Context) {
	maintainer := r.maintainer()
	for {
		err := maintainer.Run(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		r.Log.Error("maintenance is interrupted; trying again", "error", err)
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
func (r *runner) beginArchive(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, factsTime)
	defer cancel()
	err := r.probe.Ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `SELECT pg_reload_conf(),
			CASE WHEN archived_count = 0 AND NOT pg_is_in_recovery() THEN pg_switch_wal() END FROM pg_stat_archiver`)
		return err
	})
	if err != nil && ctx.Err() == nil {
		r.Log.Warn("the first WAL segment is not archived early", "error", err)
	}
}

// keepRoles makes roles and database what they should be, and says whether it has to be tried again.
func (r *runner) keepRoles(ctx context.Context) (again bool) {
	in := r.read()
	if in.err != nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, rolesTime)
	defer cancel()
	err := roles.Ensure(ctx, r.server, roles.Wanted{
		Major: r.adopted.generation.MajorVersion, Database: in.config.Database, Owner: in.config.Owner,
		Password: in.password, SuperuserPassword: in.super,
	})
	if err == nil {
		r.clearMessage(rolesMessage)
		return false
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return false
	}
	r.Log.Error("roles and database are not as they should be; trying again", "error", err)
	r.set(func(status *agentapi.Status) { status.Message = rolesMessage + sentence(err) })
	return true
}

const rolesMessage = "the application's role and database can't be created: "

func (r *runner) clearMessage(prefix string) {
	r.set(func(status *agentapi.Status) {
		if strings.HasPrefix(status.Message, prefix) {
			status.Message = ""
		}
	})
}

// learn asks the server what it is.
func (r *runner) learn(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, factsTime)
	defer cancel()
	var (
		replica  bool
		timeline int64
		version  int
	)
	err := r.probe.Ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT r, CASE WHEN r THEN (SELECT timeline_id FROM pg_catalog.pg_control_checkpoint())
			ELSE ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int END,
			current_setting('server_version_num')::int FROM pg_is_in_recovery() AS r`).Scan(&replica, &timeline, &version)
	})
	if err != nil {
		if ctx.Err() == nil {
			r.Log.Warn("PostgreSQL does not say what it is", "error", err)
		}
		return
	}
	role := rolePrimary
	if replica {
		role = roleReplica
	}
	r.set(func(status *agentapi.Status) {
		if status.State == agentapi.StateRunning {
			status.Role, status.Timeline, status.Version = role, timeline, postgres.VersionFromNum(version).String()
		}
	})
}

// isRefusal says that a configuration was refused, by PostgreSQL or before it saw it.
func isRefusal(err error) bool {
	return errors.Is(err, settings.ErrRefused) || errors.Is(err, postgres.ErrParameter) || errors.Is(err, postgres.ErrHBA)
}

// sentence is an error for a person, without the words that a status says by itself.
func sentence(err error) string {
	text := err.Error()
	for _, known := range []error{settings.ErrRefused, postgres.ErrParameter, postgres.ErrHBA} {
		text = strings.ReplaceAll(text, known.Error()+": ", "")
	}
	return strings.ReplaceAll(text, "\n", "; ")
}
