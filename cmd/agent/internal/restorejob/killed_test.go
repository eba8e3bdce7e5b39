//go:build postgres

package restorejob

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/fault"
	"howdah.dev/howdah/pkg/objstore/folder"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

// doomed is the life of a worker in a process of its own.
type doomed struct {
	Volume            generation.Volume
	Store             string // a folder
	SocketDir, RunDir string
	Task              agentapi.RestoreJob
	// Death is the step at which it kills itself; empty: none.
	Death string
	// Steps is a file that takes the names of its steps, each when it comes first.
	Steps string
}

const doomedVariable = "HOWDAH_TEST_DOOMED"

// steps are what a worker has come to.
type steps struct {
	doomed
	mu   sync.Mutex
	seen map[string]bool
}

// to is called at each step. What comes often, such as reads of one folder, is one step.
func (s *steps) to(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[name] {
		return
	}
	s.seen[name] = true
	f, err := os.OpenFile(s.Steps, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, _ = fmt.Fprintln(f, name)
		_ = f.Close()
	}
	if name == s.Death {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

// handler tells of the steps that only the log has.
type handler struct {
	slog.Handler
	steps *steps
}

func (h handler) Handle(_ context.Context, r slog.Record) error {
	words := strings.Fields(r.Message) // of PostgreSQL's, which have numbers and names after them
	h.steps.to("said: " + strings.Join(words[:min(3, len(words))], " "))
	return nil
}

func (h handler) Enabled(context.Context, slog.Level) bool { return true }
func (h handler) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h handler) WithGroup(string) slog.Handler            { return h }

func TestWorkerThatIsKilled(t *testing.T) {
	t.Parallel()
	text := os.Getenv(doomedVariable)
	if text == "" {
		t.Skip("only as a process of the test below")
	}
	s := &steps{seen: map[string]bool{}}
	if err := json.Unmarshal([]byte(text), &s.doomed); err != nil {
		t.Fatal(err)
	}
	inner, err := folder.Open(s.Store)
	if err != nil {
		t.Fatal(err)
	}
	call := func(when string) func(fault.Call) error {
		return func(c fault.Call) error {
			s.to(when + " " + c.Op + " in " + path.Dir(c.Key))
			return nil
		}
	}
	times := 0
	worker := Worker{
		Volume: s.Volume, SocketDir: s.SocketDir, RunDir: s.RunDir, WAL: os.Getenv(walVariable), Run: postgres.Exec,
		OpenStore: func(context.Context, objstore.Config) (objstore.Store, error) {
			return fault.New(inner, fault.Plan{Before: call("before"), After: call("after")}), nil
		},
		Now: func() time.Time { // the last time is asked for between the two files that complete it
			times++
			s.to(fmt.Sprintf("time %d", times))
			return time.Now()
		},
		Report: func(p job.Progress) { s.to("phase " + p.Phase) },
		Log:    slog.New(handler{slog.DiscardHandler, s}),
	}
	if _, err := worker.Restore(t.Context(), s.Task); err != nil {
		t.Fatal(err)
	}
}

// live runs a worker in a process of its own, and waits until nothing of it is left. It says whether it was killed.
func (b *bed) live(life doomed) (killed bool) {
	b.t.Helper()
	life.SocketDir, life.RunDir = pgtest.Dir(b.t), pgtest.Dir(b.t)
	text, err := json.Marshal(life)
	b.must(err)
	command := exec.Command(os.Args[0], "-test.run=^TestWorkerThatIsKilled$")
	command.Env = append(os.Environ(), doomedVariable+"="+string(text))
	command.WaitDelay = time.Second // what it leaves behind has its output open
	output, err := command.CombinedOutput()
	status, _ := command.ProcessState.Sys().(syscall.WaitStatus)
	if killed = status.Signal() == syscall.SIGKILL && status.Signaled(); !killed && err != nil {
		b.t.Fatalf("a worker that was to die at %q: %v\n%s", life.Death, err, output)
	}
	for deadline := time.Now().Add(time.Minute); quit(string(life.Volume)) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.t.Fatalf("PostgreSQL continues after its worker was killed at %q", life.Death)
		}
	}
	return killed
}

// quit ends what works in a folder below that one, as the end of a pod does, and says how many there were.
func quit(dir string) (found int) {
	links, _ := filepath.Glob("/proc/[0-9]*/cwd") // fails on a bad pattern only
	for _, link := range links {
		cwd, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(cwd, dir+"/") {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link))); err == nil && syscall.Kill(pid, syscall.SIGQUIT) == nil {
			found++
		}
	}
	return found
}

// TestAWorkerThatIsKilledAtAnyStepLeavesThePreviousDataOrWholeData kills one worker after the other on one volume, each at the next
// step: the restored generation is not there before it is whole, and the previous one is as it was as long as it is there.
func TestAWorkerThatIsKilledAtAnyStepLeavesThePreviousDataOrWholeData(t *testing.T) {
	subset.OneIn(t, 2)
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	installed := pgtest.Installed(t)
	b := newBed(t, installed[len(installed)-1])
	b.rows(1, 100)
	b.backup()
	b.rows(121, 140)
	b.archive()
	b.stop()
	for name, discards := range map[string]bool{"in place": false, "in place, and the previous data is given up": true} {
		t.Run(name, func(t *testing.T) {
			b, task := b.at(t), b.task(agentapi.RestoreTarget{})
			task.InPlace = true
			if discards {
				b.discards(&task)
			}
			life := doomed{Volume: b.volumeOf(strings.TrimSuffix(b.lineage, "-g0")), Store: b.storeInFolder(), Task: task, Steps: filepath.Join(t.TempDir(), "steps")}
			all := b.stepsOf(life)
			if len(all) < 12 {
				t.Fatalf("only %d steps: %v", len(all), all)
			}
			if testing.Short() { // every sixth one, which are others the next time
				turn := rand.IntN(6)
				all = slices.DeleteFunc(all, func(string) bool { turn = (turn + 1) % 6; return turn > 0 })
			}
			missed := 0
			for _, life.Death = range all {
				if !b.live(life) { // there is a step or two that doesn't come each time
					missed++
					b.must(life.Volume.Remove("g1"))
				}
				b.between(life)
			}
			t.Logf("killed at %d of %d steps: %s", len(all)-missed, len(all), strings.Join(all, "; "))
			if missed > len(all)/4 {
				t.Errorf("%d steps did not come again", missed)
			}
			o := b.restoreOn(life.Volume, b.store, task)
			if first, last, count := b.rowsIn(o); first != 1 || last != 140 || count != 140 {
				t.Errorf("rows %d to %d, %d of them", first, last, count)
			}
			if discards {
				b.onlyHas(life.Volume, "g1")
			} else if before, err := life.Volume.Current(); before != "g0" || err != nil {
				t.Errorf("current is %q, %v", before, err)
			}
		})
	}
}

// stepsOf a worker that lives, on a volume of its own.
func (b *bed) stepsOf(life doomed) []string {
	b.t.Helper()
	life.Volume, life.Steps = b.volumeOf(strings.TrimSuffix(b.lineage, "-g0")), filepath.Join(b.t.TempDir(), "all")
	b.live(life)
	content, err := os.ReadFile(life.Steps)
	b.must(err)
	return strings.Split(strings.TrimSpace(string(content)), "\n")
}

// lastStep comes when all is done.
const lastStep = "phase " + phaseCompleted

// between judges the volume after a worker has died.
func (b *bed) between(life doomed) {
	b.t.Helper()
	whole := life.Volume.Whole("g1")
	if whole != (life.Death == lastStep) {
		b.t.Errorf("after %q: the generation is whole: %t", life.Death, whole)
	}
	current, err := life.Volume.Current()
	switch {
	case errors.Is(err, generation.ErrNotFound) && life.Task.DiscardPrevious != "": // nothing is started on what is left of it
	case err != nil || current != "g0" || !life.Volume.Whole("g0"):
		b.t.Errorf("after %q: current is %q, %v", life.Death, current, err)
	default:
		b.isData("g0", life)
	}
	if whole {
		b.isData("g1", life)
	}
}

// isData says whether PostgreSQL knows a generation for data that was shut down, or was copied while it ran.
func (b *bed) isData(id string, life doomed) {
	b.t.Helper()
	control, err := postgres.ReadControlData(b.t.Context(), postgres.Exec, b.server.BinDir, life.Volume.PGData(id))
	if err != nil || id == "g1" && control.State != postgres.StateShutDown {
		b.t.Errorf("after %q: %s: %+v, %v", life.Death, id, control, err)
	}
}

// storeInFolder is a copy of the store that other processes can read.
func (b *bed) storeInFolder() string {
	b.t.Helper()
	dir := pgtest.Dir(b.t)
	store, err := folder.Open(dir)
	b.must(err)
	for info, err := range b.store.List(b.t.Context(), "", "") {
		b.must(err)
		body, err := b.store.Get(b.t.Context(), info.Key, 1<<30)
		b.must(err)
		b.must(store.Put(b.t.Context(), info.Key, body, objstore.PutOptions{}))
	}
	return dir
}
