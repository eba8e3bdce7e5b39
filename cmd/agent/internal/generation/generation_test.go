package generation

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func begin(t *testing.T, v Volume, id string) {
	t.Helper()
	pgdata, err := v.Begin(id)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(pgdata, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(pgdata, "PG_VERSION"), []byte("17\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func complete(t *testing.T, v Volume, id string) {
	t.Helper()
	begin(t, v, id)
	g := Generation{ID: id, SystemIdentifier: "7", MajorVersion: 17, Origin: Initdb, CreatedAt: time.Unix(1, 0).UTC(), Maintenance: []string{MaintainStatistics}}
	if err := v.Complete(g); err != nil {
		t.Fatal(err)
	}
}

func TestAGenerationIsWholeOnlyWithItsFile(t *testing.T) {
	v := Volume(t.TempDir())
	if _, err := v.Read("a"); !errors.Is(err, ErrNotFound) {
		t.Errorf("before: %v", err)
	}
	begin(t, v, "a")
	if _, err := v.Read("a"); !errors.Is(err, ErrIncomplete) {
		t.Errorf("half: %v", err)
	}
	if err := v.Adopt("a"); !errors.Is(err, ErrIncomplete) {
		t.Errorf("adopting half of one: %v", err)
	}
	complete(t, v, "a")
	g, err := v.Read("a")
	if err != nil || g.MajorVersion != 17 || !slices.Equal(g.Maintenance, []string{"Statistics"}) {
		t.Errorf("whole: %+v, %v", g, err)
	}
	if _, err := v.Begin("a"); !errors.Is(err, ErrWhole) {
		t.Errorf("beginning a whole one again: %v", err)
	}
}

func TestBeginRemovesWhatAKilledRunLeft(t *testing.T) {
	v := Volume(t.TempDir())
	begin(t, v, "a")
	pgdata, err := v.Begin("a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(pgdata); !os.IsNotExist(err) {
		t.Errorf("PGDATA of the killed run: %v", err)
	}
}

// generation.json is written in one step, so no crash leaves it half written: it was whole once, and so was the data beside it.
func TestDataWhoseFileIsDamagedIsKept(t *testing.T) {
	v := Volume(t.TempDir())
	for _, id := range []string{"g0", "g1", "g1.c1"} {
		complete(t, v, id)
	}
	if err := v.Adopt("g1.c1"); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"g0", "g1.c1"} { // the previous data, which a person may want back, and what runs
		if err := os.WriteFile(filepath.Join(v.Dir(id), "generation.json"), make([]byte, 200), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := v.Begin(id); !errors.Is(err, ErrDamaged) {
			t.Errorf("beginning %s again: %v", id, err)
		}
	}
	if g, err := v.Resolve("g1"); !errors.Is(err, ErrDamaged) {
		t.Errorf("an older copy takes the place of what ran last: %+v, %v", g, err)
	}
	if _, err := v.Resolve("g0"); !errors.Is(err, ErrDamaged) {
		t.Errorf("the previous data: %v", err)
	}
	if err := v.Adopt("g1"); err != nil {
		t.Fatal(err)
	}
	if removed, err := v.RemoveIncomplete(); len(removed) > 0 || err != nil {
		t.Errorf("removed %v, %v", removed, err)
	}
	if removed, err := v.RemoveOldCopies("", time.Hour, time.Unix(0, 0)); len(removed) > 0 || err != nil {
		t.Errorf("removed at once: %v, %v", removed, err)
	}
	if removed, err := v.RemoveOldCopies("", time.Hour, time.Unix(3600, 0)); !slices.Equal(removed, []string{"g1.c1"}) || err != nil {
		t.Errorf("removed after an hour: %v, %v", removed, err)
	}
}

func TestACompleteGenerationKnowsWhatItIs(t *testing.T) {
	v := Volume(t.TempDir())
	begin(t, v, "a")
	if err := v.Complete(Generation{ID: "a", MajorVersion: 17}); !errors.Is(err, ErrIncomplete) {
		t.Errorf("without a system identifier: %v", err)
	}
}

func TestAdoptingMovesThePointer(t *testing.T) {
	v := Volume(t.TempDir())
	if _, err := v.Current(); !errors.Is(err, ErrNotFound) {
		t.Errorf("before: %v", err)
	}
	complete(t, v, "a")
	complete(t, v, "b")
	for _, id := range []string{"a", "b", "b", "a"} {
		if err := v.Adopt(id); err != nil {
			t.Fatal(err)
		}
		if got, err := v.Current(); got != id || err != nil {
			t.Errorf("current is %q, %v; want %s", got, err, id)
		}
	}
	content, err := os.ReadFile(filepath.Join(string(v), "current", "pgdata", "PG_VERSION"))
	if err != nil || string(content) != "17\n" {
		t.Errorf("through the pointer: %q, %v", content, err)
	}
}

func TestAnAdoptionThatWasKilledIsDoneAgain(t *testing.T) {
	v := Volume(t.TempDir())
	complete(t, v, "a")
	if err := os.Symlink("generations/x", filepath.Join(string(v), ".current.new")); err != nil {
		t.Fatal(err)
	}
	if err := v.Adopt("a"); err != nil {
		t.Fatal(err)
	}
}

func TestOnlyHalvesAreRemoved(t *testing.T) {
	v := Volume(t.TempDir())
	complete(t, v, "a")
	begin(t, v, "b")
	begin(t, v, "c")
	removed, err := v.RemoveIncomplete("c")
	if err != nil || !slices.Equal(removed, []string{"b"}) {
		t.Errorf("removed %v, %v", removed, err)
	}
	entries, err := v.List()
	if err != nil || len(entries) != 2 || !entries[0].Whole || entries[1].Whole || entries[0].Bytes == 0 {
		t.Errorf("left: %+v, %v", entries, err)
	}
}

func TestTheCurrentGenerationStays(t *testing.T) {
	v := Volume(t.TempDir())
	complete(t, v, "a")
	complete(t, v, "b")
	if err := v.Adopt("a"); err != nil {
		t.Fatal(err)
	}
	if err := v.Remove("a"); !errors.Is(err, ErrCurrent) {
		t.Errorf("removing the current one: %v", err)
	}
	if err := v.Remove("b"); err != nil {
		t.Error(err)
	}
}

func TestAnIDIsNoPath(t *testing.T) {
	v := Volume(t.TempDir())
	for _, id := range []string{"", ".", "..", "a/b", "../x", "-a", "a b"} {
		if _, err := v.Begin(id); !errors.Is(err, ErrName) {
			t.Errorf("%q: %v", id, err)
		}
		if err := v.Remove(id); !errors.Is(err, ErrName) {
			t.Errorf("remove %q: %v", id, err)
		}
	}
}

// as does something as another user, where the test runs as root, who may write everywhere. The thread that has become the other one is not used again.
func as(user uintptr, do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if os.Getuid() == 0 {
			runtime.LockOSThread()
			for _, call := range []uintptr{unix.SYS_SETRESGID, unix.SYS_SETRESUID} { // of this thread alone
				if _, _, errno := unix.RawSyscall(call, user, user, user); errno != 0 {
					panic(errno)
				}
			}
		}
		do()
	}()
	<-done
}

func TestAVolumeThatIgnoresTheGroupOfThePodSaysWhoHasToBeAbleToWriteToIt(t *testing.T) {
	root := t.TempDir()
	for path, mode := range map[string]os.FileMode{filepath.Dir(root): 0o755, root: 0o555} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	who, group := 0, 0
	as(65534, func() {
		_, err = Volume(root).Begin("a")
		who, group = os.Getuid(), os.Getgid()
	})
	want := fmt.Sprintf("The process runs with uid %d and gid %d, for which the volume must be writable, and its root belongs to uid %d and gid %d with mode 0555.", who, group, os.Getuid(), os.Getgid())
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "permission denied. "+want) {
		t.Errorf("%v, want %s", err, want)
	}
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(root, "generations"), 0o555); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() != 0 { // the volume is writable, and what isn't was made so by somebody
		if _, err := Volume(root).Begin("a"); !errors.Is(err, fs.ErrPermission) || strings.Contains(err.Error(), "fsGroup") {
			t.Errorf("%v", err)
		}
	}
}
