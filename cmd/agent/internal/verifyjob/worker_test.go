package verifyjob

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/fault"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/postgres"
)

var task = agentapi.VerifyJob{Lineage: "7-g1", BackupID: "b1"}

// bucket is a store with one backup of two files, in one pack, which needs one segment of WAL.
func bucket(t *testing.T) *mem.Store {
	t.Helper()
	store, dir := mem.New(), t.TempDir()
	for name, content := range map[string]string{"PG_VERSION": "17\n", "global/pg_control": strings.Repeat("control ", 1024)} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	const size = 1 << 20
	begin := postgres.LSN(2*size + 40)
	err := wal.New(store).Put(t.Context(), task.Lineage, postgres.SegmentOf(1, begin, size).Name(), make([]byte, size), wal.Info{Writer: "test"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = backup.Write(t.Context(), store, backup.Source{
		DataDir: dir, Lineage: task.Lineage, SystemIdentifier: "7", PGVersion: "17.5", PGMajor: 17, WALSegmentSize: size,
		Start: func(context.Context) (backup.Started, error) {
			return backup.Started{LSN: begin, Timeline: 1, Time: time.Now()}, nil
		},
		Stop: func(context.Context) (backup.Stopped, error) {
			return backup.Stopped{LSN: begin + 100, Time: time.Now(), BackupLabel: "x"}, nil
		},
	}, backup.Options{ID: task.BackupID})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func run(t *testing.T, store objstore.Store) (agentapi.VerifyResult, error) {
	t.Helper()
	worker := Worker{Store: store, Report: func(job.Progress) {}}
	return worker.Run(t.Context(), task)
}

// keyOf is the one object with this in its key.
func keyOf(t *testing.T, store objstore.Store, part string) string {
	t.Helper()
	for info, err := range store.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(info.Key, part) {
			return info.Key
		}
	}
	t.Fatalf("no object has %s in its key", part)
	return ""
}

func TestAWholeBackupHasNoWrongObjects(t *testing.T) {
	result, err := run(t, bucket(t))
	if err != nil || result.Objects != 3 || result.WrongObjects != 0 || result.CheckedBytes == 0 {
		t.Errorf("got %+v, %v", result, err)
	}
}

func TestWhatIsWrongIsAResultAndNoFailure(t *testing.T) {
	for harm, change := range map[string]func([]byte) []byte{
		"flipped":   func(b []byte) []byte { b[len(b)-3] ^= 1; return b },
		"truncated": func(b []byte) []byte { return b[:len(b)-1] },
		"missing":   nil,
	} {
		for _, part := range []string{"manifest.zst", "/packs/", "/wal/"} {
			t.Run(harm+" "+part, func(t *testing.T) {
				store := bucket(t)
				key := keyOf(t, store, part)
				body, err := store.Get(t.Context(), key, 1<<20)
				if err != nil {
					t.Fatal(err)
				}
				if err := store.Delete(t.Context(), key); err != nil {
					t.Fatal(err)
				}
				if change != nil {
					if err := store.Put(t.Context(), key, change(body), objstore.PutOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				result, err := run(t, store)
				if err != nil || result.WrongObjects != 1 || len(result.Wrong) != 1 || result.Wrong[0].Object != key {
					t.Fatalf("got %+v, %v", result, err)
				}
				if part == "/packs/" && result.Wrong[0].File == "" {
					t.Errorf("no file is named: %+v", result.Wrong[0])
				}
			})
		}
	}
}

func TestAStoreThatFailsIsAFailureAndTheNextPodReadsAnew(t *testing.T) {
	store := bucket(t)
	for from, done := 1, false; !done; from++ {
		broken := fault.New(store, fault.Plan{Before: func(call fault.Call) error {
			if call.Number >= from {
				return &objstore.Error{Op: "read", Kind: objstore.ErrUnavailable}
			}
			return nil
		}})
		_, err := run(t, broken)
		if done = broken.Calls() < from; done {
			continue
		}
		var failure *job.Failure
		if !errors.As(err, &failure) || failure.Reason != "Unreachable" || failure.Final {
			t.Fatalf("from call %d on: %v", from, err)
		}
		if result, err := run(t, store); err != nil || result.WrongObjects != 0 {
			t.Fatalf("after that: %+v, %v", result, err)
		}
	}
}

func TestAResultFitsIntoATerminationMessage(t *testing.T) {
	var wrong []*backup.CorruptError
	for i := range 200 {
		wrong = append(wrong, &backup.CorruptError{
			Object: fmt.Sprintf("lineages/7-g1/packs/%s/%d", strings.Repeat("b", 90), i),
			File:   strings.Repeat("\x01", 5000), Detail: strings.Repeat("d", 5000),
		})
	}
	for n := range wrong {
		raw, err := json.Marshal(agentapi.VerifyResult{WrongObjects: 200, Wrong: describe(wrong[:n])})
		if err != nil || len(raw) > 3600 {
			t.Fatalf("%d wrong objects make %d bytes: %v", n, len(raw), err)
		}
	}
	if len(describe(wrong)) == 0 {
		t.Error("none is named")
	}
}

func TestAVerificationThatNeedsMoreMemorySaysHowMuchAndWhereToSetIt(t *testing.T) {
	worker := Worker{Store: bucket(t), Memory: 1 << 10, Report: func(job.Progress) {}}
	_, err := worker.Run(t.Context(), task)
	failure := &job.Failure{}
	if !errors.As(err, &failure) || failure.Reason != job.ReasonMemoryTooSmall || !failure.Final || failure.NeedsMemory != 256<<20 ||
		!strings.Contains(err.Error(), "set spec.resources.limits.memory of the Backup to 256Mi or more") {
		t.Errorf("%+v", failure)
	}
}
