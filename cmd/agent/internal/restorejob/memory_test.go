package restorejob

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/postgres"
)

func TestARestoreThatNeedsMoreMemorySaysHowMuchAndWhereToSetIt(t *testing.T) {
	const lineage, id, size = "7-g1", "b1", postgres.MinSegSize
	store, dir, begin := mem.New(), t.TempDir(), postgres.LSN(2*size+40)
	for name, content := range map[string]string{"PG_VERSION": "17\n", "global/pg_control": strings.Repeat("control ", 1024)} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := wal.New(store).Put(t.Context(), lineage, postgres.SegmentOf(1, begin, size).Name(), make([]byte, size), wal.Info{Writer: "test"}); err != nil {
		t.Fatal(err)
	}
	_, err := backup.Write(t.Context(), store, backup.Source{
		DataDir: dir, Lineage: lineage, SystemIdentifier: "7", PGVersion: "17.5", PGMajor: 17, WALSegmentSize: size,
		Start: func(context.Context) (backup.Started, error) {
			return backup.Started{LSN: begin, Timeline: 1, Time: time.Now()}, nil
		},
		Stop: func(context.Context) (backup.Stopped, error) {
			return backup.Stopped{LSN: begin + 100, Time: time.Now(), BackupLabel: "x"}, nil
		},
	}, backup.Options{ID: id})
	if err != nil {
		t.Fatal(err)
	}
	r := &restoring{store: store, task: agentapi.RestoreJob{Lineage: lineage, BackupID: id}}
	for memory, enough := range map[int64]bool{0: true, 256 << 20: true, 1 << 10: false} {
		r.Memory = memory
		err, failure := r.checkMemory(t.Context()), &job.Failure{}
		if enough && err == nil {
			continue
		}
		if enough || !errors.As(err, &failure) || failure.Reason != job.ReasonMemoryTooSmall || !failure.Final || failure.NeedsMemory != 256<<20 ||
			!strings.Contains(err.Error(), "set resources.limits.memory of the cluster to 256Mi or more") {
			t.Errorf("with %d bytes: %v, %+v", memory, err, failure)
		}
	}
}
