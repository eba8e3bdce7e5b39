// Package extensions finds what the mounted images of spec.postgresql.extensionImages have, and says where servers look for it.
package extensions

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"howdah.dev/howdah/pkg/postgres"
)

// since is the first version whose servers find extensions outside of their own folders.
const since = 18

// Folders of the images, in the order of the images' names, with ':' between them. The zero value is that of a pod without any.
type Folders struct {
	// Share have a folder `extension` with control files and scripts.
	Share string
	// Lib have libraries.
	Lib string
}

// Find looks through the images that are mounted in dir, a folder each. An image has `share` and `lib`, or what a package of Debian
// installs. Earlier versions of PostgreSQL find nothing.
func Find(dir string, major int) (Folders, error) {
	images, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || major < since {
		return Folders{}, nil
	}
	if err != nil {
		return Folders{}, err
	}
	var allShare, allLib []string
	for _, image := range images {
		root := filepath.Join(dir, image.Name())
		share := have("extension", filepath.Join(root, "share"), filepath.Join(root, "usr/share/postgresql", fmt.Sprint(major)))
		lib := have(".", filepath.Join(root, "lib"), filepath.Join(root, "usr/lib/postgresql", fmt.Sprint(major), "lib"))
		if len(share)+len(lib) == 0 {
			return Folders{}, fmt.Errorf("the image of spec.postgresql.extensionImages[%s] has no extensions of PostgreSQL %d: "+
				"it needs share/extension and lib, or usr/share/postgresql/%[2]d/extension and usr/lib/postgresql/%[2]d/lib. "+
				"If it has them, the nodes can't mount images", image.Name(), major)
		}
		allShare, allLib = append(allShare, share...), append(allLib, lib...)
	}
	return Folders{Share: strings.Join(allShare, ":"), Lib: strings.Join(allLib, ":")}, nil
}

// have are the folders that have a folder of this name.
func have(name string, folders ...string) (all []string) {
	for _, folder := range folders {
		if info, err := os.Stat(filepath.Join(folder, name)); err == nil && info.IsDir() {
			all = append(all, folder)
		}
	}
	return all
}

// Parameters have a server look into its own folders first, so that no image replaces what PostgreSQL itself has.
func (f Folders) Parameters() []postgres.Parameter {
	params := map[string]string{}
	if f.Share != "" {
		params["extension_control_path"] = "$system:" + f.Share
	}
	if f.Lib != "" {
		params["dynamic_library_path"] = "$libdir:" + f.Lib
	}
	return postgres.ParameterList(params)
}

// Options are the same for pg_ctl, whose options a shell reads. The paths have no quotes: Kubernetes bounds the names of volumes.
func (f Folders) Options() string {
	var all strings.Builder
	for _, p := range f.Parameters() {
		fmt.Fprintf(&all, " -c '%s=%s'", p.Name, p.Value)
	}
	return all.String()
}
