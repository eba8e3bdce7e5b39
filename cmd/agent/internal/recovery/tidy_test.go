package recovery

import (
	"os"
	"path/filepath"
	"testing"
)

func TestOnlyHistoriesOfTheSourceAreArchivedByACopy(t *testing.T) {
	pgdata := t.TempDir()
	dir := filepath.Join(pgdata, "pg_wal")
	notes := filepath.Join(dir, "archive_status")
	if err := os.MkdirAll(notes, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"000000030000000000000007", "000000030000000000000008.partial", "000000030000000000000007.00000028.backup", "00000003.history", "00000004.history",
		"000000040000000000000008", "archive_status/000000030000000000000007.ready", "archive_status/00000003.history.done", "archive_status/000000040000000000000008.ready",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := NoteArchive(pgdata, 4); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(notes)
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, entry := range entries {
		got += entry.Name() + " "
	}
	if want := "00000003.history.ready 000000030000000000000007.00000028.backup.done 000000030000000000000007.done 000000030000000000000008.partial.done " +
		"00000004.history.ready 000000040000000000000008.ready "; got != want {
		t.Errorf("notes: %s", got)
	}
}

func TestWhatWasPutAsideComesBackWithoutCode(t *testing.T) {
	for trusted, want := range map[bool]string{true: "work_mem = '5MB'\nshared_preload_libraries = '/data/evil'\n", false: "work_mem = '5MB'\n"} {
		folder := t.TempDir()
		pgdata := filepath.Join(folder, "pgdata")
		if err := os.Mkdir(pgdata, 0o700); err != nil {
			t.Fatal(err)
		}
		conf := filepath.Join(pgdata, AutoConf)
		write := func(content string) {
			if err := os.WriteFile(conf, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		aside := func() {
			if err := PutAside(pgdata, folder); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(conf); err == nil {
				t.Error("it is still there")
			}
		}
		aside() // there is none
		write("work_mem = '5MB'\nshared_preload_libraries = '/data/evil'\nrestore_command = 'x'\n")
		aside()
		aside() // a former attempt has done it
		write("work_mem = '1GB'\n")
		aside()
		for range 2 { // it may be killed in between
			if _, err := TakeBack(pgdata, folder, trusted); err != nil {
				t.Fatal(err)
			}
			if content, err := os.ReadFile(conf); err != nil || string(content) != want {
				t.Errorf("trusted %t: %q, %v", trusted, content, err)
			}
		}
	}
}
