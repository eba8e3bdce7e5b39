//go:build postgres

package supervise

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

func finds(checks *agentapi.Checks, reason string) bool {
	return checks != nil && slices.ContainsFunc(checks.Found, func(f agentapi.LoadFinding) bool { return f.Reason == reason })
}

func TestAnInstanceChecksItselfDeeply(t *testing.T) {
	subset.OneIn(t, 3)
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	two, _ := newPair(t)
	var away atomic.Bool
	service := func(agentapi.Config) *settings.Upstream {
		to := &settings.Upstream{Pod: "shop-rw", Host: "localhost", Address: "localhost", Port: two.first.Port}
		if away.Load() {
			to.Port = pgtest.Port(t)
		}
		return to
	}
	for _, p := range []*pod{two.first, two.second} {
		p.service, p.checks = service, 50*time.Millisecond
	}
	two.run()
	done := func(s agentapi.Status, name string) bool {
		return s.Checks != nil && !s.Checks.Done[name].Time.IsZero() && !s.Checks.Done[name].Failed
	}
	two.second.awaitStatus("commit through the Service", func(s agentapi.Status) bool {
		return done(s, agentapi.CheckService) && done(s, agentapi.CheckDNS) && done(s, agentapi.CheckChecksums)
	})
	two.first.awaitStatus("end a round", func(s agentapi.Status) bool {
		return done(s, agentapi.CheckIndexes) && !s.Checks.RoundEnded.IsZero() && !finds(s.Checks, agentapi.FindingIndexDamaged) && !s.Checks.Damaged
	})
	away.Store(true)
	two.second.awaitStatus("miss the Service", func(s agentapi.Status) bool { return finds(s.Checks, agentapi.FindingServiceUnreachable) })
	away.Store(false)
	// A comparison that changes its mind is what a damaged index looks like. On a replica amcheck must be there already.
	two.first.sql(`CREATE FUNCTION public.compare(a int, b int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT pg_catalog.btint4cmp(a, b)'`)
	two.first.sql(`CREATE OPERATOR CLASS public.fickle FOR TYPE int USING btree AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 public.compare(int, int)`)
	two.first.sql(`CREATE TABLE public.t AS SELECT generate_series(1, 1000) AS n`)
	two.first.sql(`CREATE INDEX t_n ON public.t (n public.fickle)`)
	two.first.sql(`CREATE EXTENSION amcheck`)
	// Whoever can write a function could have replicas cloned again and again, if that was taken for damage.
	two.first.sql(`CREATE OR REPLACE FUNCTION public.compare(a int, b int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS
		$$BEGIN IF pg_is_in_recovery() THEN RAISE 'feigned' USING ERRCODE = 'XX002'; END IF; RETURN pg_catalog.btint4cmp(a, b); END$$`)
	two.second.awaitStatus("find the damage", func(s agentapi.Status) bool {
		return finds(s.Checks, agentapi.FindingReplicaDamaged) && s.Checks.Damaged && !finds(s.Checks, agentapi.FindingServiceUnreachable)
	})
	if checks := two.second.agent.Status().Checks; checks != nil && checks.DamageCertain {
		t.Errorf("an error that a function raises is taken for damage: %+v", checks)
	}
	// An order that the catalog has wrong is what a damaged index looks like to PostgreSQL's own functions.
	two.first.sql(`CREATE INDEX plain ON public.t (n)`)
	two.first.sql(`UPDATE pg_index SET indoption = '1' WHERE indexrelid = 'public.plain'::regclass`)
	two.second.awaitStatus("find damage for certain", func(s agentapi.Status) bool { return s.Checks != nil && s.Checks.DamageCertain })
	two.first.awaitStatus("find it, too", func(s agentapi.Status) bool { return finds(s.Checks, agentapi.FindingIndexDamaged) })
	config := two.first.config
	config.FailoverDrill = "uid"
	two.first.configure(config)
	two.first.await("leave the checks", func() bool {
		before := two.first.agent.Status().Checks.Done[agentapi.CheckIndexes].Time
		return time.Since(before) > 2*time.Second
	})
	config.FailoverDrill, config.DeepChecks = "", &agentapi.DeepChecks{Suspend: true}
	two.first.configure(config)
	two.first.awaitStatus("know nothing", func(s agentapi.Status) bool { return s.Checks == nil })
}

func TestTheCheckOfALargeIndexEndsWhenSomebodyWaitsForIt(t *testing.T) {
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	server := pgtest.Start(t, pgtest.Options{})
	here := local.Server{SocketDir: server.SocketDir, Port: 5432}
	open := func() *pgx.Conn {
		t.Helper()
		conn, err := here.Connect(t.Context(), "postgres")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		return conn
	}
	checks, other, looks := open(), open(), open()
	server.SQL("CREATE TABLE public.t (n int)")
	if _, err := checks.Exec(t.Context(), "BEGIN; LOCK TABLE public.t IN ACCESS SHARE MODE"); err != nil {
		t.Fatal(err)
	}
	look := func() (copying, waits bool, active int64) {
		t.Helper()
		if err := looks.QueryRow(t.Context(), underWay, []string{postgres.RoleBackup}, int32(checks.PgConn().PID())).Scan(&copying, &waits, &active); err != nil {
			t.Fatal(err)
		}
		return copying, waits, active
	}
	if copying, waits, active := look(); copying || waits || active != 0 {
		t.Errorf("%t, %t, %d", copying, waits, active)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := other.Exec(t.Context(), "BEGIN; LOCK TABLE public.t; ROLLBACK")
		ended <- err
	}()
	for began := time.Now(); ; {
		if _, waits, active := look(); waits && active == 1 {
			break
		}
		if time.Since(began) > 20*time.Second {
			t.Fatal("nobody waits")
		}
	}
	if _, err := checks.Exec(t.Context(), "ROLLBACK"); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
