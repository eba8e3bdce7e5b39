//go:build emulated

// Package emulated runs the programs for arm64 on a machine of another kind, in qemu's emulation of the processor. It is a smoke test:
// what they do is tested where they run natively.
package emulated

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	root    = "../.."
	version = "0.0.1-emulated"
)

// withoutVersion has no flag for it: it is what archive_command runs.
const withoutVersion = "wal"

func TestEachProgramForARM64Starts(t *testing.T) {
	emulator, err := exec.LookPath("qemu-aarch64")
	if err != nil {
		t.Fatal("qemu-aarch64 is not installed: it is in Debian's package qemu-user")
	}
	programs := programs(t)
	folder := build(t, programs)
	for _, name := range programs {
		t.Run(name, func(t *testing.T) {
			out, err := exec.CommandContext(t.Context(), emulator, filepath.Join(folder, name), "--version").CombinedOutput()
			says, fails := version, err != nil
			if name == withoutVersion {
				says, fails = "usage: wal archive", err == nil
			}
			if fails || !strings.Contains(string(out), says) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// programs of a release: all but the one that makes it.
func programs(t *testing.T) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(root, "cmd"))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.Name() != "howdah-images" {
			names = append(names, entry.Name())
		}
	}
	if len(names) < 9 {
		t.Fatalf("programs: %v", names)
	}
	return names
}

func build(t *testing.T, programs []string) string {
	t.Helper()
	folder := t.TempDir()
	args := []string{"build", "-trimpath", "-ldflags=-s -w -X main.version=" + version, "-o", folder + "/"}
	for _, name := range programs {
		args = append(args, "./cmd/"+name)
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return folder
}
