//go:build postgres

package basebackup

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/fault"
	"howdah.dev/howdah/pkg/objstore/folder"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// death is when a worker kills itself: in a phase, or before or after an operation on the store.
type death struct {
	Phase string
	Op    string
	Key   string // part of it
	After bool
}

func (d death) String() string {
	switch {
	case d.Phase != "":
		return "in the phase " + d.Phase
	case d.After:
		return "after the " + d.Op + " of " + d.Key
	}
	return "before the " + d.Op + " of " + d.Key
}

// doomed is the life of a worker in a process of its own.
type doomed struct {
	Death  death
	Volume generation.Volume
	Store  string // a folder
	DSN    string
	Task   agentapi.BackupJob
}

const doomedEnv = "HOWDAH_TEST_DOOMED"

func TestWorkerThatIsKilled(t *testing.T) {
	t.Parallel()
	text := os.Getenv(doomedEnv)
	if text == "" {
		t.Skip("only as a process of the test below")
	}
	life := doomed{}
	if err := json.Unmarshal([]byte(text), &life); err != nil {
		t.Fatal(err)
	}
	inner, err := folder.Open(life.Store)
	if err != nil {
		t.Fatal(err)
	}
	die := func(now bool) {
		if now {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	meant := func(c fault.Call) bool { return c.Op == life.Death.Op && strings.Contains(c.Key, life.Death.Key) }
	store := fault.New(inner, fault.Plan{
		Before: func(c fault.Call) error { die(meant(c) && !life.Death.After); return nil },
		After:  func(c fault.Call) error { die(meant(c) && life.Death.After); return nil },
	})
	worker := Worker{
		Volume: life.Volume, Store: store, Tool: "howdah test", WALTimeout: time.Minute,
		Connect: func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, life.DSN) },
		Report:  func(p job.Progress) { die(p.Phase == life.Death.Phase) },
	}
	_, err = worker.Run(t.Context(), life.Task)
	t.Fatalf("it came to its end, %v", err)
}

// kill runs a worker that is killed, and waits until the server has noticed.
func (h *history) kill(at death, store string) {
	h.t.Helper()
	life, err := json.Marshal(doomed{Death: at, Volume: h.volume, Store: store, DSN: h.DSN() + " application_name=doomed", Task: h.task})
	if err != nil {
		h.t.Fatal(err)
	}
	command := exec.Command(os.Args[0], "-test.run=^TestWorkerThatIsKilled$")
	command.Env = append(os.Environ(), doomedEnv+"="+string(life))
	output, err := command.CombinedOutput()
	if status, ok := command.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		h.t.Fatalf("the worker was not killed %s: %v\n%s", at, err, output)
	}
	for deadline := time.Now().Add(time.Minute); h.SQL("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'doomed'") != "0"; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			h.t.Fatal("the server keeps the session of a worker that is gone")
		}
	}
}

// left are the objects that a backup that isn't committed has in the store.
func (h *history) left(id string) (keys []string) {
	h.t.Helper()
	for info, err := range h.store.List(h.t.Context(), "lineages/", "") {
		if err != nil {
			h.t.Fatal(err)
		}
		if strings.Contains(info.Key, "/"+id+"/") {
			keys = append(keys, info.Key)
		}
	}
	return keys
}

var deaths = []death{
	{Phase: string(backup.Starting)},
	{Phase: string(backup.Copying)},
	{Op: "put", Key: "/claims/", After: true},
	{Op: "put", Key: "/packs/"},
	{Op: "put", Key: "/packs/", After: true},
	{Phase: string(backup.AwaitWAL)},
	{Op: "put", Key: "/backups/"},
	{Op: "put", Key: "/backups/", After: true},
}

// TestAWorkerThatIsKilledAtAnyStepIsFollowedByAWholeBackup kills real processes. What they have left goes when the controller
// asks the store, and when the next worker has done its work.
func TestAWorkerThatIsKilledAtAnyStepIsFollowedByAWholeBackup(t *testing.T) {
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	all := pgtest.Installed(t)
	place := t.TempDir()
	store, err := folder.Open(place)
	if err != nil {
		t.Fatal(err)
	}
	h := newHistoryIn(t, all[len(all)-1], seed(t), true, store)
	h.backup("")
	chosen := rand.IntN(4)
	for i, at := range deaths {
		if testing.Short() && i/2%4 != chosen { // pairs, which are others the next time
			continue
		}
		h.live()
		h.task.Parent = h.task.BackupID
		h.task.BackupID = "killed" + string(rune('a'+i))
		h.kill(at, place)
		_, err := backup.Committed(t.Context(), store, h.task.Lineage, h.task.BackupID)
		if committed := at.Key == "/backups/" && at.After; committed != (err == nil) || err != nil && !errors.Is(err, objstore.ErrNotFound) {
			t.Errorf("killed %s, the backup is %v", at, err)
		}
		if err != nil && i%2 == 0 { // as the controller does before another attempt, or instead of it
			if _, err := backup.Delete(t.Context(), store, h.task.Lineage, h.task.BackupID); err != nil {
				t.Fatal(err)
			}
			if left := h.left(h.task.BackupID); len(left) > 0 {
				t.Errorf("killed %s, it has left %v", at, left)
			}
		}
		result, err := h.worker(silent).Run(t.Context(), h.task)
		if err != nil || !result.Incremental {
			t.Fatalf("killed %s, the next one ended with %+v, %v", at, result, err)
		}
		h.onlyNeeded(at)
		if i%2 == 0 { // the next one points into its packs
			continue
		}
		want := contentsOf(t, h.Server)
		restored := h.restoreAt(h.task.BackupID)
		if got := contentsOf(t, restored); got != want {
			t.Errorf("killed %s, the next one restored\n%s\nwant\n%s\nafter\n%s", at, got, want, strings.Join(h.log, "\n"))
		}
		restored.Stop()
	}
}

// onlyNeeded makes sure that the last backup has in the store what its manifest names, and nothing else.
func (h *history) onlyNeeded(at death) {
	h.t.Helper()
	header, err := backup.ReadHeader(h.t.Context(), h.store, h.task.Lineage, h.task.BackupID)
	if err != nil {
		h.t.Fatal(err)
	}
	packs := 0
	for _, pack := range header.Packs {
		if pack.Backup == h.task.BackupID {
			packs++
		}
	}
	if left := h.left(h.task.BackupID); len(left) != packs+1 {
		h.t.Errorf("killed %s, there are %v besides the manifest and %d packs", at, left, packs)
	}
}
