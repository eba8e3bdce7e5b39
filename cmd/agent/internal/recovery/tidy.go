package recovery

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/postgres"
)

// Remove as a content means that there shall be no such file.
const Remove = "\x00"

// Replace writes files of a folder anew. What came from the bucket is not followed out of it, nor to another file in it. The only link that is followed out is
// pg_wal, which no backup brings: it leads to the WAL volume.
func Replace(dir string, contents map[string]string) error {
	plain, wal := map[string]string{}, map[string]string{}
	for name, content := range contents {
		if below, is := strings.CutPrefix(name, walFolder); is {
			wal[below] = content
		} else {
			plain[name] = content
		}
	}
	err := replace(dir, plain)
	if err == nil && len(wal) > 0 {
		err = replace(filepath.Join(dir, walFolder), wal)
	}
	return err
}

const walFolder = "pg_wal/"

func replace(dir string, contents map[string]string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for name, content := range contents {
		if content != Remove {
			err = backup.ReplaceFile(root, name, []byte(content))
		} else if err = root.Remove(name); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// PutAside takes what ALTER SYSTEM has set out of a data directory, into the folder of its data generation: it doesn't count while the server
// recovers. What was put aside before stays, and what came since is dropped.
func PutAside(pgdata, folder string) error {
	aside := filepath.Join(folder, AutoConf)
	if _, err := os.Lstat(aside); err == nil {
		return Replace(pgdata, map[string]string{AutoConf: Remove})
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err := os.Rename(filepath.Join(pgdata, AutoConf), aside)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// TakeBack leaves a data directory as a server that was stopped leaves it, with what was put aside. Parameters with code in them are dropped,
// unless whoever wrote the file is trusted.
func TakeBack(pgdata, folder string, trusted bool) (dropped []string, err error) {
	contents := map[string]string{
		"recovery.signal": Remove, "backup_label.old": Remove, "tablespace_map.old": Remove, "postmaster.opts": Remove,
	}
	content, err := readFile(folder, AutoConf)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err == nil {
		kept := WithoutSettings(string(content))
		if !trusted {
			kept, dropped = postgres.WithoutCode(kept)
		}
		contents[AutoConf] = kept
	}
	return dropped, errors.Join(Replace(pgdata, contents), Replace(folder, map[string]string{AutoConf: Remove}))
}

// readFile reads a file of a folder, and follows no link out of that.
func readFile(dir, name string) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.ReadFile(name)
}

// NoteArchive has the histories of all timelines archived, as the lineage that begins on this timeline needs them. What else is of an earlier
// timeline was written by another cluster, and is none of this lineage. It is noted as archived, for PostgreSQL would archive what has no note.
func NoteArchive(pgdata string, timeline uint32) error {
	entries, err := os.ReadDir(filepath.Join(pgdata, "pg_wal"))
	if err != nil {
		return err
	}
	notes := map[string]string{}
	for _, entry := range entries {
		file, err := postgres.ParseWALName(entry.Name())
		if err != nil {
			continue
		}
		note := path.Join("pg_wal", "archive_status", entry.Name())
		switch {
		case file.Kind == postgres.WALHistory:
			notes[note+".done"], notes[note+".ready"] = Remove, ""
		case file.Timeline < timeline:
			notes[note+".ready"], notes[note+".done"] = Remove, ""
		}
	}
	return Replace(pgdata, notes)
}

// Memory gives replay a quarter of the Job's for its buffers; PostgreSQL's own 128 MB where there is no limit.
func Memory(bytes int64) []postgres.Parameter {
	if bytes <= 0 {
		return nil
	}
	for _, p := range postgres.DefaultParameters(postgres.NewestMajor, bytes, 0) {
		if p.Name == "shared_buffers" {
			return []postgres.Parameter{p}
		}
	}
	return nil
}
