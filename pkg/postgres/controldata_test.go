package postgres

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

func controlOutput(t testing.TB, name string) string {
	out, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestControlDataOfAServerIsReadWhole(t *testing.T) {
	run := func(_ context.Context, name string, args ...string) ([]byte, error) {
		if name != "/bin15/pg_controldata" || strings.Join(args, " ") != "-D /data" {
			t.Errorf("ran %s %v", name, args)
		}
		return []byte(controlOutput(t, "controldata-15.txt")), nil
	}
	got, err := ReadControlData(t.Context(), run, "/bin15", "/data")
	if err != nil {
		t.Fatal(err)
	}
	stopped := time.Date(2026, 11, 21, 1, 11, 0, 0, time.UTC)
	want := ControlData{
		ControlVersion: 1300, CatalogVersion: 202209061, SystemIdentifier: 7710426041349693516,
		State: StateShutDown, Modified: stopped, Checkpoint: 0x176AD10, Redo: 0x176AD10,
		RedoSegment: "000000010000000000000001", Timeline: 1, PreviousTimeline: 1, CheckpointTime: stopped,
		WALLevel: "replica", MaxConnections: 100, MaxWorkerProcesses: 8, MaxWALSenders: 10, MaxLocksPerXact: 64,
		PageSize: 8192, SegSize: 16 << 20, RelSegBlocks: 131072, ChecksumVersion: 1,
	}
	if got != want || !got.Checksums() || !got.State.Clean() {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestALineThatANewMajorAddedDoesNotDisturb(t *testing.T) {
	out := strings.Replace(controlOutput(t, "controldata-15.txt"), "Mock auth", "Default char data signedness:         signed\nMock auth", 1)
	if _, err := ParseControlData([]byte(out)); err != nil {
		t.Error(err)
	}
}

func TestBrokenControlDataIsRefusedWithTheLineThatIsWrong(t *testing.T) {
	good := controlOutput(t, "controldata-15.txt")
	for name, c := range map[string]struct{ old, new, want string }{
		"a missing line":       {"Bytes per WAL segment:", "Bytes per segment:", `no line "Bytes per WAL segment"`},
		"an unknown state":     {"shut down", "zur Ruhe gekommen", "Database cluster state"},
		"a size no server has": {"16777216", "16777217", "is not a WAL segment size"},
		"a torn file":          {"pg_control version", "WARNING: Calculated CRC checksum does not match value stored in file.\npg_control version", "checksum"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseControlData([]byte(strings.Replace(good, c.old, c.new, 1)))
			if err == nil || !strings.Contains(err.Error(), c.want) || !errors.Is(err, ErrSyntax) {
				t.Errorf("%v", err)
			}
		})
	}
}

func FuzzParseControlData(f *testing.F) {
	f.Add([]byte(controlOutput(f, "controldata-15.txt")))
	f.Fuzz(func(t *testing.T, out []byte) {
		if c, err := ParseControlData(out); err == nil && !ValidSegSize(c.SegSize) {
			t.Errorf("%+v", c)
		}
	})
}
