package upgradejob

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestAnExtensionLeadsToTheVersionOfTheImageByItsScripts(t *testing.T) {
	scripts := []string{"geo--1.0.sql", "geo--1.0--1.1.sql", "geo--1.1--1.0.sql", "geo--1.1--2.0.sql", "geo--2.0--3.0--x.sql", "geology--3.0--2.0.sql", "geo--3.0--2.0.sql.old"}
	for name, c := range map[string]struct {
		control, from string
		in            string // of the share folder
		want          bool
	}{
		"the same version":               {"default_version = '2.0'", "2.0", "extension", true},
		"one script":                     {"default_version = '2.0'", "1.1", "extension", true},
		"two scripts":                    {"# geo\nDefault_Version = '2.0' # newest\nrelocatable = true\n", "1.0", "extension", true},
		"back":                           {"default_version = 1.0", "1.1", "extension", true},
		"no script":                      {"default_version = '2.0'", "3.0", "extension", false},
		"none leads there":               {"default_version = '3.0'", "1.0", "extension", false},
		"the image says no version":      {"relocatable = true", "3.0", "extension", true},
		"scripts in a folder of its own": {"default_version = '2.0'\ndirectory = 'geo'", "1.0", "geo", true},
	} {
		share := t.TempDir()
		if err := errors.Join(os.MkdirAll(filepath.Join(share, "extension"), 0o755), os.MkdirAll(filepath.Join(share, c.in), 0o755),
			os.WriteFile(filepath.Join(share, "extension/geo.control"), []byte(c.control), 0o644)); err != nil {
			t.Fatal(err)
		}
		for _, script := range scripts {
			if err := os.WriteFile(filepath.Join(share, c.in, script), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		files, err := filesOf([]string{"/nowhere", share}, "geo")
		if got := files.leads(c.from); err != nil || got != c.want {
			t.Errorf("%s: %t, %v: %+v", name, got, err, files)
		}
	}
	if _, err := filesOf([]string{"/nowhere"}, "geo"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of none: %v", err)
	}
}
