// Command inimage runs a program in the root of one of the test bed's images, for example a test against a PostgreSQL that
// this machine's Debian doesn't have:
//
//	go test -tags postgres -exec "build/bin/inimage ARCHIVE" ./pkg/postgres
//
// The program sees this machine's home, temporary files and tools, and the folder that it is started in.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"howdah.dev/howdah/test/testkit/ociroot"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: inimage ARCHIVE PROGRAM [ARGUMENT...]")
		os.Exit(2)
	}
	fmt.Fprintln(os.Stderr, "inimage:", become(os.Args[1], os.Args[2:]))
	os.Exit(1)
}

// become becomes the program, or says why it can't.
func become(archive string, command []string) error {
	root, err := unpacked(archive)
	if err != nil {
		return err
	}
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return err
	}
	runtime.LockOSThread() // mounts of its own are this thread's, and of what it becomes
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("get mounts of its own: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts to itself: %w", err)
	}
	if err := unix.Mount(root, root, "", unix.MS_BIND, ""); err != nil { // the root of a program is to be a mount itself
		return fmt.Errorf("mount %s: %w", root, err)
	}
	shared := []string{"/proc", "/dev", "/sys", "/tmp", "/usr/local", home}
	if top := module(here); !strings.HasPrefix(top, "/tmp/") && !strings.HasPrefix(top, home+"/") {
		shared = append(shared, top)
	}
	if err := ociroot.Share(root, shared...); err != nil {
		return err
	}
	if err := errors.Join(unix.Chroot(root), unix.Chdir(here)); err != nil {
		return fmt.Errorf("enter %s: %w", root, err)
	}
	return fmt.Errorf("run %s: %w", command[0], unix.Exec(command[0], command, append(os.Environ(), "HOWDAH_IN_IMAGE="+archive)))
}

// module is the top folder of the module that a folder lies in.
func module(folder string) string {
	for top := folder; top != "/"; top = filepath.Dir(top) {
		if _, err := os.Stat(filepath.Join(top, "go.work")); err == nil {
			return top
		}
	}
	return folder
}

// unpacked is the root of an image, made where it isn't there yet. Several tests may want it at once.
func unpacked(archive string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	root := filepath.Join(cache, "howdah", "roots", strings.TrimSuffix(filepath.Base(archive), ".tar"))
	if err := os.MkdirAll(filepath.Dir(root), 0o755); err != nil {
		return "", err
	}
	lock, err := os.Create(root + ".lock")
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	if _, err := os.Stat(root); err == nil {
		return root, nil
	}
	if err := ociroot.Unpack(context.Background(), archive, root+".new"); err != nil {
		return "", err
	}
	return root, os.Rename(root+".new", root)
}
