package supervise

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWhichRepositoryWasThereBeforeIsReadFromItsFile(t *testing.T) {
	for name, c := range map[string]struct {
		file, want string
		fails      bool
	}{
		"nobody knows it": {"", "", false}, "it is known": {`{"identity":"0123"}`, "0123", false}, "it is torn": {`{"ident`, "", true},
	} {
		paths := Paths{ConfigFile: filepath.Join(t.TempDir(), "agent.json")}
		if c.file != "" {
			if err := os.WriteFile(filepath.Join(filepath.Dir(paths.ConfigFile), "repository.json"), []byte(c.file), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := paths.knownRepository(); got != c.want || (err != nil) != c.fails {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
