// Package bouncertest finds the PgBouncer of the test bed's image for tests: Debian's own may be older than what poolers need.
package bouncertest

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"howdah.dev/howdah/test/testkit/ociroot"
)

// Command runs PgBouncer, with the libraries of its image. A test is skipped where the image isn't built yet.
func Command(t testing.TB) []string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	archives, err := filepath.Glob(filepath.Join(cache, "howdah", "images", "pgbouncer-*.tar"))
	if err != nil {
		t.Fatal(err)
	}
	if len(archives) == 0 {
		t.Skip("the image of PgBouncer isn't there yet: build/bin/kube images pgbouncer builds it")
	}
	root := unpacked(t, archives[0])
	loaders, err := filepath.Glob(filepath.Join(root, "usr/lib/*-linux-gnu*/ld-linux*.so.*"))
	if err != nil || len(loaders) == 0 {
		t.Fatalf("no loader in %s: %v", root, err)
	}
	return []string{loaders[0], "--library-path", filepath.Dir(loaders[0]), filepath.Join(root, "usr/sbin/pgbouncer")}
}

// unpacked is the root of an image, made where it isn't there yet. Several tests may want it at once, and their users have to get there.
func unpacked(t testing.TB, archive string) string {
	t.Helper()
	root := filepath.Join(os.TempDir(), "howdah-"+strings.TrimSuffix(filepath.Base(archive), ".tar"))
	lock, err := os.Create(root + ".lock")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(root); err == nil {
		return root
	}
	if err := ociroot.Unpack(t.Context(), archive, root+".new"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(root+".new", root); err != nil {
		t.Fatal(err)
	}
	return root
}
