package upgradejob

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// tree writes files below a folder; a value that begins with -> is a link.
func tree(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, isLink := cutArrow(content); isLink {
			err = os.Symlink(target, path)
		} else {
			err = os.WriteFile(path, []byte(content), 0o755) // a program
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func cutArrow(content string) (string, bool) {
	if len(content) > 2 && content[:2] == "->" {
		return content[2:], true
	}
	return content, false
}

func TestWhatPostgreSQLNeedsOfAnImageIsCopiedAndNothingElse(t *testing.T) {
	root, to := t.TempDir(), t.TempDir()
	tree(t, root, map[string]string{
		"lib":                                  "->usr/lib", // as in Debian
		"usr/lib/postgresql/17/bin/postgres":   "program",
		"usr/share/postgresql/17/postgres.bki": "catalogue",
		"usr/lib/x86_64-linux-gnu/libc.so.6":   "library",
		"usr/lib/x86_64-linux-gnu/libx.so":     "->libc.so.6",
		"usr/lib/locale/C.utf8/LC_CTYPE":       "locale",
		"usr/share/doc/large":                  "text",
		"etc/secret":                           "secret",
	})
	for range 2 { // the container may be started again
		if err := CopyImage(root, to); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		"usr/lib/postgresql/17/bin/postgres": "program", "usr/share/postgresql/17/postgres.bki": "catalogue",
		"usr/lib/x86_64-linux-gnu/libx.so": "library", "usr/lib/locale/C.utf8/LC_CTYPE": "locale",
	} {
		if got, err := os.ReadFile(filepath.Join(to, path)); err != nil || string(got) != want {
			t.Errorf("%s is %q, %v", path, got, err)
		}
	}
	for _, path := range []string{"usr/share/doc", "etc", "lib"} {
		if _, err := os.Lstat(filepath.Join(to, path)); err == nil {
			t.Errorf("%s is copied as well", path)
		}
	}
	if info, err := os.Stat(filepath.Join(to, "usr/lib/postgresql/17/bin/postgres")); err != nil || info.Mode().Perm()&0o111 == 0 {
		t.Errorf("the program can't be run: %v, %v", info, err)
	}
}

// TestACopiedLoaderRunsAProgram of this machine with the libraries that were copied along with it.
func TestACopiedLoaderRunsAProgram(t *testing.T) {
	to := t.TempDir()
	if err := CopyImage("/", to); err != nil {
		t.Fatal(err)
	}
	loader, libraries, err := oldImage{root: to}.loader()
	if err != nil {
		t.Skip("this machine isn't like an image: ", err)
	}
	out, err := exec.Command(loader, "--library-path", libraries, "/bin/ls", to).CombinedOutput()
	if err != nil || string(out) == "" {
		t.Errorf("%v: %s", err, out)
	}
}
