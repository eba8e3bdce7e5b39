package walsocket

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// shelf archives into and fetches from a folder.
type shelf struct{ dir string }

func (s shelf) Archive(_ context.Context, path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.dir, filepath.Base(path)), content, 0o600)
}

func (s shelf) Fetch(_ context.Context, name, path string) error {
	content, err := os.ReadFile(filepath.Join(s.dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return ErrNotArchived
	}
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o600)
}

func serving(t *testing.T, handler Handler) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "s") // short, for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for range 2 { // what a dead process left is replaced
		listener, err := Listen(dir)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- Serve(ctx, listener, handler) }()
		t.Cleanup(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
	return dir
}

func TestAFileGoesThereAndBack(t *testing.T) {
	dir := serving(t, shelf{t.TempDir()})
	here := filepath.Join(t.TempDir(), "000000010000000000000001")
	if err := os.WriteFile(here, []byte("wal"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Archive(t.Context(), dir, here); err != nil {
		t.Fatal(err)
	}
	there := filepath.Join(t.TempDir(), "RECOVERYXLOG")
	if err := Fetch(t.Context(), dir, filepath.Base(here), there); err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(there); err != nil || string(content) != "wal" {
		t.Errorf("%q, %v", content, err)
	}
}

func TestOnlyAMissingFileIsMissing(t *testing.T) {
	dir := serving(t, shelf{t.TempDir()})
	target := filepath.Join(t.TempDir(), "x")
	if err := Fetch(t.Context(), dir, "000000010000000000000009", target); !errors.Is(err, ErrNotArchived) {
		t.Errorf("a file that isn't there: %v", err)
	}
	if err := Fetch(t.Context(), dir, "..", target); err == nil || errors.Is(err, ErrNotArchived) {
		t.Errorf("another error: %v", err)
	}
	if err := Fetch(t.Context(), t.TempDir(), "000000010000000000000009", target); err == nil || errors.Is(err, ErrNotArchived) {
		t.Errorf("nobody there: %v", err)
	}
}

func TestAnErrorComesBackAsItsSentence(t *testing.T) {
	dir := serving(t, shelf{t.TempDir()})
	err := Archive(t.Context(), dir, filepath.Join(t.TempDir(), "nothing"))
	if err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Error(err)
	}
}
