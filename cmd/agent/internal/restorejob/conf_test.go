package restorejob

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/postgres"
)

func TestATargetBecomesParameters(t *testing.T) {
	at := time.Date(2026, 3, 1, 13, 3, 10, 250_000_000, time.FixedZone("", 3600))
	for name, test := range map[string]struct {
		target agentapi.RestoreTarget
		want   string
	}{
		"the end":         {agentapi.RestoreTarget{}, ""},
		"a time, in UTC":  {agentapi.RestoreTarget{Time: &at}, "recovery_target_time = '2026-03-01 12:03:10.25+00'"},
		"a restore point": {agentapi.RestoreTarget{RestorePoint: "it's"}, "recovery_target_name = 'it''s'"},
		"an LSN":          {agentapi.RestoreTarget{LSN: "0/5000090"}, "recovery_target_lsn = '0/5000090'"},
	} {
		t.Run(name, func(t *testing.T) {
			conf, err := postgres.RenderConf(targetParameters(test.target, "current"))
			if err != nil || !strings.Contains(conf, test.want) || !strings.Contains(conf, "recovery_target_action = 'promote'") {
				t.Errorf("%s, %v", conf, err)
			}
			if inclusive := strings.Contains(conf, "recovery_target_inclusive = 'on'"); inclusive == (test.target.LSN != "") {
				t.Errorf("inclusive: %t", inclusive)
			}
		})
	}
}

func TestTheBackupsOwnTimelineNeedsNoHistory(t *testing.T) {
	if got := timeline(2, 2); got != "current" {
		t.Error(got)
	}
	if got := timeline(3, 2); got != "3" {
		t.Error(got)
	}
}

func TestTheTimeOfTheLastTransactionIsRead(t *testing.T) {
	got, found := parseCommitTime("last completed transaction was at log time 2026-11-21 02:46:17.084113+00")
	if !found || !got.Equal(time.Date(2026, 11, 21, 2, 46, 17, 84113000, time.UTC)) {
		t.Errorf("%s, %t", got, found)
	}
	for _, other := range []string{"redo done at 0/902608", "last completed transaction was at log time soon"} {
		if _, found := parseCommitTime(other); found {
			t.Errorf("%q is read", other)
		}
	}
}

func TestLibrariesAreThoseOfTheJobAndNeverThoseOfTheBucket(t *testing.T) {
	r := &restoring{
		task:     agentapi.RestoreJob{PreloadLibraries: "pg_stat_statements"},
		manifest: &backup.Manifest{Header: backup.Header{Cluster: backup.Cluster{Object: []byte(`{"spec":{"postgresql":{"parameters":{"shared_preload_libraries":"evil"}}}}`)}}},
	}
	for _, p := range parameters(r, postgres.ControlData{}, agentapi.RestoreTarget{}) {
		if p.Name == "shared_preload_libraries" && p.Value != "pg_stat_statements" {
			t.Errorf("%s is loaded", p.Value)
		}
	}
}

func TestAFailureHasAReasonAndSaysWhetherToTryAgain(t *testing.T) {
	store := func(kind error) error { return fmt.Errorf("fetch: %w", &objstore.Error{Op: "get", Kind: kind}) }
	for name, test := range map[string]struct {
		err    error
		reason string
		final  bool
	}{
		"a corrupt pack":        {fmt.Errorf("x: %w", &backup.CorruptError{Object: "o"}), ReasonDataCorrupt, true},
		"a pack that is gone":   {&backup.CorruptError{Object: "o", Err: store(objstore.ErrNotFound)}, ReasonDataCorrupt, true},
		"corrupt WAL":           {fmt.Errorf("x: %w", wal.ErrCorrupt), ReasonDataCorrupt, true},
		"a store that is away":  {store(objstore.ErrUnavailable), ReasonStore, false},
		"a key that is refused": {store(objstore.ErrDenied), ReasonStore, false},
		"a full volume":         {fmt.Errorf("write: %w", unix.ENOSPC), ReasonNoSpace, true},
		"what was decided":      {job.Final(ReasonUnreachable, errors.New("x")), ReasonUnreachable, true},
	} {
		failure := &job.Failure{}
		if err := classify(test.err, "", false); !errors.As(err, &failure) || failure.Reason != test.reason || failure.Final != test.final {
			t.Errorf("%s: %+v", name, failure)
		}
	}
	if failure := new(job.Failure); errors.As(classify(errors.New("x"), "", false), &failure) {
		t.Errorf("an unknown error has reason %s", failure.Reason)
	}
}

func TestWhatPostgreSQLSaidLastIsToldWithItsReason(t *testing.T) {
	r := &restoring{task: agentapi.RestoreJob{Lineage: "7-g0", LastWAL: "000000020000000000000009", Target: agentapi.RestoreTarget{LSN: "0/9000000"}}}
	for said, test := range map[string]struct{ lacked, reason, part string }{
		"could not write to file \"pg_wal/xlogtemp.7\": No space left on device": {"", ReasonNoSpace, "raise spec.storage.size"},
		"FATAL: recovery ended before configured recovery target was reached":    {"", ReasonUnreachable, "doesn't lead to LSN 0/9000000"},
		"recovery ended before configured recovery target was reached":           {"000000010000000000000005", ReasonUnreachable, "segment 000000010000000000000005 of lineage 7-g0"},
	} {
		failure := &job.Failure{}
		if err := classify(r.complaint(said, test.lacked), "", true); !errors.As(err, &failure) || !failure.Final || failure.Reason != test.reason || !strings.Contains(err.Error(), test.part) {
			t.Errorf("%s: %v", said, err)
		}
	}
}

func TestReplayUsesAQuarterOfTheJobsMemoryAndNoHugePages(t *testing.T) {
	for bytes, want := range map[int64]string{0: "", 512 << 20: "128MB", 8 << 30: "2048MB"} {
		r := &restoring{Worker: Worker{Memory: bytes}, manifest: &backup.Manifest{}}
		got := map[string]string{}
		for _, p := range parameters(r, postgres.ControlData{}, agentapi.RestoreTarget{}) {
			got[p.Name] = p.Value
		}
		if got["shared_buffers"] != want || got["huge_pages"] != "off" {
			t.Errorf("of %d bytes: %q, huge_pages %q", bytes, got["shared_buffers"], got["huge_pages"])
		}
	}
}

func TestAServerWithLargeSegmentsHasRoomForTwoOfThem(t *testing.T) {
	r := &restoring{manifest: &backup.Manifest{}}
	got := map[string]string{}
	for _, p := range parameters(r, postgres.ControlData{SegSize: 64 << 20}, agentapi.RestoreTarget{}) {
		got[p.Name] = p.Value
	}
	if got["min_wal_size"] != "256MB" {
		t.Errorf("min_wal_size is %q", got["min_wal_size"])
	}
}
