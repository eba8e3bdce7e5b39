package backup

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// written are files that a restore, or PostgreSQL when it is started on one, writes itself: no manifest may have them.
var written = map[string]bool{
	"backup_label": true, "tablespace_map": true, "backup_manifest": true, "recovery.signal": true, "standby.signal": true,
	"postmaster.pid": true,
}

// plain are names that files and folders may have, and links never, because they are opened by name later.
var plain = map[string]bool{
	"postgresql.auto.conf": true, "global": true, controlFile: true, "pg_wal": true, "pg_tblspc": true,
}

// tablespacePath is where PostgreSQL has the link to a tablespace.
var tablespacePath = regexp.MustCompile(`^pg_tblspc/[0-9]+$`)

// checkKind refuses a file that would make a restore write somewhere else than where it is told to.
func checkKind(f *File) error {
	switch {
	case written[f.Path]:
		return fmt.Errorf("%w: %s is a file that a restore writes itself", errManifest, f.Path)
	case f.Kind == Tablespace && !tablespacePath.MatchString(f.Path):
		return fmt.Errorf("%w: %q can't be a tablespace", errManifest, f.Path)
	case f.Kind == Symlink && !linkStays(f.Path, f.Link):
		return fmt.Errorf("%w: the link %q to %q could lead out of the data directory, or is in the place of a file", errManifest, f.Path, f.Link)
	}
	return nil
}

// linkStays says whether a link stays where it is restored: in the data directory or its tablespace, and away from names that
// must be plain. It may go up at its beginning only: after a name, which may be a link too, nobody knows where up leads.
func linkStays(name, target string) bool {
	if plain[name] || written[name] || strings.HasPrefix(name, "pg_wal/") || path.Dir(name) == "pg_tblspc" || target == "" || path.IsAbs(target) {
		return false
	}
	_, below := inTablespace(name)
	folders, named := strings.Count(below, "/"), false
	for step := range strings.SplitSeq(target, "/") {
		switch {
		case step == "" || step == ".":
		case step != "..":
			named = true
		case named || folders == 0:
			return false
		default:
			folders--
		}
	}
	return true
}

// checkLinks refuses links that lead out, and anything below a link: it would not be where its path says.
func checkLinks(files []File) error {
	links := map[string]bool{}
	for i := range files {
		if err := checkKind(&files[i]); err != nil {
			return err
		}
		if files[i].Kind == Symlink {
			links[files[i].Path] = true
		}
	}
	if len(links) == 0 {
		return nil
	}
	for i := range files {
		for folder := path.Dir(files[i].Path); folder != "."; folder = path.Dir(folder) {
			if links[folder] {
				return fmt.Errorf("%w: %q lies below a link", errManifest, files[i].Path)
			}
		}
	}
	return nil
}
