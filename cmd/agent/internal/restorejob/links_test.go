package restorejob

import (
	"os"
	"path/filepath"
	"testing"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/objstore"
)

// What was restored came from a bucket: a name that is written after it may be a link.
func TestNothingOutsideIsWrittenThroughALinkInTheRestoredData(t *testing.T) {
	for _, name := range []string{"pgdata/recovery.signal", "pgdata/postgresql.auto.conf", "pgdata/pg_wal/archive_status/00000002.history.ready", "postgresql.auto.conf"} {
		t.Run(name, func(t *testing.T) {
			r := &restoring{Worker: Worker{Volume: generation.Volume(t.TempDir()), RunDir: t.TempDir()}, task: agentapi.RestoreJob{DataGeneration: "g2"}}
			folder := r.Volume.Dir("g2")
			r.pgdata = r.Volume.PGData("g2")
			victim := filepath.Join(t.TempDir(), "precious")
			if err := os.MkdirAll(filepath.Join(r.pgdata, "pg_wal", "archive_status"), 0o700); err != nil {
				t.Fatal(err)
			}
			for path, content := range map[string]string{
				victim: "mine = 1\n", filepath.Join(folder, autoConf): "work_mem = '5MB'\n", filepath.Join(r.pgdata, "pg_wal", "00000002.history"): "x",
			} {
				if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			os.Remove(filepath.Join(folder, name))
			if err := os.Symlink(victim, filepath.Join(folder, name)); err != nil {
				t.Fatal(err)
			}
			err := r.tidy(filepath.Join(folder, "spool"))
			if content, errRead := os.ReadFile(victim); errRead != nil || string(content) != "mine = 1\n" {
				t.Errorf("the file outside says %q, %v (%v)", content, errRead, err)
			}
			if content, errRead := os.ReadFile(filepath.Join(r.pgdata, autoConf)); errRead == nil && string(content) == "mine = 1\n" {
				t.Error("the file outside was copied into the data")
			}
		})
	}
}

func TestSettingsThatRunCodeAreRemovedUnlessTheRepositoryIsEncrypted(t *testing.T) {
	for _, encryption := range []*objstore.Encryption{nil, {}} {
		r := &restoring{
			Worker: Worker{Volume: generation.Volume(t.TempDir()), RunDir: t.TempDir()},
			task:   agentapi.RestoreJob{DataGeneration: "g2", Repository: objstore.Config{Encryption: encryption}},
		}
		r.pgdata = r.Volume.PGData("g2")
		if err := os.MkdirAll(filepath.Join(r.pgdata, "pg_wal", "archive_status"), 0o700); err != nil {
			t.Fatal(err)
		}
		conf := "work_mem = '5MB'\nshared_preload_libraries = '/data/evil'\n"
		if err := os.WriteFile(filepath.Join(r.Volume.Dir("g2"), autoConf), []byte(conf), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := r.tidy(filepath.Join(r.Volume.Dir("g2"), "spool")); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(filepath.Join(r.pgdata, autoConf))
		if err != nil {
			t.Fatal(err)
		}
		if removed := string(content) == "work_mem = '5MB'\n" && len(r.dropped) == 1; removed != (encryption == nil) {
			t.Errorf("encrypted %t: %q, removed %q", encryption != nil, content, r.dropped)
		}
	}
}
