package extensions

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"howdah.dev/howdah/pkg/postgres"
)

func TestImagesAreFoundWhicheverWayTheyAreLaidOut(t *testing.T) {
	for name, row := range map[string]struct {
		folders    []string
		major      int
		share, lib string
		says       string
	}{
		"none":                      {nil, 18, "", "", ""},
		"share and lib":             {[]string{"a/share/extension", "a/lib"}, 18, "$system:DIR/a/share", "$libdir:DIR/a/lib", ""},
		"SQL only":                  {[]string{"a/share/extension"}, 18, "$system:DIR/a/share", "", ""},
		"a library to preload":      {[]string{"a/lib"}, 18, "", "$libdir:DIR/a/lib", ""},
		"Debian's package":          {[]string{"a/usr/share/postgresql/18/extension", "a/usr/lib/postgresql/18/lib"}, 18, "$system:DIR/a/usr/share/postgresql/18", "$libdir:DIR/a/usr/lib/postgresql/18/lib", ""},
		"several":                   {[]string{"b/lib", "a/share/extension", "b/share/extension"}, 18, "$system:DIR/a/share:DIR/b/share", "$libdir:DIR/b/lib", ""},
		"an empty image":            {[]string{"a/share/extension", "empty"}, 18, "", "", "spec.postgresql.extensionImages[empty] has no extensions of PostgreSQL 18"},
		"of another version":        {[]string{"a/usr/share/postgresql/19/extension"}, 18, "", "", "needs share/extension and lib"},
		"no use to earlier servers": {[]string{"a/share/extension", "empty"}, 17, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "extensions")
			for _, folder := range row.folders {
				if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			found, err := Find(dir, row.major)
			if row.says != "" {
				if err == nil || !strings.Contains(err.Error(), row.says) {
					t.Errorf("it says %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, p := range found.Parameters() {
				got[p.Name] = strings.ReplaceAll(p.Value, dir, "DIR")
			}
			if got["extension_control_path"] != row.share || got["dynamic_library_path"] != row.lib {
				t.Errorf("%v", got)
			}
			if _, err := postgres.RenderConf(found.Parameters()); err != nil {
				t.Error(err)
			}
		})
	}
}
