package pgtest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// unprivileged is who PostgreSQL runs as: nil for ourselves; where we are root, the user postgres or
// nobody, as PostgreSQL refuses to run as root.
func unprivileged(t testing.TB) *syscall.Credential {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			return credential(t, u)
		}
	}
	t.Fatal("PostgreSQL refuses to run as root, and there is neither a user postgres nor nobody")
	return nil
}

func credential(t testing.TB, u *user.User) *syscall.Credential {
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// Dir makes a folder that PostgreSQL's user owns, with a path short enough for sockets. It is removed
// after the test.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pgtest")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	Own(t, dir)
	return dir
}

// Own gives everything below path to PostgreSQL's user.
func Own(t testing.TB, path string) {
	t.Helper()
	who := unprivileged(t)
	if who == nil {
		return
	}
	err := filepath.Walk(path, func(name string, _ os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(name, int(who.Uid), int(who.Gid))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Command is a program of this PostgreSQL, to be run as PostgreSQL's user with untranslated messages.
func (pg Installation) Command(ctx context.Context, t testing.TB, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(ctx, filepath.Join(pg.BinDir, name), args...)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "LC_ALL=C", "TZ=UTC", "HOME=/") // nobody's settings or certificates
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: unprivileged(t)}
	return cmd
}

// Run runs a program to its end and returns its standard output; it fails the test if that fails.
func (pg Installation) Run(t testing.TB, name string, args ...string) string {
	t.Helper()
	cmd := pg.Command(t.Context(), t, name, args...)
	out, err := cmd.Output()
	if err != nil {
		var stderr []byte
		if exit := (&exec.ExitError{}); errors.As(err, &exit) {
			stderr = exit.Stderr
		}
		t.Fatalf("%s: %v: %s", name, err, stderr)
	}
	return string(out)
}
