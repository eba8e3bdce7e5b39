package main

import (
	"os"
	"path/filepath"
	"testing"

	"howdah.dev/howdah/test/golden"
)

// TestRepositoriesOfEveryVersionAreListedVerifiedAndRestored reads those that are checked in.
func TestRepositoriesOfEveryVersionAreListedVerifiedAndRestored(t *testing.T) {
	versions, err := filepath.Glob("../../test/golden/testdata/v*")
	if err != nil || len(versions) == 0 {
		t.Fatalf("there are none: %v", err)
	}
	key := filepath.Join(t.TempDir(), golden.KeyName)
	if err := os.WriteFile(key, []byte(golden.Key), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, version := range versions {
		for name, flags := range map[string][]string{"plain": nil, "encrypted": {"--key-file", key}} {
			t.Run(filepath.Base(version)+" "+name, func(t *testing.T) {
				b := &testBucket{t: t, dir: filepath.Join(version, name)}
				b.wants(exitDone, []string{"demo/shop", golden.Full, golden.Changed}, append(flags, "list")...)
				b.wants(exitDone, []string{"ok       " + golden.Lineage + "/" + golden.Full, "WAL of " + golden.Lineage}, append(flags, "verify", "--all", "--wal")...)
				dir := filepath.Join(t.TempDir(), "restored")
				b.wants(exitDone, []string{"Restored " + golden.Lineage + "/" + golden.Changed}, append(flags, "restore", golden.Changed, "--target-dir", dir)...)
			})
		}
	}
}
