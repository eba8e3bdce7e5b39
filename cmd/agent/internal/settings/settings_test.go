package settings

import (
	"errors"
	"strings"
	"testing"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

var paths = Paths{SocketDir: "/s", Dir: "/c", TLSDir: "/t", WAL: "/run/howdah/bin/wal", Port: 5432}

func line(t *testing.T, files Files, name string) string {
	t.Helper()
	for l := range strings.Lines(files.Conf) {
		if value, found := strings.CutPrefix(l, name+" = "); found {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func TestTheUserComesBeforeDefaultsAndAfterWhatIsFixed(t *testing.T) {
	config := agentapi.Config{Cluster: "shop", MemoryBytes: 1 << 30, CPUMillis: 1500, Parameters: map[string]string{"work_mem": "64MB", "archive_timeout": "1min"}}
	files, err := Render(config, 17, paths, Replication{})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"work_mem":             "'64MB'",
		"archive_timeout":      "'1min'",
		"shared_buffers":       "'256MB'",
		"max_parallel_workers": "'2'",
		"archive_command":      `'''/run/howdah/bin/wal'' archive ''/s'' "%p"'`,
		"ssl_key_file":         "'/t/tls.key'",
		"listen_addresses":     "'*'",
	} {
		if got := line(t, files, name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if got := strings.Join(files.Arguments(paths), " "); !strings.Contains(got, "-c fsync=on") || strings.Contains(got, "work_mem") {
		t.Errorf("the command line is %s", got)
	}
}

func TestWhatWasChosenForTheSizeIsTold(t *testing.T) {
	config := agentapi.Config{Cluster: "shop", MemoryBytes: 1 << 30, CPUMillis: 1500, Parameters: map[string]string{"work_mem": "64MB"}}
	files, err := Render(config, 17, paths, Replication{VolumeBytes: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"shared_buffers": "256MB", "max_parallel_workers": "2", "max_wal_size": "204MB",
		"work_mem":  "", // the user's
		"fsync":     "", // nobody's choice
		"wal_level": "", // the same for every size
	} {
		if got := files.Tuned[name]; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if files, err = Render(agentapi.Config{Cluster: "shop"}, 17, paths, Replication{}); err != nil || len(files.Tuned) != 0 {
		t.Errorf("of a server of unknown size: %v, %v", files.Tuned, err)
	}
}

func TestWhatIsNotTheUsersIsRefused(t *testing.T) {
	_, err := Render(agentapi.Config{Parameters: map[string]string{"ssl": "off"}}, 17, paths, Replication{})
	if !errors.Is(err, postgres.ErrParameter) {
		t.Error(err)
	}
}

func TestComplaintsAreSentencesOfPostgreSQL(t *testing.T) {
	for name, test := range map[string]struct{ stderr, want string }{
		"two values": {
			"LOG:  skipping missing configuration file \"/x/postgresql.auto.conf\"\n" +
				"LOG:  invalid value for parameter \"a\": \"b\"\nHINT:  Available values: c.\n" +
				"LOG:  1 kB is outside the valid range for parameter \"work_mem\" (64 .. 2147483647)\n" +
				"FATAL:  configuration file \"/x/postgresql.conf\" contains errors\n",
			`invalid value for parameter "a": "b" (Available values: c.); 1 kB is outside the valid range for parameter "work_mem" (64 .. 2147483647)`,
		},
		"a name": {
			"LOG:  unrecognized configuration parameter \"nonsense\" in file \"/x/postgresql.conf\" line 17\nFATAL:  configuration file \"/x\" contains errors\n",
			`unrecognized configuration parameter "nonsense"`,
		},
		"one of the program": {"postgres: superuser_reserved_connections (3) must be less than max_connections (3)\n", "superuser_reserved_connections (3) must be less than max_connections (3)"},
		"silence":            {"", "it says nothing"},
	} {
		if got := complaint(test.stderr); got != test.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestRulesOfAPersonStandBeforeTheLastOneAndAreChecked(t *testing.T) {
	files, err := Render(agentapi.Config{HBA: []string{"hostssl orders web 10.0.0.0/8 cert"}}, 17, paths, Replication{})
	if err != nil || !strings.HasSuffix(files.HBA, "hostssl orders web 10.0.0.0/8 cert\nhostssl all all all scram-sha-256\n") {
		t.Errorf("%s, %v", files.HBA, err)
	}
	if _, err := Render(agentapi.Config{HBA: []string{"host all all all trust"}}, 17, paths, Replication{}); !errors.Is(err, postgres.ErrHBA) {
		t.Error(err)
	}
}

func TestLargeSegmentsHaveRoomInWhateverIsAskedFor(t *testing.T) {
	replication := Replication{VolumeBytes: 100 << 30, SegmentBytes: 64 << 20}
	files, err := Render(agentapi.Config{Cluster: "shop"}, 17, paths, replication)
	if got := line(t, files, "min_wal_size"); got != "'1280MB'" || err != nil {
		t.Errorf("min_wal_size is %s; %v", got, err)
	}
	_, err = Render(agentapi.Config{Cluster: "shop", Parameters: map[string]string{"max_wal_size": "100MB"}}, 17, paths, replication)
	if !errors.Is(err, postgres.ErrParameter) || !strings.Contains(err.Error(), "max_wal_size is 100MB, and a segment of WAL has 64 MB here") {
		t.Errorf("less than two segments: %v", err)
	}
}
