//go:build postgres

package supervise

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/authority"
	"howdah.dev/howdah/test/testkit/pgtest"
)

func TestTheFirstStartMakesADatabaseForTheApplication(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	p.run()
	conn, err := p.connect("app", "first", "shop", "")
	if err != nil {
		t.Fatal(err, p.log)
	}
	if _, err := conn.Exec(t.Context(), "CREATE SCHEMA mine CREATE TABLE t (i int)"); err != nil {
		t.Errorf("the owner can't use its database: %v", err)
	}
	status := p.agent.Status()
	if status.Role != "primary" || status.Timeline != 1 || status.ConfigHash != p.config.Hash() || status.Version == "" || status.LSN == 0 || status.DataGeneration != "g1" {
		t.Errorf("status: %+v", status)
	}
	if _, err := p.connect("postgres", "first", "postgres", ""); err == nil {
		t.Error("the superuser came in over TCP")
	}
	if strings.Contains(p.log.String(), "SCRAM-SHA-256$") || strings.Contains(p.log.String(), "first") {
		t.Error("the log has a password or its verifier")
	}
}

func TestInitTwiceIsInitOnce(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	p := newPod(t)
	first := p.init("g1")
	if again := p.init("g1"); again != first {
		t.Errorf("the second run made %+v of %+v", again, first)
	}
	if id, err := p.Volume.Current(); id != "g1" || err != nil {
		t.Errorf("current is %q, %v", id, err)
	}
	if _, err := p.Volume.Begin("g2"); err != nil { // as a killed run leaves it
		t.Fatal(err)
	}
	if made := p.init("g2"); made.SystemIdentifier == first.SystemIdentifier {
		t.Error("the second generation has the system identifier of the first")
	}
}

func TestAKilledPostmasterComesBack(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	p := newPod(t)
	p.run()
	before := p.pid()
	if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.await("come back", func() bool { return p.cameBack(before) })
	// Another instance may have been given the clients meanwhile, and this one must not take them back on its own.
	p.await("be where clients are sent", p.public.ready)
	if p.public.yielded() == 0 {
		t.Error("while it was down it kept the clients")
	}
}

func TestSIGTERMShutsDownCleanlyAndTellsClientsFirst(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	p.run()
	if err := p.terminate(20 * time.Second); err != nil {
		t.Errorf("it ended with: %v\n%s", err, p.log)
	}
	binDir, err := postgres.BinDir(t.Context(), postgres.Exec, p.config.MajorVersion)
	if err != nil {
		t.Fatal(err)
	}
	control, err := postgres.ReadControlData(t.Context(), postgres.Exec, binDir, p.Volume.PGData("g1"))
	if err != nil || !control.State.Clean() {
		t.Errorf("the data directory is %q, %v", control.State, err)
	}
	if told := p.public.all(); !slices.Equal(told, []bool{true, false}) {
		t.Errorf("clients were told %v", told)
	}
	p.run() // and again
}

func TestAServerThatDoesNotStopIsStoppedBeforeTheGraceEnds(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	p := newPod(t)
	p.grace = 15 * time.Second
	p.run()
	// A stopped process does not end by itself.
	if err := syscall.Kill(p.checkpointer(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	err := p.terminate(time.Minute)
	if took := time.Since(began); took > p.grace || err == nil {
		t.Errorf("it took %v and ended with %v", took, err)
	}
}

// checkpointer is the process that writes the last checkpoint.
func (p *pod) checkpointer() int {
	p.t.Helper()
	pid, err := strconv.Atoi(p.sql("SELECT pid::text FROM pg_stat_activity WHERE backend_type = 'checkpointer'"))
	if err != nil {
		p.t.Fatal(err)
	}
	return pid
}

func TestABadParameterIsRefusedAndTheOldOneStays(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	p := newPod(t)
	p.run()
	applied := p.config.Hash()
	for name, test := range map[string]struct{ parameter, value, want string }{
		"an unknown name":             {"no_such_parameter", "1", `unrecognized configuration parameter "no_such_parameter"`},
		"a value out of range":        {"work_mem", "1", "outside the valid range"},
		"a value of another type":     {"max_connections", "many", `invalid value for parameter "max_connections": "many"`},
		"a library that isn't there":  {"shared_preload_libraries", "no_such_library", "no_such_library"},
		"what is not the user's":      {"archive_command", "true", "can't set archive_command: the agent archives WAL"},
		"a combination that can't be": {"superuser_reserved_connections", "20", "must be less than"},
	} {
		t.Run(name, func(t *testing.T) {
			good := p.config
			p.configure(p.with(map[string]string{test.parameter: test.value}))
			status := p.awaitStatus("refuse it", func(s agentapi.Status) bool { return s.ConfigErrorHash == p.config.Hash() })
			if !strings.Contains(status.ConfigError, test.want) || status.ConfigHash != applied {
				t.Errorf("%+v", status)
			}
			if err := p.agent.Ready(t.Context()); err != nil {
				t.Errorf("the server is gone: %v", err)
			}
			p.configure(good)
			p.awaitStatus("forget the error", func(s agentapi.Status) bool { return s.ConfigError == "" })
		})
	}
}

func TestABadParameterDoesNotKeepTheNextStartFromTheOldOne(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	p := newPod(t)
	p.run()
	if err := p.terminate(20 * time.Second); err != nil {
		t.Fatal(err)
	}
	p.configure(p.with(map[string]string{"work_mem": "much"}))
	p.run()
	if status := p.agent.Status(); status.ConfigErrorHash != p.config.Hash() || !strings.Contains(status.ConfigError, "work_mem") {
		t.Errorf("%+v", status)
	}
}

func TestAParameterThatNeedsNoRestartIsAppliedAtOnce(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	p := newPod(t)
	p.run()
	pid := p.pid()
	p.configure(p.with(map[string]string{"work_mem": "7MB"}))
	p.awaitStatus("apply it", func(s agentapi.Status) bool { return s.ConfigHash == p.config.Hash() })
	if got := p.sql("SHOW work_mem"); got != "7MB" || p.pid() != pid {
		t.Errorf("work_mem is %s in process %d, which was %d", got, p.pid(), pid)
	}
}

func TestARestartIsShownAndDoneWhenAskedFor(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	p := newPod(t)
	p.run()
	pid := p.pid()
	p.configure(p.with(map[string]string{"max_connections": "25"}))
	// Who sees the configuration in effect sees what of it waits as well: a moment without would pass for the end of it.
	status := p.awaitStatus("apply it", func(s agentapi.Status) bool { return s.ConfigHash == p.config.Hash() })
	if !slices.Equal(status.PendingRestart, []string{"max_connections"}) {
		t.Errorf("%v waits for a restart", status.PendingRestart)
	}
	if begun, err := p.agent.Restart(t.Context(), agentapi.RestartRequest{ConfigHash: "another"}); begun || err != nil || p.pid() != pid {
		t.Errorf("a restart for another configuration: %v, %v", begun, err)
	}
	var asked errgroup.Group // more than once, as a controller does that hears nothing
	for range 3 {
		asked.Go(func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			_, err := p.agent.Restart(ctx, agentapi.RestartRequest{ConfigHash: p.config.Hash()})
			return err
		})
	}
	if err := asked.Wait(); err != nil {
		t.Fatal(err)
	}
	p.await("come back", func() bool { return p.cameBack(pid) && p.public.ready() })
	if got := p.sql("SHOW max_connections"); got != "25" {
		t.Errorf("max_connections is %s", got)
	}
	if status := p.agent.Status(); len(status.PendingRestart) != 0 {
		t.Errorf("%+v", status)
	}
	if restarts := strings.Count(p.log.String(), "restarting PostgreSQL"); restarts != 1 {
		t.Errorf("it was restarted %d times", restarts)
	}
	if begun, err := p.agent.Restart(t.Context(), agentapi.RestartRequest{ConfigHash: p.config.Hash()}); begun || err != nil {
		t.Errorf("a restart that nothing waits for: %v, %v", begun, err)
	}
}

func TestANewPasswordWorksAndTheOldOneDoesNot(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	p := newPod(t)
	p.run()
	p.write(p.AppDir+"/password", "second")
	p.await("take the new password", func() bool {
		_, err := p.connect("app", "second", "shop", "")
		return err == nil
	})
	if _, err := p.connect("app", "first", "shop", ""); err == nil {
		t.Error("the old password still works")
	}
}

func TestANewCertificateIsServedWithoutARestart(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	p := newPod(t)
	p.run()
	pid := p.pid()
	p.ca = authority.New(t)
	p.issueServer()
	p.await("serve the new certificate", func() bool {
		_, err := p.connect("app", "first", "shop", "")
		return err == nil
	})
	if p.pid() != pid {
		t.Error("the server was restarted")
	}
}

func TestAnUnusableGenerationIsShownAndNotStarted(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	half := p.config
	if _, err := p.Volume.Begin("half"); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		generation string
		major      int
		locked     bool
		want       string
	}{
		"one that isn't there":       {"nowhere", 0, false, "no such data generation"},
		"one that isn't whole":       {"half", 0, false, "not whole"},
		"one of another major":       {"g1", 99, false, "the cluster is to run 99"},
		"one that another agent has": {"g1", 0, true, "in use by another process"},
	} {
		t.Run(name, func(t *testing.T) {
			if test.locked {
				lock, err := p.Volume.Lock("g1")
				if err != nil {
					t.Fatal(err)
				}
				defer lock.Close()
			}
			config := half
			config.DataGeneration, config.MajorVersion = test.generation, test.major
			p.configure(config)
			p.start()
			status := p.awaitStatus("say it", func(s agentapi.Status) bool { return s.State == agentapi.StateFailed })
			if !strings.Contains(status.Message, test.want) || !p.agent.Started(t.Context()) || !p.agent.Alive() {
				t.Errorf("%+v", status)
			}
			if err := p.terminate(10 * time.Second); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAStalePIDFileIsRemoved(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	p := newPod(t)
	// Process 1 is alive here, and no PostgreSQL.
	p.write(p.Volume.PGData("g1")+"/postmaster.pid", "1\n"+p.Volume.PGData("g1")+"\n0\n5432\n\n\n\nready\n")
	p.run()
}

func TestKilledWorkersLeaveNothingBehind(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	p := newPod(t)
	if _, err := p.Volume.Begin("half"); err != nil {
		t.Fatal(err)
	}
	p.run()
	entries, err := p.Volume.List()
	if err != nil || !slices.ContainsFunc(entries, func(e generation.Entry) bool { return e.ID == "g1" }) || len(entries) != 1 {
		t.Errorf("%+v, %v", entries, err)
	}
}
