package pgtest

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// AsPostgres runs a copy of this test program, which lies in a folder of root's, as the user postgres, and returns its exit
// status. It is for a TestMain that is run by root: programs that start a server themselves refuse root. The programs of some packages
// are built beside it, where Beside finds them.
func AsPostgres(packages ...string) int {
	who, err := user.Lookup("postgres")
	if err != nil {
		fmt.Fprintln(os.Stderr, "as root, these tests need the user postgres:", err)
		return 1
	}
	uid, _ := strconv.Atoi(who.Uid) // digits on this system
	gid, _ := strconv.Atoi(who.Gid)
	dir, err := os.MkdirTemp("", "agent")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "agent")
	if err := copyProgram(program, uid, gid); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := build(dir, packages...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	args := slices.DeleteFunc(slices.Clone(os.Args[1:]), func(arg string) bool {
		return strings.HasPrefix(arg, "-test.testlogfile") // only root can write it
	})
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "HOME="+dir, "TMPDIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); err != nil {
		if cmd.ProcessState == nil {
			fmt.Fprintln(os.Stderr, err)
		}
		return 1
	}
	return 0
}

func build(dir string, packages ...string) error {
	for _, pkg := range packages {
		if out, err := exec.Command("go", "build", "-o", filepath.Join(dir, path.Base(pkg)), pkg).CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w: %s", pkg, err, out)
		}
	}
	return nil
}

// Beside is the program of a package, which AsPostgres has built; else it is built for this test.
func Beside(t testing.TB, pkg string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	beside := filepath.Join(filepath.Dir(self), path.Base(pkg))
	if _, err := os.Stat(beside); err == nil {
		return beside
	}
	dir := t.TempDir()
	if err := build(dir, pkg); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, path.Base(pkg))
}

func copyProgram(to string, uid, gid int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	from, err := os.Open(self)
	if err != nil {
		return err
	}
	defer from.Close()
	f, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, from); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Chown(filepath.Dir(to), uid, gid)
}
