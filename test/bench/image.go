package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"howdah.dev/howdah/test/testkit/ociroot"
)

// A PostgreSQL that this machine's Debian doesn't have runs in the root of one of the test bed's images, whose archive PG_IMAGE
// names. It sees the folders of this program, and has a pgBackRest of its own release.

// imageUser is postgres in the images.
const imageUser = 999

// unshared marks a process that has mounts of its own.
const unshared = "HOWDAH_BENCH_UNSHARED"

// enterOwnMounts starts this program again where what it mounts ends with it.
func enterOwnMounts() error {
	if os.Getenv("PG_IMAGE") == "" || os.Getenv(unshared) != "" {
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	program, err := exec.LookPath("unshare")
	if err != nil {
		return err
	}
	args := []string{program, "--mount", "--propagation", "private", self}
	args = append(args, os.Args[1:]...)
	return unix.Exec(program, args, append(os.Environ(), unshared+"=yes"))
}

// useImage unpacks the image, once, and makes the runner run everything in it.
func (b *bench) useImage(ctx context.Context, archive string) error {
	root := filepath.Join(b.folder, "root-"+strings.TrimSuffix(filepath.Base(archive), ".tar"))
	whole := filepath.Join(root, "whole") // made last
	if _, err := os.Stat(whole); err != nil {
		fmt.Printf("unpacking %s\n", archive)
		if err := ociroot.Unpack(ctx, archive, root); err != nil {
			return err
		}
	}
	if err := ociroot.Share(root, "/proc", "/dev", "/tmp", b.folder); err != nil {
		return err
	}
	b.runner = runner{root: root, uid: imageUser, gid: imageUser}
	if _, err := os.Stat(whole); err == nil || !slices.Contains(b.tools, toolPgBackRest) {
		return nil
	}
	if err := installInside(ctx, root); err != nil {
		return err
	}
	return os.WriteFile(whole, nil, 0o644)
}

func installInside(ctx context.Context, root string) error {
	for _, file := range []string{"/etc/resolv.conf", "/etc/hosts"} {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(root, file), content, 0o644); err != nil {
			return err
		}
	}
	for _, line := range []string{"apt-get update -q", "apt-get install -y -q --no-install-recommends " + toolPgBackRest} {
		cmd := exec.CommandContext(ctx, "chroot", append([]string{root}, strings.Fields(line)...)...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "PATH=/usr/sbin:/usr/bin:/sbin:/bin")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s in %s: %w: %s", line, root, err, out)
		}
	}
	return nil
}
