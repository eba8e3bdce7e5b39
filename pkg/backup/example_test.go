package backup_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/postgres"
)

const lineage = "7412345678901234567-g1"

// database is a small data directory. A caller with a real server brackets the copy with pg_backup_start and pg_backup_stop, and
// archive_command archives the WAL, without which no backup is committed.
func database(store objstore.Store, dir string) backup.Source {
	for name, content := range map[string]string{"PG_VERSION": "17\n", "global/pg_control": "control", "base/5/16384": "rows"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			panic(err)
		}
	}
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	return backup.Source{
		DataDir: dir, Lineage: lineage, SystemIdentifier: "7412345678901234567", PGVersion: "17.5", PGMajor: 17, WALSegmentSize: postgres.DefaultSegSize,
		Start: func(context.Context) (backup.Started, error) {
			return backup.Started{LSN: 0x2000028, Timeline: 1, Time: noon}, nil
		},
		Stop: func(ctx context.Context) (backup.Stopped, error) {
			segment := postgres.Segment{Timeline: 1, Number: 2, SegSize: postgres.DefaultSegSize}
			err := wal.New(store).Put(ctx, lineage, segment.Name(), make([]byte, segment.SegSize), wal.Info{Writer: "shop", StartLSN: segment.Start(), EndLSN: 0x2000100})
			return backup.Stopped{LSN: 0x2000100, Time: noon.Add(time.Minute), BackupLabel: "START WAL LOCATION: 0/2000028\n"}, err
		},
	}
}

// A backup exists once its manifest does, which is written last. It is verified and restored with nothing but the store.
func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	ctx, store := context.Background(), mem.New()
	if _, err := backup.Write(ctx, store, database(store, filepath.Join(dir, "pgdata")), backup.Options{ID: "sunday"}); err != nil {
		fmt.Println(err)
		return
	}

	entries, err := backup.List(ctx, store, lineage)
	for _, entry := range entries {
		fmt.Println(entry.Header.ID, "needs WAL from", entry.Header.StartLSN, "to", entry.Header.StopLSN, err)
	}
	verified, err := backup.VerifyBackup(ctx, store, lineage, "sunday", backup.VerifyOptions{})
	fmt.Println("objects that are missing or damaged:", verified.WrongObjects, err)

	manifest, err := backup.ReadManifest(ctx, store, lineage, "sunday")
	if err == nil {
		err = backup.Restore(ctx, store, manifest, filepath.Join(dir, "restored"), backup.RestoreOptions{})
	}
	rows, _ := os.ReadFile(filepath.Join(dir, "restored", "base/5/16384"))
	fmt.Printf("restored: %s %v\n", rows, err)
	// Output:
	// sunday needs WAL from 0/2000028 to 0/2000100 <nil>
	// objects that are missing or damaged: 0 <nil>
	// restored: rows <nil>
}

// Damage is never restored: the error names the object, and the target is empty again.
func ExampleRestore() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	ctx, store := context.Background(), mem.New()
	manifest, err := backup.Write(ctx, store, database(store, filepath.Join(dir, "pgdata")), backup.Options{ID: "sunday"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for pack, err := range store.List(ctx, layout.PacksPrefix(lineage), "") {
		if err == nil {
			err = store.Put(ctx, pack.Key, make([]byte, pack.Size), objstore.PutOptions{})
		}
		if err != nil {
			fmt.Println(err)
		}
	}
	err = backup.Restore(ctx, store, manifest, filepath.Join(dir, "restored"), backup.RestoreOptions{})
	left, _ := os.ReadDir(filepath.Join(dir, "restored"))
	fmt.Println(errors.Is(err, backup.ErrCorrupt), len(left))
	// Output:
	// true 0
}
