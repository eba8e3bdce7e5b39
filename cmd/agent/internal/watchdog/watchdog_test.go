package watchdog

import (
	"fmt"
	"io"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// watched runs a watchdog; what it kills comes out of the channel.
func watched(t *testing.T) (io.WriteCloser, <-chan string, <-chan error) {
	t.Helper()
	in, out := io.Pipe()
	killed, ended := make(chan string, 1000), make(chan error, 1)
	go func() { ended <- Watch(in, Now, func(dir string, _ time.Duration) { killed <- dir }) }()
	t.Cleanup(func() { out.Close() })
	return out, killed, ended
}

func permit(t *testing.T, out io.Writer, until time.Duration, dir string) {
	t.Helper()
	if _, err := fmt.Fprintf(out, "%d %s\n", int64(until), dir); err != nil {
		t.Fatal(err)
	}
}

func TestAServerWhosePermissionRunsOutIsKilledUntilThereIsANewOne(t *testing.T) {
	out, killed, _ := watched(t)
	began := Now()
	permit(t, out, began+50*time.Millisecond, "/data one")
	for range 2 {
		if dir := <-killed; dir != "/data one" {
			t.Errorf("killed %q", dir)
		}
	}
	if early := Now() - began; early < 50*time.Millisecond {
		t.Errorf("killed after %v", early)
	}
	permit(t, out, Now()+time.Hour, "/data")
	permit(t, out, Now()+time.Hour, "/data") // taken when the one before is in force
	for len(killed) > 0 {
		<-killed
	}
	permit(t, out, Now()+2*time.Hour, "/data")
	if len(killed) > 0 {
		t.Error("killed although it may continue")
	}
}

func TestAWatchdogThatIsLateSaysSo(t *testing.T) {
	in, out := io.Pipe()
	t.Cleanup(func() { out.Close() })
	delays := make(chan time.Duration, 1000)
	go func() { _ = Watch(in, Now, func(_ string, late time.Duration) { delays <- late }) }()
	permit(t, out, Now()-time.Minute, "/data")
	if late := <-delays; late < time.Minute {
		t.Errorf("late by %v", late)
	}
}

func TestTheEndOfTheAgentIsTheEndOfItsServer(t *testing.T) {
	out, killed, ended := watched(t)
	permit(t, out, Now()+time.Hour, "/data")
	out.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if dir := <-killed; dir != "/data" {
		t.Errorf("killed %q", dir)
	}
}

func TestAWatchdogThatWasToldNothingKillsNothing(t *testing.T) {
	out, killed, ended := watched(t)
	out.Close()
	if err := <-ended; err != nil || len(killed) > 0 {
		t.Error(err, len(killed))
	}
}

// Where the watchdog itself is kept from its work, the thread of each processor kills.
func TestEachProcessorHasAGuardThatKillsWhatMayLongNotRun(t *testing.T) {
	var calls atomic.Int32
	g := &guards{now: Now, kill: func(dir string, late time.Duration) {
		if dir != "/data" || late < time.Minute {
			t.Errorf("killed %q, late by %v", dir, late)
		}
		calls.Add(1)
		runtime.Goexit() // the thread ends with its first kill
	}}
	t.Cleanup(func() { g.ended.Store(true) })
	g.newest.Store(&permission{until: Now() - time.Minute, dir: "/data"})
	g.start()
	for deadline := time.Now().Add(time.Minute); int(calls.Load()) < len(processors()); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d guards of %d processors have killed", calls.Load(), len(processors()))
		}
	}
}

func TestAGuardLeavesItToTheWatchdogToBePunctual(t *testing.T) {
	g := &guards{kill: func(string, time.Duration) { t.Error("killed") }}
	g.now = func() time.Duration {
		g.ended.Store(true) // after this look
		return time.Hour
	}
	g.newest.Store(&permission{until: time.Hour - Punctual, dir: "/data"})
	done := make(chan struct{})
	go func() {
		g.guard(processors()[0])
		close(done)
	}()
	<-done
}
