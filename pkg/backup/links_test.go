package backup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"howdah.dev/howdah/pkg/objstore/mem"
)

// linked is the sample manifest with other files after its own.
func linked(files ...File) *Manifest {
	m := sampleManifest()
	for i := range files {
		files[i].MTime, files[i].Parts = testStart, []Part{}
		if files[i].Kind == Regular {
			m.Totals.Files++
		}
	}
	m.Files = append(m.Files, files...)
	return m
}

func link(path, target string) File { return File{Path: path, Kind: Symlink, Link: target} }

func TestLinksThatARestoreCouldBeLedAwayByAreRefused(t *testing.T) {
	for name, files := range map[string][]File{
		"an absolute link":                   {link("log", "/var/log")},
		"an empty link":                      {link("log", "")},
		"a link that leads out":              {link("base/log", "../../log")},
		"a link through another":             {link("log", "pg_tblspc/16385/../../log")},
		"a link out of a tablespace":         {{Path: "pg_tblspc/16385", Kind: Tablespace, Link: "/fast"}, link("pg_tblspc/16385/PG_17/log", "../../../noise")},
		"a file below a link":                {link("d", "base"), {Path: "d/x", Kind: Regular}},
		"a link below a link":                {link("d", "base"), link("d/x", "../y")},
		"a link as WAL":                      {link("pg_wal/000000010000000000000002", "../base/16384")},
		"a link as the folder of WAL":        {link("pg_wal", "base")},
		"a link as ALTER SYSTEM's file":      {link("postgresql.auto.conf", "base/16384")},
		"a link as a signal":                 {link("standby.signal", "base/16384")},
		"a link as backup_label":             {link("backup_label", "base/16384")},
		"a link as the control file":         {link("global/pg_control", "../base/16384")},
		"a link as a tablespace":             {link("pg_tblspc/16385", "../base")},
		"a link as the folder of those":      {link("pg_tblspc", "base")},
		"a file that starts a standby":       {{Path: "standby.signal", Kind: Regular}},
		"a file that a restore writes":       {{Path: "recovery.signal", Kind: Regular}},
		"a folder that a restore writes to":  {{Path: "backup_label", Kind: Dir}},
		"a tablespace in another place":      {{Path: "base/16385", Kind: Tablespace, Link: "/fast"}},
		"a tablespace that isn't named well": {{Path: "pg_tblspc/x", Kind: Tablespace, Link: "/fast"}},
	} {
		t.Run(name, func(t *testing.T) {
			object, err := encodeManifest(linked(files...))
			must(t, err)
			if _, err := decodeManifest(object); err == nil {
				t.Error("it was accepted")
			}
		})
	}
}

func TestLinksWithinTheDataDirectoryAreKept(t *testing.T) {
	object, err := encodeManifest(linked(
		link("base/here", "16384"), link("base/there", "../noise"), link("up", "base"), link("dots", "..2"),
		File{Path: "pg_tblspc/16385", Kind: Tablespace, Link: "/fast"}, link("pg_tblspc/16385/PG_17/5", "../other"),
	))
	must(t, err)
	if _, err := decodeManifest(object); err != nil {
		t.Error(err)
	}
}

func TestARestoreItselfRefusesALinkThatLeadsOut(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pgdata")
	m := linked(link("log", "/var/log"))
	m.Files = m.Files[len(m.Files)-1:]
	if err := Restore(t.Context(), mem.New(), m, dir, RestoreOptions{}); err == nil || !strings.Contains(err.Error(), "log") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "log")); err == nil {
		t.Error("the link was made")
	}
}

func TestABackupLeavesOutLinksThatNoRestoreWouldMake(t *testing.T) {
	dir, store := pgdata(t), mem.New()
	must(t, os.Symlink("/var/log", filepath.Join(dir, "log")))
	must(t, os.Symlink("../outside", filepath.Join(dir, "outside")))
	mustWrite(t, store, dir, "b1")
	m, err := ReadManifest(t.Context(), store, testLineage, "b1")
	must(t, err)
	links := 0
	for _, f := range m.Files {
		if f.Kind == Symlink {
			links++
		}
	}
	if links != 1 {
		t.Errorf("%d links are in the backup, link.conf should be the only one", links)
	}
}
