package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestInstallReplacesTheProgramInOneStep(t *testing.T) {
	from, dir := filepath.Join(t.TempDir(), "agent"), filepath.Join(t.TempDir(), "bin")
	for _, content := range []string{"old", "new"} {
		if err := os.WriteFile(from, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := install(from, dir); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(dir, "agent"))
		if err != nil || string(got) != content {
			t.Errorf("%q, %v", got, err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("it left %v, %v", entries, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "agent")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestAnAnnotationIsFoundAndUnquoted(t *testing.T) {
	content := "a=\"1\"\nhowdah.dev/data-generation=\"g1\"\nhowdah.dev/data-generation-2=\"x\"\nb=\"two\\nlines\"\n"
	for key, want := range map[string]string{"howdah.dev/data-generation": "g1", "b": "two\nlines", "c": ""} {
		if got := annotation(content, key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
}

func TestEveryCommandHasItsName(t *testing.T) {
	for _, path := range [][]string{{"install"}, {"init"}, {"run"}, {"backup"}, {"restore"}, {"upgrade", "check"}, {"upgrade", "run"}} {
		command, rest, err := root().Find(path)
		if err != nil || len(rest) != 0 || command.Name() != path[len(path)-1] {
			t.Errorf("%v: %v, %v", path, command.Name(), err)
		}
	}
}
