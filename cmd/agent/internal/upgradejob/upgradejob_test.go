package upgradejob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// image lays out what a mounted PostgreSQL image has, with empty files.
func image(t *testing.T, major string) string {
	t.Helper()
	root := t.TempDir()
	files := []string{"usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", "usr/lib/x86_64-linux-gnu/libpq.so.5"}
	for _, program := range oldPrograms {
		files = append(files, "usr/lib/postgresql/"+major+"/bin/"+program)
	}
	for _, file := range files {
		path := filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestOldProgramsRunThroughTheirOwnLoader(t *testing.T) {
	root, scratch := image(t, "15"), t.TempDir()
	// As in bookworm: here it would be the loader of the new image.
	if err := os.MkdirAll(filepath.Join(root, "lib64"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", filepath.Join(root, "lib64/ld-linux-x86-64.so.2")); err != nil {
		t.Fatal(err)
	}
	binDir, err := oldImage{root: root, major: 15}.install(scratch)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(binDir, "usr/lib/postgresql/15/bin") {
		t.Errorf("the programs are in %s, and PostgreSQL would not find its share folder from there", binDir)
	}
	script, err := os.ReadFile(filepath.Join(binDir, "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{root + "/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", root + "/usr/lib/x86_64-linux-gnu", `--argv0 "$0"`, root + "/usr/lib/postgresql/15/bin/postgres"} {
		if !strings.Contains(string(script), part) {
			t.Errorf("no %s in %s", part, script)
		}
	}
	if _, err := (oldImage{root: root, major: 15}).install(scratch); err != nil {
		t.Errorf("a second time: %v", err)
	}
}

func TestAnImageOfAnotherVersionIsRefusedByName(t *testing.T) {
	_, err := oldImage{root: image(t, "15"), major: 14}.install(t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "has no initdb of PostgreSQL 14") {
		t.Errorf("got %v", err)
	}
	_, err = oldImage{root: t.TempDir(), major: 15}.install(t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "no dynamic loader") {
		t.Errorf("got %v", err)
	}
}

func TestTheNewDatabaseIsCreatedLikeTheOld(t *testing.T) {
	cases := map[string]struct {
		major     int
		checksums int
		has       string
		hasNot    string
	}{
		"checksums stay on":                 {17, 1, "--data-checksums", "--no-data-checksums"},
		"checksums stay off":                {17, 0, "--pgdata=/d", "--data-checksums"},
		"and off where 18 would turn it on": {18, 0, "--no-data-checksums", "--data-checksums"},
	}
	for name, c := range cases {
		args := initdbArguments(c.major, "/d", postgres.ControlData{SegSize: 64 << 20, ChecksumVersion: c.checksums})
		if !slices.Contains(args, c.has) || slices.Contains(args, c.hasNot) || !slices.Contains(args, "--wal-segsize=64") {
			t.Errorf("%s: got %v", name, args)
		}
	}
}

func TestFindingsFitIntoATerminationMessageWithErrorsFirst(t *testing.T) {
	var many []agentapi.Finding
	for range 100 {
		many = append(many, agentapi.Finding{Severity: severityWarning, Message: strings.Repeat("w", 100)})
	}
	many = append(many, agentapi.Finding{Severity: severityError, Message: "the one that counts"})
	got := fit(many)
	if len(got) < 10 || got[0].Severity != severityError || got[len(got)-1].Check != "More" {
		t.Errorf("%d findings, first %+v, last %+v", len(got), got[0], got[len(got)-1])
	}
	if few := fit(many[:3]); len(few) != 3 {
		t.Errorf("three became %d", len(few))
	}
}

func TestTheComplaintLeavesOutWhatWentWell(t *testing.T) {
	got := complaint("Performing Consistency Checks\n-----------\nChecking cluster versions          ok\nChecking for prepared transactions    fatal\n\nThe source cluster contains prepared transactions\n")
	if got != "Checking for prepared transactions    fatal The source cluster contains prepared transactions" {
		t.Errorf("got %q", got)
	}
}

func TestTheCauseIsInTheFileThatTheComplaintRefersTo(t *testing.T) {
	log := filepath.Join(t.TempDir(), "pg_upgrade_dump_5.log")
	content := "pg_restore: creating TABLE \"public.t\"\npg_restore: error: could not execute query: ERROR:  type \"x\" does not exist\n" +
		"Command was: CREATE TABLE public.t (secret text DEFAULT 'hidden')\n"
	if err := os.WriteFile(log, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	got := causes("*failure*\n\nConsult the last few lines of \"" + log + "\" for\nthe probable cause of the failure.\n" +
		"Consult the last few lines of \"/nowhere/pg_upgrade_server.log\" for\n")
	if got != `pg_restore: error: could not execute query: ERROR:  type "x" does not exist` {
		t.Errorf("got %q", got)
	}
}

func TestAReleaseTooOldForTheRunningOneIsNamed(t *testing.T) {
	releases := map[string]string{"/old/postgres": "postgres (PostgreSQL) 17.12 (Debian 17.12-0+deb13u1)", "/new/postgres": "postgres (PostgreSQL) 18.6"}
	w := Worker{Run: func(_ context.Context, program string, _ ...string) ([]byte, error) {
		return []byte(releases[program]), nil
	}}
	found := programs{oldBin: "/old", newBin: "/new"}
	got := w.rehearsalFailed(t.Context(), found, errors.New(`pg_restore: error: could not execute query: ERROR:  unrecognized parameter "pg_attver"`))
	if got.Check != "ReleaseTooOld" || got.Message != "PostgreSQL 17.12 keeps the option pg_attver in its catalogs, which PostgreSQL 18.6 doesn't know: "+
		"set spec.image to an image with a release that is as new as 17.12." {
		t.Errorf("got %+v", got)
	}
	got = w.rehearsalFailed(t.Context(), found, errors.New("some other failure"))
	if got.Check != "PgUpgrade" || got.Message != "some other failure" {
		t.Errorf("got %+v", got)
	}
	releases["/new/postgres"] = "not to be read"
	if got = w.rehearsalFailed(t.Context(), found, errors.New(`unrecognized parameter "x"`)); got.Check != "PgUpgrade" {
		t.Errorf("got %+v", got)
	}
}

func TestSpaceCountsFiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), make([]byte, 5000), 0o600); err != nil {
		t.Fatal(err)
	}
	used, free, err := space(dir)
	if err != nil || used != 5000 || free <= 0 {
		t.Errorf("used %d, free %d, %v", used, free, err)
	}
}

func TestFilesAreBroughtOverAsPgUpgradeOfThatVersionCan(t *testing.T) {
	dir := t.TempDir()
	for major, modes := range map[int][]string{16: {modeClone, modeCopy}, 17: {modeClone, modeRange, modeCopy}} {
		if mode, err := transferMode(dir, major); err != nil || !slices.Contains(modes, mode) {
			t.Errorf("%d: %s, %v", major, mode, err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

func TestTheLockTableHasRoomForEveryTable(t *testing.T) {
	data := t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(data, "base", "5"), 0o700), os.Mkdir(filepath.Join(data, "pg_replslot"), 0o700)); err != nil {
		t.Fatal(err)
	}
	for i := range 2000 {
		if err := os.WriteFile(filepath.Join(data, "base", "5", fmt.Sprint(16384+i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(data, "PG_VERSION"), []byte("17\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	options, err := Worker{}.serverOptions(data)
	if err != nil || !strings.Contains(options, "-c max_locks_per_transaction=84") {
		t.Errorf("%s: %v", options, err)
	}
}

func TestWhatANewerUnicodeAffectsIsAFindingOfEachDatabase(t *testing.T) {
	data := t.TempDir()
	dir := filepath.Join(data, "pg_upgrade_output.d", "20261201T031500.123")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	report := "In database: shop\n  (oid=16389) public.by_name\n  (oid=16390) \"Odd\".names\nIn database: postgres\n  (oid=1) a.b\n"
	if err := os.WriteFile(filepath.Join(dir, unicodeReport), []byte(report), 0o600); err != nil {
		t.Fatal(err)
	}
	found, err := byUnicode(data, 18)
	if err != nil || len(found) != 2 {
		t.Fatalf("%+v, %v", found, err)
	}
	if f := found[0]; f.Severity != severityWarning || f.Check != "UnicodeVersion" || f.Database != "shop" || !strings.Contains(f.Message, `public.by_name, "Odd".names.`) {
		t.Errorf("%+v", f)
	}
	if f := found[1]; f.Database != "postgres" || !strings.Contains(f.Message, "a.b") {
		t.Errorf("%+v", f)
	}
	if found, err := byUnicode(t.TempDir(), 18); err != nil || len(found) > 0 {
		t.Errorf("nothing was retained: %+v, %v", found, err)
	}
}

// TestALinkNeedsRoomForTheCatalogsOnly: files of tables and indexes are shared.
func TestALinkNeedsRoomForTheCatalogsOnly(t *testing.T) {
	data := t.TempDir()
	for path, size := range map[string]int{
		"global/1262": 1, "global/pg_control": 2, "base/5/1259": 4, "base/5/1259_fsm": 8, "base/5/PG_VERSION": 16, "pg_xact/0000": 32,
		"pg_multixact/offsets/0000": 64, "base/5/16384": 1000, "base/5/16384.1": 1000, "base/5/16390_fsm": 1000, "pg_wal/000000010000000000000001": 1000,
	} {
		file := filepath.Join(data, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, make([]byte, size), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := catalogs(data); got != 127 || err != nil {
		t.Errorf("%d bytes, %v", got, err)
	}
}

func TestAllOutputPluginsAreAllowedWhereTheReleaseHasNoSuchParameter(t *testing.T) {
	for said, want := range map[string][]string{
		"pgoutput, test_decoding\n": {"pgoutput", "test_decoding"},
		"\"wal2json\",pgoutput\n":   {"wal2json", "pgoutput"},
		"":                          nil,
	} {
		w := Worker{Run: func(_ context.Context, _ string, args ...string) ([]byte, error) {
			if !slices.Contains(args, "output_plugin_libraries=x") {
				t.Errorf("it was asked with %q", args)
			}
			if said == "" {
				return nil, errors.New(`postgres: exit status 1: FATAL:  unrecognized configuration parameter "output_plugin_libraries"`)
			}
			return []byte(said), nil
		}}
		got, err := w.outputPlugins(t.Context(), programs{newBin: "/new"}, "/to", map[string]string{"output_plugin_libraries": "x"})
		if err != nil || !slices.Equal(got, want) || (got == nil) != (want == nil) {
			t.Errorf("%q: %q, %v", said, got, err)
		}
	}
}

func TestALineThatIsTooLongDoesNotKeepPgUpgradeWaiting(t *testing.T) {
	reader, writer := io.Pipe()
	wrote := make(chan error, 1)
	go func() {
		_, err := io.WriteString(writer, "Checking x    ok\n"+strings.Repeat("x", 1<<20)+"\nfailed\n")
		wrote <- errors.Join(err, writer.Close())
	}()
	output := make(chan string, 1)
	go func() { output <- Worker{Report: func(job.Progress) {}}.follow(phaseUpgrading, reader) }()
	select {
	case err := <-wrote:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("nobody reads on")
	}
	if got := <-output; !strings.HasPrefix(got, "Checking x    ok\n") {
		t.Errorf("got %.100q", got)
	}
}
