//go:build postgres

package replicate

import (
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"howdah.dev/howdah/test/testkit/pgtest"
)

// freeze stops a process, as one on a node that has gone, until the test ends.
func freeze(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) }) // it may be gone
}

func TestASilentReplicaIsDisconnectedSoonAndNoOtherClientOfReplication(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	nodes := replicated(t, pgtest.Installed(t)[0], 2)
	primary, replica := nodes[0], nodes[1]
	const count = "SELECT count(*)::text FROM pg_stat_replication WHERE application_name = "

	other := exec.CommandContext(t.Context(), primary.BinDir+"/pg_receivewal", "--directory="+t.TempDir(), "--status-interval=1",
		"--no-password", "--dbname="+primary.upstream().ConnInfo("pg_receivewal", "", "", replica.Paths))
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, "another client", func() bool { return primary.sql(count+"'pg_receivewal'") == "1" })
	freeze(t, other.Process.Pid)

	receiver, err := strconv.Atoi(replica.sql("SELECT pid::text FROM pg_stat_wal_receiver"))
	if err != nil {
		t.Fatal(err)
	}
	freeze(t, receiver)
	if got := primary.sql("SHOW wal_sender_timeout"); got != "1min" {
		t.Errorf("all clients of replication are disconnected after %s", got)
	}
	since := primary.Now()
	await(t, "the end of the replica's connection", func() bool { return primary.sql(count+"'"+replica.Pod+"'") == "0" })
	if after := primary.Now().Sub(since).Seconds(); after > 20 {
		t.Errorf("that took %.0f s", after)
	}
	if primary.sql(count+"'pg_receivewal'") != "1" {
		t.Error("the other client was disconnected, too")
	}
}
