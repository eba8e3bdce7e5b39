package lookup

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/postgres"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestADamagedLineageOfAnotherClusterIsPassedOver(t *testing.T) {
	store, size := mem.New(), uint64(postgres.MinSegSize)
	_, err := layout.Claim(t.Context(), store, layout.Lineage{Lineage: "8-g1", Writer: layout.Writer{UID: "u8", Namespace: "demo", Name: "shop"}, SegmentSize: size})
	must(t, err)
	dir, segment := t.TempDir(), postgres.Segment{Timeline: 1, Number: 2, SegSize: size}.Name()
	must(t, os.Mkdir(filepath.Join(dir, "global"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "PG_VERSION"), []byte("17\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "global/pg_control"), make([]byte, 8192), 0o600))
	must(t, wal.New(store).Put(t.Context(), "7-g1", segment, []byte("x"), wal.Info{Writer: "test"}))
	_, err = backup.Write(t.Context(), store, backup.Source{
		DataDir: dir, Lineage: "7-g1", SystemIdentifier: "7", PGVersion: "17.5", PGMajor: 17, WALSegmentSize: size,
		Cluster: backup.Cluster{Namespace: "demo", Name: "other"},
		Start: func(context.Context) (backup.Started, error) {
			return backup.Started{LSN: postgres.LSN(2*size + 40), Timeline: 1, Time: time.Now()}, nil
		},
		Stop: func(context.Context) (backup.Stopped, error) {
			return backup.Stopped{LSN: postgres.LSN(2*size + 100), Time: time.Now(), BackupLabel: "x"}, nil
		},
	}, backup.Options{ID: "b1"})
	must(t, err)
	must(t, store.Put(t.Context(), layout.LineageKey("7-g1"), []byte("noise"), objstore.PutOptions{}))
	if found, err := Lineages(t.Context(), store, Filter{Cluster: "shop"}); err != nil || len(found) != 1 || found[0].Lineage != "8-g1" {
		t.Errorf("%v, %v", found, err)
	}
	for _, filter := range []Filter{{}, {Cluster: "other"}, {Lineage: "7-g1"}} {
		if found, err := Lineages(t.Context(), store, filter); err == nil {
			t.Errorf("%v: what is damaged may be what is looked for: %v", filter, found)
		}
	}
}
