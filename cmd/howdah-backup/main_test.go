package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	"howdah.dev/howdah/cmd/howdah-backup/internal/connection"
	"howdah.dev/howdah/cmd/howdah-backup/internal/lookup"
	"howdah.dev/howdah/cmd/howdah-backup/internal/sample"
	"howdah.dev/howdah/cmd/howdah-backup/internal/walget"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/bucketlock"
	"howdah.dev/howdah/pkg/backup/readnotice"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/folder"
	"howdah.dev/howdah/pkg/objstore/open"
	"howdah.dev/howdah/pkg/objstore/sealed"
	"howdah.dev/howdah/pkg/postgres"
)

// testBucket is a folder that the commands of a test look at.
type testBucket struct {
	t     *testing.T
	dir   string
	store objstore.Store
}

func newBucket(t *testing.T) *testBucket {
	dir := t.TempDir()
	store, err := folder.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return &testBucket{t, dir, store}
}

// shop has two backups of a cluster demo/shop and its WAL.
func shop(t *testing.T) *testBucket {
	b := newBucket(t)
	sample.Claim(t, b.store, sample.Lineage, "shop")
	data := sample.Data(t)
	sample.Backup(t, b.store, sample.Lineage, "shop-first", data, 0, 2)
	sample.Backup(t, b.store, sample.Lineage, "shop-second", data, 60, 4)
	sample.Archive(t, b.store, sample.Lineage, 6, sample.Begin.Add(90*time.Minute))
	return b
}

// run runs a command line, and returns what it wrote and its exit status.
func (b *testBucket) run(args ...string) (out, errOut string, status int) {
	return b.runIn(b.t.Context(), args...)
}

func (b *testBucket) runIn(ctx context.Context, args ...string) (string, string, int) {
	var out, errOut bytes.Buffer
	a := &app{out: &out, errOut: &errOut, now: time.Now, getenv: func(name string) string {
		return map[string]string{"HOWDAH_FOLDER": b.dir}[name]
	}}
	status := a.execute(ctx, args)
	return out.String(), errOut.String(), status
}

// wants runs a command line that has to end with a status, with these parts in what it writes.
func (b *testBucket) wants(status int, parts []string, args ...string) string {
	b.t.Helper()
	out, errOut, got := b.run(args...)
	if got != status {
		b.t.Errorf("%q ended with %d, want %d: %s%s", args, got, status, out, errOut)
	}
	for _, part := range parts {
		if !strings.Contains(out+errOut, part) {
			b.t.Errorf("%q: %q is missing in %s%s", args, part, out, errOut)
		}
	}
	return out
}

func (b *testBucket) damage(key string) {
	b.t.Helper()
	path := filepath.Join(b.dir, key)
	content, err := os.ReadFile(path)
	if err != nil {
		b.t.Fatal(err)
	}
	content[len(content)-1] ^= 1
	if err := os.WriteFile(path, content, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func (b *testBucket) packs(id string) string {
	b.t.Helper()
	for info, err := range b.store.List(b.t.Context(), "lineages/"+sample.Lineage+"/packs/"+id+"/", "") {
		if err != nil {
			b.t.Fatal(err)
		}
		return info.Key
	}
	b.t.Fatal("no pack")
	return ""
}

// Names of files are anybody's who may write to the data directory or to the bucket.
func TestNothingThatIsShownSteersATerminal(t *testing.T) {
	b := newBucket(t)
	sample.Claim(t, b.store, sample.Lineage, "shop")
	data := sample.Data(t)
	for _, name := range []string{"a\x1b[2J", "b\u009b31m", "c\u202eh", "d\x07", "e\nf"} {
		if err := os.WriteFile(filepath.Join(data, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sample.Backup(t, b.store, sample.Lineage, "shop-first", data, 0, 2)
	for _, args := range [][]string{{"show", "--files", "shop-first"}, {"show", "--files", "shop-first", "-o", "json"}, {"show", "x\u009b31m"}} {
		out, errOut, _ := b.run(args...)
		if strings.ContainsFunc(out+errOut, func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' }) {
			t.Errorf("%q: %q%q", args, out, errOut)
		}
	}
	b.wants(exitDone, []string{`"e\nf"`, `"a\x1b[2J"`}, "show", "--files", "shop-first")
}

func TestBackupsAreListed(t *testing.T) {
	b := shop(t)
	b.wants(exitDone, []string{"CLUSTER", "demo/shop", "shop-first", "shop-second", "full", "17.5", "2026-03-04T06:01:00Z"}, "list")
	b.wants(exitDone, []string{"shop-first"}, "list", "--cluster", "shop", "--namespace=demo", "--lineage="+sample.Lineage)
	b.wants(exitNotThere, []string{"the repository has nothing for cluster other"}, "list", "--cluster=other")
	var all []listed
	if err := json.Unmarshal([]byte(b.wants(exitDone, nil, "list", "-o", "json")), &all); err != nil || len(all) != 2 {
		t.Fatalf("%v, %v", all, err)
	}
	if a := all[0]; a.ID != "shop-first" || a.Cluster != "shop" || a.LogicalBytes == 0 || a.StopLSN != 3*sample.SegSize+0x100 {
		t.Errorf("%+v", a)
	}
	newBucket(t).wants(exitNotThere, []string{"this is not a repository of Howdah"}, "list")
}

func TestADamagedManifestIsListedAsSuch(t *testing.T) {
	b := shop(t)
	key := "lineages/" + sample.Lineage + "/backups/shop-first/manifest.zst"
	if err := os.WriteFile(filepath.Join(b.dir, key), []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.wants(exitDone, []string{"damaged", "shop-second"}, "list")
	b.wants(exitDamaged, []string{"manifest.zst"}, "show", "shop-first")
	b.wants(exitDamaged, []string{"DAMAGED  " + sample.Lineage + "/shop-first", "ok       " + sample.Lineage + "/shop-second"}, "verify", "--all")
}

func TestALineageThatCanNotBeReadIsNamedAndTheOthersAreListed(t *testing.T) {
	for what, damage := range map[string]func(*testBucket, string){
		"lineages/8-g1/lineage.json is missing": func(b *testBucket, key string) { must(t, b.store.Delete(t.Context(), key)) },
		"lineages/8-g1/lineage.json: ": func(b *testBucket, key string) {
			must(t, os.WriteFile(filepath.Join(b.dir, key), []byte("garbage"), 0o600))
		},
	} {
		b := shop(t)
		sample.Claim(t, b.store, "8-g1", "shop")
		sample.Backup(t, b.store, "8-g1", "eighth", sample.Data(t), 0, 2)
		damage(b, "lineages/8-g1/lineage.json")
		for _, args := range [][]string{{"list"}, {"list", "-o", "json"}, {"list", "--cluster=shop"}, {"verify", "--all"}, {"verify", "--all", "--wal"}, {"wal", "list"}} {
			parts := []string{"lineage 8-g1 can't be read", what, sample.Lineage}
			if args[0] != "wal" {
				parts = append(parts, "shop-first", "eighth")
			}
			b.wants(exitDamaged, parts, args...)
		}
		b.wants(exitDone, []string{"shop-first"}, "list", "--cluster=shop", "--lineage="+sample.Lineage)
		b.wants(exitDamaged, []string{what}, "restore", "--latest", "--target-dir", t.TempDir())
		b.wants(exitDone, []string{"ok       8-g1/eighth"}, "verify", "8-g1/eighth")
		b.wants(exitDone, []string{"Deleted 8-g1/eighth"}, "delete", "--yes", "8-g1/eighth")
	}
}

func TestABackupIsShown(t *testing.T) {
	b := shop(t)
	b.wants(exitDone, []string{
		"demo/shop (UID uid-shop)", "17.5, without page checksums", sample.Segment(2) + " to " + sample.Segment(3) + ": complete", "16385 ",
		"2026-03-04T05:01:00Z to 2026-03-04T06:30:00Z (LSN 0/300100 to 0/680000, timeline 1, 5 segments)",
	}, "show", "shop-first")
	b.wants(exitDone, []string{"sch\u00f6ne Daten/\u6570\u636e 1.conf", "pg_tblspc/16385 -> ", "tablespace"}, "show", sample.Lineage+"/shop-first", "--files")
	b.wants(exitNotThere, []string{"backup nope does not exist"}, "show", "nope")
	var s shown
	out := b.wants(exitDone, nil, "show", "shop-second", "--files", "-ojson")
	if err := json.Unmarshal([]byte(out), &s); err != nil || s.ID != "shop-second" || !s.Window.Whole || len(s.Files) == 0 || s.Totals.Files == 0 {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestLoginsAreNamedAndNoPasswordIsShown(t *testing.T) {
	b, hidden := shop(t), "aHVudGVyMg==" // in base64
	for _, args := range [][]string{{"show", "shop-first"}, {"show", "shop-first", "-o", "json"}, {"list", "-o", "json"}} {
		if out := b.wants(exitDone, nil, args...); strings.Contains(out, hidden) || strings.Contains(out, "hunter2") {
			t.Errorf("%q: %s", args, out)
		}
	}
	b.wants(exitDone, []string{"shop-app"}, "show", "shop-first", "-o", "json")
}

func TestAnIDOfTwoLineagesIsAmbiguous(t *testing.T) {
	b := shop(t)
	sample.Claim(t, b.store, "8-g1", "other")
	sample.Backup(t, b.store, "8-g1", "shop-first", sample.Data(t), 0, 2)
	b.wants(exitUsage, []string{"8-g1/shop-first"}, "show", "shop-first")
	b.wants(exitDone, []string{"8-g1"}, "show", "8-g1/shop-first")
	b.wants(exitUsage, []string{"more than one cluster", "demo/other, demo/shop"}, "restore", "--latest", "--target-dir", t.TempDir())
	b.wants(exitNoWAL, []string{"more than one lineage"}, "wal", "get", sample.Segment(2), filepath.Join(t.TempDir(), "x"))
}

func TestAWholeBackupIsVerified(t *testing.T) {
	b := shop(t)
	b.wants(exitDone, []string{"ok       " + sample.Lineage + "/shop-first: ", " objects, "}, "verify", "shop-first")
	b.wants(exitDone, []string{"shop-second", "WAL of " + sample.Lineage}, "verify", "--all", "--wal")
	b.wants(exitUsage, []string{"name the backups, or use --all"}, "verify")
	b.wants(exitUsage, nil, "verify", "--all", "shop-first")
}

func TestDamageIsNamed(t *testing.T) {
	for name, test := range map[string]struct {
		hurt func(*testBucket)
		args []string
		want string
	}{
		"a flipped byte in a pack": {func(b *testBucket) { b.damage(b.packs("shop-first")) }, nil, "needed for file"},
		"a pack that is gone": {func(b *testBucket) {
			must(b.t, b.store.Delete(b.t.Context(), b.packs("shop-first")))
		}, nil, "it is missing"},
		"a flipped byte in WAL": {func(b *testBucket) { b.damage("lineages/" + sample.Lineage + "/wal/00000001/" + sample.Segment(3)) }, nil, sample.Segment(3)},
		"WAL that is gone": {func(b *testBucket) {
			must(b.t, b.store.Delete(b.t.Context(), "lineages/"+sample.Lineage+"/wal/00000001/"+sample.Segment(2)))
		}, nil, sample.Segment(2)},
		"a hole in the archive": {func(b *testBucket) {
			sample.Archive(b.t, b.store, sample.Lineage, 9, sample.Begin)
		}, []string{"--wal"}, sample.Segment(7) + " to " + sample.Segment(8) + " are missing"},
	} {
		t.Run(name, func(t *testing.T) {
			b := shop(t)
			test.hurt(b)
			b.wants(exitDamaged, []string{"DAMAGED", test.want}, append([]string{"verify", "--all"}, test.args...)...)
			var results []verified
			out := b.wants(exitDamaged, nil, append([]string{"verify", "--all", "-o", "json"}, test.args...)...)
			if err := json.Unmarshal([]byte(out), &results); err != nil || len(results) < 2 {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

func TestEverythingWrongIsNamedAtOnce(t *testing.T) {
	b := shop(t)
	b.damage(b.packs("shop-first"))
	b.damage("lineages/" + sample.Lineage + "/wal/00000001/" + sample.Segment(3))
	b.wants(exitDamaged, []string{b.packs("shop-first"), sample.Segment(3)}, "verify", "shop-first")
}

// encrypted is a bucket that can be read with the key in the returned file only.
func encrypted(t *testing.T) (*testBucket, string) {
	b, key := newBucket(t), filepath.Join(t.TempDir(), "2026")
	must(t, os.WriteFile(key, []byte(strings.Repeat("ab", 32)+"\n"), 0o600))
	plain := b.store
	b.store = open.Sealed(plain, &objstore.Encryption{KeysDir: filepath.Dir(key)})
	must(t, sealed.Unlock(t.Context(), b.store))
	sample.Claim(t, b.store, sample.Lineage, "shop")
	sample.Backup(t, b.store, sample.Lineage, "shop-first", sample.Data(t), 0, 2)
	return b, key
}

func TestAnEncryptedRepositoryNeedsItsKey(t *testing.T) {
	b, key := encrypted(t)
	for _, with := range []string{key, filepath.Dir(key)} {
		b.wants(exitDone, []string{"shop-first"}, "list", "--key-file", with)
		b.wants(exitDone, []string{"ok "}, "verify", "--all", "--wal", "--key-file", with)
	}
	dir := filepath.Join(t.TempDir(), "d")
	b.wants(exitDone, nil, "restore", "--latest", "--target-dir", dir, "--key-file", key)
	if conf, _ := os.ReadFile(filepath.Join(dir, "postgresql.auto.conf")); !strings.Contains(string(conf), "--key-file="+key) {
		t.Errorf("%s", conf)
	}
	b.wants(exitUsage, []string{"encrypt"}, "list")
	other := filepath.Join(t.TempDir(), "2026")
	must(t, os.WriteFile(other, []byte(strings.Repeat("cd", 32)), 0o600))
	b.wants(exitUsage, []string{"key"}, "list", "--key-file", other)
	b.wants(exitNoWAL, nil, "wal", "get", sample.Segment(9), dir+"/x", "--lineage", sample.Lineage)
	b.wants(exitNotArchived, nil, "wal", "get", sample.Segment(9), dir+"/x", "--lineage", sample.Lineage, "--key-file", key)
	b.wants(exitUsage, []string{"the key: "}, "list", "--key-file", "/none")
	shop(t).wants(exitUsage, []string{"not encrypted"}, "list", "--key-file", key)
}

func TestASignedRepositoryNeedsItsKeyAndWhatIsNotSignedIsNotRestored(t *testing.T) {
	b, key := newBucket(t), filepath.Join(t.TempDir(), "2026")
	must(t, os.WriteFile(key, []byte(strings.Repeat("ab", 32)+"\n"), 0o600))
	plain := b.store
	b.store = open.Sealed(plain, &objstore.Encryption{KeysDir: filepath.Dir(key), Sign: true})
	must(t, sealed.Unlock(t.Context(), b.store))
	sample.Claim(t, b.store, sample.Lineage, "shop")
	sample.Backup(t, b.store, sample.Lineage, "shop-first", sample.Data(t), 0, 2)
	b.wants(exitDone, []string{"shop-first"}, "list", "--key-file", key)
	b.wants(exitDone, []string{"ok "}, "verify", "--all", "--wal", "--key-file", key)
	dir := filepath.Join(t.TempDir(), "d")
	b.wants(exitDone, nil, "restore", "--latest", "--target-dir", dir, "--key-file", key)
	b.wants(exitUsage, []string{"signed"}, "list")

	store := newBucket(t).store // of somebody who has no key
	sample.Claim(t, store, sample.Lineage, "shop")
	sample.Backup(t, store, sample.Lineage, "forged", sample.Data(t), 0, 3)
	for info, err := range store.List(t.Context(), "lineages/", "") {
		must(t, err)
		if strings.Contains(info.Key, "forged") {
			body, err := store.Get(t.Context(), info.Key, 1<<30)
			must(t, err)
			must(t, plain.Put(t.Context(), info.Key, body, objstore.PutOptions{}))
		}
	}
	b.wants(exitDamaged, []string{"forged"}, "restore", "forged", "--target-dir", filepath.Join(t.TempDir(), "e"), "--key-file", key)
}

// TestARestoreSaysThatPagesAreDamagedBeforeItStarts, even if it then fails.
func TestARestoreSaysThatPagesAreDamagedBeforeItStarts(t *testing.T) {
	b, data := newBucket(t), sample.Data(t)
	pages := strings.Repeat("\x00", postgres.PageSize+8) + strings.Repeat("x", postgres.PageSize-8)
	must(t, os.WriteFile(filepath.Join(data, "base/5/16384"), []byte(pages), 0o600))
	sample.Claim(t, b.store, sample.Lineage, "shop")
	sample.WithDamage(t, b.store, sample.Lineage, "damaged", data, 0, 2)
	b.wants(exitDone, []string{"Damaged pages", "1, as they were in the database", "base/5/16384"}, "show", "damaged")
	const says = "1 pages of the backup failed their checksum when it was taken"
	b.wants(exitDone, []string{says}, "restore", "damaged", "--target-dir", filepath.Join(t.TempDir(), "a"))
	b.damage(b.packs("damaged"))
	b.wants(exitDamaged, []string{says}, "restore", "damaged", "--target-dir", filepath.Join(t.TempDir(), "b"))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestABackupIsRestoredToAFolder(t *testing.T) {
	b := shop(t)
	dir := filepath.Join(t.TempDir(), "pg data")
	b.wants(exitDone, []string{"Restored " + sample.Lineage + "/shop-first", "Tablespace 16385", "pg_ctl -D '" + dir + "' start"}, "restore", "shop-first", "--target-dir", dir)
	if _, err := os.Stat(filepath.Join(dir, "recovery.signal")); err == nil {
		t.Error("recovery was not asked for")
	}
	b.wants(exitFailed, []string{"is not empty"}, "restore", "shop-first", "--target-dir", dir)
}

func TestTheBackupForATimeIsFound(t *testing.T) {
	for at, id := range map[string]string{"2026-03-04T05:30:00Z": "shop-first", "2026-03-04 07:10:00+01": "shop-second", "2026-03-04 06:10:00 UTC": "shop-second"} {
		b, dir := shop(t), filepath.Join(t.TempDir(), "d")
		var r restored
		out := b.wants(exitDone, nil, "restore", "--cluster=shop", "--to-time", at, "--target-dir", dir, "-o", "json")
		if err := json.Unmarshal([]byte(out), &r); err != nil || r.ID != id || !r.Replays {
			t.Errorf("%s: %+v, %v", at, r, err)
		}
		conf, err := os.ReadFile(filepath.Join(dir, "postgresql.auto.conf"))
		if err != nil || !strings.Contains(string(conf), "--folder="+b.dir+" --ignore-environment --lineage="+sample.Lineage+" --patience=10m wal get --spool=") {
			t.Errorf("%s, %v", conf, err)
		}
	}
}

func TestRecoveryReadsOnlyTheRepositoryThatTheRestoreWasPlannedFrom(t *testing.T) {
	b := shop(t)
	for target, want := range map[string]string{
		"--latest":                       " --least=" + sample.Segment(6) + " ",
		"--to-time=2026-03-04T06:30:00Z": " --last=" + sample.Segment(6) + " ", // the last commit: PostgreSQL meets no later one
	} {
		dir := filepath.Join(t.TempDir(), "pgdata")
		b.wants(exitDone, nil, "restore", target, "--target-dir", dir)
		conf, err := os.ReadFile(filepath.Join(dir, "postgresql.auto.conf"))
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{" --folder=" + b.dir + " ", " --ignore-environment ", want} {
			if !strings.Contains(string(conf), part) {
				t.Errorf("%s: %q is missing in %s", target, part, conf)
			}
		}
	}
}

func TestAWrongRestoreIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		args   []string
		status int
		want   string
	}{
		"neither a backup nor a target": {nil, exitUsage, "name the backup to restore"},
		"two targets":                   {[]string{"--latest", "--immediate"}, exitUsage, "none of the others can be"},
		"a time without a zone":         {[]string{"--to-time=2026-03-04 05:30:00"}, exitUsage, "is not a timestamp with a time zone"},
		"a bad position":                {[]string{"--to-lsn=5"}, exitUsage, "write it like 16/B374D848"},
		"an unknown action":             {[]string{"--latest", "--target-action=explode"}, exitUsage, "use promote, pause or shutdown"},
		"a tablespace that isn't there": {[]string{"shop-first", "--tablespace=1=/x"}, exitUsage, "has no tablespace 1; its tablespaces: 16385"},
		"a tablespace without a folder": {[]string{"shop-first", "--tablespace=16385"}, exitUsage, "use OID=DIR"},
		"a backup that isn't there":     {[]string{"nope"}, exitNotThere, "backup nope does not exist"},
		"a time before every backup":    {[]string{"--to-time=2020-01-01T00:00:00Z"}, exitNotThere, "the oldest backup, shop-first, can be restored to"},
		"a time beyond the archive":     {[]string{"--to-time=2026-03-05T00:00:00Z"}, exitNotThere, "the last commit in it is at"},
		"a backup that is too young":    {[]string{"shop-second", "--to-time=2026-03-04T05:30:00Z"}, exitNotThere, "shop-second"},
		"an output that nobody knows":   {[]string{"--latest", "-o", "xml"}, exitUsage, "use table or json"},
		"a flag that nobody knows":      {[]string{"--to-tomorrow"}, exitUsage, "unknown flag"},
	} {
		t.Run(name, func(t *testing.T) {
			b, dir := shop(t), filepath.Join(t.TempDir(), "d")
			b.wants(test.status, []string{test.want}, append([]string{"restore", "--target-dir", dir}, test.args...)...)
			if _, err := os.Stat(dir); err == nil {
				t.Error("something was made")
			}
		})
	}
	shop(t).wants(exitUsage, []string{"target-dir"}, "restore", "shop-first")
}

func TestWALIsListedAndFetched(t *testing.T) {
	b := shop(t)
	sample.Archive(t, b.store, sample.Lineage, 8, time.Time{})
	b.wants(exitDone, []string{sample.Segment(2), sample.Segment(8), sample.Segment(7)}, "wal", "list")
	var rows []walRow
	if err := json.Unmarshal([]byte(b.wants(exitDone, nil, "wal", "list", "-o", "json")), &rows); err != nil || len(rows) != 1 || len(rows[0].Holes) != 1 {
		t.Errorf("%+v, %v", rows, err)
	}
	to := filepath.Join(t.TempDir(), "seg ment")
	b.wants(exitDone, nil, "wal", "get", sample.Segment(3), to)
	if content, _ := os.ReadFile(to); string(content) != sample.Content(3) {
		t.Errorf("%s", content)
	}
	b.wants(exitNotArchived, nil, "wal", "get", sample.Segment(9), to)
}

func TestOnlyTheEndOfTheArchiveLooksLikeIt(t *testing.T) {
	b, to := shop(t), filepath.Join(t.TempDir(), "x")
	b.damage("lineages/" + sample.Lineage + "/wal/00000001/" + sample.Segment(3))
	for name, args := range map[string][]string{
		"a damaged segment":        {sample.Segment(3), to},
		"a lineage that isn't":     {sample.Segment(2), to, "--lineage=8-g1"},
		"another folder":           {sample.Segment(2), to, "--folder=" + t.TempDir()},
		"a folder that isn't":      {sample.Segment(2), to, "--folder=/none"},
		"a server that isn't":      {sample.Segment(2), to, "--bucket=bucket", "--endpoint=http://127.0.0.1:1", "--insecure", "--patience=1ms", "--lineage=" + sample.Lineage},
		"no path":                  {sample.Segment(2)},
		"an unknown flag":          {sample.Segment(2), to, "--unknown"},
		"a config that isn't":      {sample.Segment(2), to, "--config=/none"},
		"a path that can't be":     {sample.Segment(2), "/none/x"},
		"a name of something else": {"postgresql.conf", to},
	} {
		t.Run(name, func(t *testing.T) { b.wants(exitNoWAL, nil, append([]string{"wal", "get"}, args...)...) })
	}
}

func TestAServerThatCannotBeReachedIsNamed(t *testing.T) {
	newBucket(t).wants(exitStore, []string{"http://127.0.0.1:1"}, "list", "--bucket=bucket", "--endpoint=http://127.0.0.1:1", "--insecure", "--patience=1ms")
}

func TestABackupIsDeletedWhenThatIsMeant(t *testing.T) {
	b := shop(t)
	b.wants(exitUsage, []string{"use --yes"}, "delete", "shop-first")
	b.wants(exitDone, []string{"Deleted " + sample.Lineage + "/shop-first"}, "delete", "shop-first", "--yes")
	b.wants(exitNotThere, []string{"backup shop-first does not exist"}, "delete", "shop-first", "--yes")
	b.wants(exitNotThere, nil, "delete", sample.Lineage+"/shop-first", "--yes")
	if out := b.wants(exitDone, nil, "list"); strings.Contains(out, "shop-first") || !strings.Contains(out, "shop-second") {
		t.Error(out)
	}
}

func TestWhatAnInterruptedDeletionLeftIsDeletedUnlessItMayBeBeingWritten(t *testing.T) {
	b := shop(t)
	must(t, b.store.Delete(t.Context(), "lineages/"+sample.Lineage+"/backups/shop-second/manifest.zst"))
	pack := b.packs("shop-second")
	b.wants(exitFailed, []string{"nothing was deleted", "so it may still be being written", "run the command again after"}, "delete", sample.Lineage+"/shop-second", "--yes")
	if _, err := b.store.Stat(t.Context(), pack); err != nil {
		t.Error(err)
	}
	old := time.Now().Add(-61 * time.Minute)
	must(t, filepath.WalkDir(filepath.Join(b.dir, "lineages", sample.Lineage, "packs"), func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Chtimes(path, old, old))
	}))
	b.wants(exitDone, []string{`"freedBytes"`}, "delete", sample.Lineage+"/shop-second", "--yes", "-o", "json")
	if _, err := b.store.Stat(t.Context(), pack); !errors.Is(err, objstore.ErrNotFound) {
		t.Error(err)
	}
}

func TestNothingIsDeletedWhileSomebodyElseDeletesFromTheLineage(t *testing.T) {
	b := shop(t)
	_, unlock, err := bucketlock.Lock(t.Context(), b.store, sample.Lineage, bucketlock.Holder{ID: "r", Name: "The backup-controller for BackupRepository demo/minio"})
	must(t, err)
	b.wants(exitFailed, []string{
		"nothing was deleted: The backup-controller for BackupRepository demo/minio deletes from lineage " + sample.Lineage + " since", "run the command again then",
	}, "delete", "shop-first", "--yes")
	b.wants(exitDone, []string{"shop-first"}, "list")
	unlock()
	b.wants(exitDone, []string{"Deleted " + sample.Lineage + "/shop-first"}, "delete", "shop-first", "--yes")
	for info, err := range b.store.List(t.Context(), "deletions/", "") {
		t.Errorf("left is %v, %v", info, err)
	}
}

func TestABackupIsNotDeletedWhileSomebodyReadsIt(t *testing.T) {
	b := shop(t)
	stop := readnotice.Announce(t.Context(), b.store, sample.Lineage, readnotice.Reader{ID: "r", Name: "Restore staging/copy", Backup: "shop-first"}, func(err error) { t.Error(err) })
	b.wants(exitFailed, []string{
		"nothing was deleted: Restore staging/copy is reading shop-first", "delete the object readers/" + sample.Lineage + "/r first",
	}, "delete", "shop-first", "--yes")
	b.wants(exitDone, []string{"Deleted " + sample.Lineage + "/shop-second"}, "delete", "shop-second", "--yes")
	stop()
	b.wants(exitDone, []string{"Deleted " + sample.Lineage + "/shop-first"}, "delete", "shop-first", "--yes")
}

func TestASignalEndsACommandAsShellsExpect(t *testing.T) {
	b := shop(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(interrupted(syscall.SIGINT))
	dir := filepath.Join(t.TempDir(), "d")
	_, errOut, status := b.runIn(ctx, "restore", "shop-first", "--target-dir", dir)
	if _, err := os.Stat(dir); status != 130 || err == nil || !strings.Contains(errOut, "interrupted") {
		t.Errorf("%d, %v, %s", status, err, errOut)
	}
	if _, _, status := b.runIn(ctx, "wal", "get", sample.Segment(9), dir); status != 130 {
		t.Errorf("wal get: %d", status)
	}
}

func TestEveryErrorHasItsStatus(t *testing.T) {
	for _, test := range []struct {
		err  error
		want int
		wal  int
	}{
		{nil, exitDone, exitNoWAL},
		{errors.New("x"), exitFailed, exitNoWAL},
		{fmt.Errorf("%w: x", errUsage), exitUsage, exitNoWAL},
		{connection.ErrUsage, exitUsage, exitNoWAL},
		{lookup.ErrAmbiguous, exitUsage, exitNoWAL},
		{&backup.CorruptError{Err: &objstore.Error{}}, exitDamaged, exitNoWAL},
		{wal.ErrCorrupt, exitDamaged, exitNoWAL},
		{walget.ErrHole, exitDamaged, exitNoWAL},
		{errDamage, exitDamaged, exitNoWAL},
		{lookup.ErrNotThere, exitNotThere, exitNoWAL},
		{errUnreachable, exitNotThere, exitNoWAL},
		{walget.ErrNotArchived, exitNotThere, exitNotArchived},
		{&objstore.Error{Kind: objstore.ErrDenied}, exitStore, exitNoWAL},
		{&objstore.Error{Kind: objstore.ErrNotFound}, exitStore, exitNoWAL},
		{interrupted(syscall.SIGTERM), 143, 143},
	} {
		if got, gotWAL := exitStatus(test.err), restoreCommandStatus(test.err); got != test.want || gotWAL != test.wal {
			t.Errorf("%v: %d and %d, want %d and %d", test.err, got, gotWAL, test.want, test.wal)
		}
	}
}
