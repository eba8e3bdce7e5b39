//go:build postgres

package upgradejob

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

// linkable is a volume with data generation g1 of a server that was stopped in order, and a worker for it whose old image is this machine,
// or the image of PostgreSQL 15.
func linkable(t *testing.T, pg pgtest.Installation) (Worker, agentapi.UpgradeJob) {
	t.Helper()
	return linkableOn(t, pg, generation.Volume(t.TempDir()))
}

func linkableOn(t *testing.T, pg pgtest.Installation, volume generation.Volume) (Worker, agentapi.UpgradeJob) {
	t.Helper()
	server := pgtest.Start(t, pgtest.Options{Major: pg.Major})
	server.SQL("CREATE TABLE t AS SELECT generate_series(1, 1000) AS n")
	server.Stop()
	pgdata, err := volume.Begin("g1")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(pgdata, os.DirFS(server.DataDir)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(pgdata, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := volume.Complete(generation.Generation{ID: "g1", SystemIdentifier: "1", MajorVersion: pg.Major, Origin: generation.Initdb}); err != nil {
		t.Fatal(err)
	}
	if err := volume.Adopt("g1"); err != nil {
		t.Fatal(err)
	}
	w := Worker{Volume: volume, OldRoot: "/", Scratch: shortDir(t), Run: postgres.Exec, Report: func(job.Progress) {}, Now: time.Now}
	return w, agentapi.UpgradeJob{FromVersion: pg.Major, ToVersion: pg.Major, FromGeneration: "g1", ToGeneration: "g2"}
}

// shared counts files of tables and indexes of the new data that the old data has as well.
func shared(t *testing.T, pgdata string) (n int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(pgdata, "base", "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		stat := unix.Stat_t{}
		if err := unix.Stat(path, &stat); err != nil {
			t.Fatal(err)
		}
		if stat.Nlink > 1 {
			n++
		}
	}
	return n
}

func TestALinkedUpgradeSharesFilesAndGivesTheOldDataUpFirst(t *testing.T) {
	subset.OneIn(t, 3)
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		w, task := linkable(t, pg)
		found, err := w.Inspect(t.Context(), task)
		if err != nil || !found.Primary || found.Replica || found.MajorVersion != pg.Major || found.Bytes == 0 {
			t.Fatalf("%+v: %v", found, err)
		}
		other := found.WALEnd
		other.Checkpoint = "0/1"
		task.Link = &other
		if _, err := w.Upgrade(t.Context(), task); reason(err) != ReasonNoWayBack || w.Volume.Rewinding("g1") {
			t.Fatalf("no replica has what is here, and it ended with %v", err)
		}
		task.Link = &found.WALEnd
		made, err := w.Upgrade(t.Context(), task)
		if err != nil || made.DataGeneration != "g2" || made.SystemIdentifier == strconv.Itoa(1) {
			t.Fatalf("%+v: %v", made, err)
		}
		if shared(t, w.Volume.PGData("g2")) == 0 {
			t.Error("no file is shared")
		}
		if w.Volume.Whole("g1") {
			t.Error("the old data may still be started")
		}
		if again, err := w.Upgrade(t.Context(), task); err != nil || again.DataGeneration != "g2" {
			t.Errorf("what is whole is not reported again: %+v, %v", again, err)
		}
		if _, err := w.Inspect(t.Context(), task); reason(err) != ReasonNoWayBack {
			t.Errorf("data that was given up leads back: %v", err)
		}
		if err := w.startAndStop(t.Context(), pg.BinDir, w.Volume.PGData("g2")); err != nil {
			t.Errorf("the new data: %v", err)
		}
		if err := w.Volume.Adopt("g2"); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Volume.Release("g1"); err != nil {
			t.Error(err)
		}
		if err := w.startAndStop(t.Context(), pg.BinDir, w.Volume.PGData("g2")); err != nil {
			t.Errorf("the new data once the old is removed: %v", err)
		}
	})
}

// TestWhatFailsBeforeFilesAreLinkedLeavesTheOldDataAsItWas, such as a volume on which there is no room for an empty database.
func TestWhatFailsBeforeFilesAreLinkedLeavesTheOldDataAsItWas(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	installed := pgtest.Installed(t)
	w, task := linkable(t, installed[len(installed)-1])
	found, err := w.Inspect(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	task.Link = &found.WALEnd
	full := errors.New("initdb: error: could not write to file: No space left on device")
	w.Run = func(ctx context.Context, program string, args ...string) ([]byte, error) {
		if filepath.Base(program) == "initdb" {
			return nil, full
		}
		return postgres.Exec(ctx, program, args...)
	}
	if _, err := w.Upgrade(t.Context(), task); !errors.Is(err, full) {
		t.Fatalf("it ended with %v", err)
	}
	if !w.Volume.Whole("g1") {
		t.Error("the old data was given up for nothing")
	}
	w.Run = postgres.Exec
	if again, err := w.Inspect(t.Context(), task); err != nil || again.WALEnd != found.WALEnd {
		t.Errorf("the old data ends at %+v instead of %+v: %v", again, found, err)
	}
	if made, err := w.Upgrade(t.Context(), task); err != nil || made.DataGeneration != "g2" {
		t.Errorf("once there is room: %+v, %v", made, err)
	}
}

func TestAJobThatWasKilledWhileItLinkedIsNotTriedAgain(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	installed := pgtest.Installed(t)
	w, task := linkable(t, installed[len(installed)-1])
	found, err := w.Inspect(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Volume.BeginRewind("g1"); err != nil { // by the former pod
		t.Fatal(err)
	}
	task.Link = &found.WALEnd
	if _, err := w.Upgrade(t.Context(), task); reason(err) != ReasonUpgradeFailed || !strings.Contains(err.Error(), "former pod") {
		t.Errorf("it ended with %v", err)
	}
}

func reason(err error) string {
	var failure *job.Failure
	if errors.As(err, &failure) {
		return failure.Reason
	}
	return ""
}
