//go:build postgres

package supervise

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

// asks makes the generation one that asks for maintenance, as an upgrade's does.
func (p *pod) asks(work ...string) {
	p.t.Helper()
	g, err := p.Volume.Read("g1")
	if err != nil {
		p.t.Fatal(err)
	}
	g.Maintenance = work
	raw, err := json.Marshal(g)
	if err != nil {
		p.t.Fatal(err)
	}
	p.write(filepath.Join(p.Volume.Dir("g1"), "generation.json"), string(raw))
}

// The others are clones, which no upgrade has made.
func TestMaintenanceGoesOnAtTheNextPrimary(t *testing.T) {
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	two, _ := newPair(t)
	for _, p := range []*pod{two.first, two.second} {
		p.configure(p.with(map[string]string{"max_prepared_transactions": "5"}))
	}
	two.first.run()
	two.first.hold("CREATE TABLE public.words AS SELECT i FROM generate_series(1, 1000) i", "LOCK TABLE public.words")
	if err := two.first.terminate(30e9); err != nil {
		t.Fatal(err)
	}
	two.first.asks(generation.MaintainExtensions, generation.MaintainStatistics)
	two.run()
	waits := func(s agentapi.Status) bool {
		return s.State == agentapi.StateRunning && slices.Equal(s.Maintenance, []string{generation.MaintainStatistics})
	}
	two.first.awaitStatus("wait for the table", waits)
	two.first.awaitStatus("have a member", func(s agentapi.Status) bool { return s.Election != nil && len(s.Election.Members) == 1 })
	two.second.await("be told of it", func() bool {
		left, _ := two.second.agent.maintainer(&adopted{generation: generation.Generation{ID: two.second.current()}}).Pending()
		return slices.Equal(left, []string{generation.MaintainStatistics})
	})
	if got := two.first.agent.Election().Switchover(agentapi.SwitchoverRequest{Token: "t"}); got.State != agentapi.SwitchoverRunning {
		t.Fatalf("%+v", got)
	}
	two.second.awaitStatus("go on with it", waits)
	two.second.sql("ROLLBACK PREPARED 'busy'")
	two.second.awaitStatus("have done it", func(s agentapi.Status) bool { return s.State == agentapi.StateRunning && len(s.Maintenance) == 0 })
	if got := two.second.sql("SELECT reltuples::int::text FROM pg_class WHERE relname = 'words'"); got != "1000" {
		t.Errorf("the statistics know of %s rows", got)
	}
	two.first.await("be told that it is done", func() bool {
		left, _ := two.first.agent.maintainer(&adopted{generation: generation.Generation{
			ID: two.first.current(), Maintenance: []string{generation.MaintainExtensions, generation.MaintainStatistics},
		}}).Pending()
		return len(left) == 0
	})
}

// hold executes a statement, and another one in a transaction that stays prepared as busy.
func (p *pod) hold(statement, locks string) {
	p.t.Helper()
	p.sql(statement)
	err := p.agent.server.With(p.t.Context(), "postgres", func(conn *pgx.Conn) error {
		_, err := conn.Exec(p.t.Context(), "BEGIN; "+locks+"; PREPARE TRANSACTION 'busy'", pgx.QueryExecModeSimpleProtocol)
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

// leftAtPrimary is what the primary that this instance follows says is left; nil: it doesn't say, or there is none.
func (p *pod) leftAtPrimary() *agentapi.MaintenanceLeft {
	answer, answers := p.agent.Election().(*election).Leader()
	if !answers {
		return &agentapi.MaintenanceLeft{Work: []string{"no primary"}}
	}
	return answer.Maintenance
}

func (p *pod) toldFile() string {
	return filepath.Join(p.Volume.Dir(p.current()), "maintenance-left.json")
}

// A clone may have to take over before it has followed.
func TestACloneKnowsFromTheStartWhatIsLeft(t *testing.T) {
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	two, _ := newPair(t)
	for _, p := range []*pod{two.first, two.second} {
		p.configure(p.with(map[string]string{"max_prepared_transactions": "5"}))
	}
	two.first.run()
	two.first.hold("CREATE TABLE public.words AS SELECT i FROM generate_series(1, 1000) i", "LOCK TABLE public.words")
	if err := two.first.terminate(30e9); err != nil {
		t.Fatal(err)
	}
	two.first.asks(generation.MaintainStatistics)
	two.first.run()
	two.second.start()
	two.second.await("be cloned", func() bool { _, err := two.second.Volume.Current(); return err == nil })
	if content, err := os.ReadFile(two.second.toldFile()); err != nil || string(content) != `["Statistics"]` {
		t.Errorf("%s, %v", content, err)
	}
}

func TestAPrimaryThatWasNeverToldWhatIsLeftSaysNothingOfIt(t *testing.T) {
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	two, _ := newPair(t)
	two.run()
	two.first.awaitStatus("have a member", func(s agentapi.Status) bool { return s.Election != nil && len(s.Election.Members) == 1 })
	if got := two.first.agent.Election().Switchover(agentapi.SwitchoverRequest{Token: "t"}); got.State != agentapi.SwitchoverRunning {
		t.Fatalf("%+v", got)
	}
	two.second.awaitStatus("take over", func(s agentapi.Status) bool { return s.State == agentapi.StateRunning && s.Role == rolePrimary })
	two.first.await("be told that nothing is left", func() bool { left := two.first.leftAtPrimary(); return left != nil && len(left.Work) == 0 })
	if err := os.Remove(two.second.toldFile()); err != nil {
		t.Fatal(err)
	}
	two.first.await("be told nothing", func() bool { return two.first.leftAtPrimary() == nil })
}

func TestMaintenanceIsDoneOnceInTheBackground(t *testing.T) {
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	p := newPod(t)
	p.run()
	p.sql("CREATE EXTENSION hstore SCHEMA public VERSION '1.4'")
	p.sql("CREATE COLLATION public.german (provider = icu, locale = 'de')")
	p.sql("CREATE TABLE public.words (word text COLLATE public.german PRIMARY KEY)")
	p.sql("INSERT INTO public.words SELECT 'word' || i FROM generate_series(1, 1000) i")
	p.sql("UPDATE pg_collation SET collversion = '1' WHERE collname = 'german'") // as of an older ICU
	p.sql(pgtest.Unkind(p.config.MajorVersion, "postgres", "postgres"))
	p.sql("ALTER ROLE postgres SET statement_timeout = '1ms'")
	before := p.sql("SELECT relfilenode::text FROM pg_class WHERE relname = 'words_pkey'")
	if err := p.terminate(30e9); err != nil {
		t.Fatal(err)
	}
	p.asks(generation.MaintainExtensions, generation.MaintainStatistics)

	p.start()
	p.awaitStatus("show what is to be done", func(s agentapi.Status) bool {
		return s.State == agentapi.StateRunning && slices.Contains(s.Maintenance, generation.MaintainStatistics)
	})
	p.awaitStatus("do it", func(s agentapi.Status) bool { return s.State == agentapi.StateRunning && len(s.Maintenance) == 0 })
	if got := p.sql("SELECT extversion FROM pg_extension WHERE extname = 'hstore'"); got == "1.4" {
		t.Errorf("hstore is still %s", got)
	}
	if got := p.sql("SELECT reltuples::int::text FROM pg_class WHERE relname = 'words'"); got != "1000" {
		t.Errorf("the statistics know of %s rows", got)
	}
	if after := p.sql("SELECT relfilenode::text FROM pg_class WHERE relname = 'words_pkey'"); after == before {
		t.Error("the index was not rebuilt")
	}
	if got := p.sql("SELECT collversion FROM pg_collation WHERE collname = 'german'"); got == "1" {
		t.Error("the collation's version was not recorded")
	}
	if status := p.agent.Status(); len(status.MaintenanceMessages) != 0 {
		t.Errorf("%+v", status.MaintenanceMessages)
	}
	if err := p.terminate(30e9); err != nil {
		t.Fatal(err)
	}
	p.run()
	if strings.Count(p.log.String(), "maintenance begins") != 3 {
		t.Error("it was done again at the next start")
	}
}

func TestWhatMaintenanceCannotDoIsSaidAndKept(t *testing.T) {
	subset.OnlyInFull(t)
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	p := newPod(t)
	p.run()
	p.sql("CREATE EXTENSION hstore SCHEMA public")
	p.sql("UPDATE pg_extension SET extversion = 'unknown' WHERE extname = 'hstore'")
	if err := p.terminate(30e9); err != nil {
		t.Fatal(err)
	}
	p.asks(generation.MaintainExtensions)
	for range 2 {
		p.run()
		status := p.awaitStatus("say it", func(s agentapi.Status) bool { return len(s.Maintenance) == 0 && len(s.MaintenanceMessages) == 1 })
		if !strings.Contains(status.MaintenanceMessages[0], "extension hstore in database postgres can't be updated: extension") {
			t.Error(status.MaintenanceMessages)
		}
		if err := p.terminate(30e9); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(p.Volume.Dir("g1"), "maintenance.json")); err != nil {
		t.Error(err)
	}
}
