package postgres

import (
	"errors"
	"strings"
	"testing"
)

func TestAValueIsQuotedForTheConfigurationFile(t *testing.T) {
	got, err := RenderConf([]Parameter{{"work_mem", "4MB"}, {"pg_stat_statements.max", "5"}, {"search_path", `"a'b", c\d`}, {"a", ""}})
	want := "work_mem = '4MB'\npg_stat_statements.max = '5'\nsearch_path = '\"a''b\", c\\\\d'\na = ''\n"
	if err != nil || got != want {
		t.Errorf("%q, %v", got, err)
	}
}

func TestNothingCanBeSmuggledIntoTheConfigurationFile(t *testing.T) {
	for _, p := range []Parameter{
		{"work_mem = 1\nfsync", "off"}, {"", "x"}, {"Work_Mem", "x"}, {"a-b", "x"}, {"1a", "x"}, {"a b", "x"},
		{"a", "x\ny"}, {"a", "x\ry"}, {"a", "x\x00y"},
	} {
		if got, err := RenderConf([]Parameter{p}); !errors.Is(err, ErrParameter) || got != "" {
			t.Errorf("%q: %q, %v", p, got, err)
		}
	}
}

func TestALaterLayerWins(t *testing.T) {
	got := MergeParameters([]Parameter{{"b", "1"}, {"a", "1"}}, []Parameter{{"b", "2"}})
	if len(got) != 2 || got[0] != (Parameter{"a", "1"}) || got[1] != (Parameter{"b", "2"}) {
		t.Errorf("%v", got)
	}
}

func TestWhatBelongsToHowdahIsRefusedByNameWithTheReason(t *testing.T) {
	for name, reason := range map[string]string{
		"listen_addresses": "Services", "port": "port", "unix_socket_group": "sockets", "ssl": "certificates",
		"ssl_max_protocol_version": "certificates", "archive_command": "repository", "restore_command": "Restore",
		"recovery_target_time": "Restore", "primary_conninfo": "instances", "fsync": "loses", "full_page_writes": "backup",
		"log_line_prefix": "JSON", "logging_collector": "JSON", "include": "another file", "data_directory": "agent",
		"allow_alter_system": "supervises", "cluster_name": "instances", "wal_segment_size": "determines it itself",
	} {
		err := CheckParameter(name, "x")
		if !errors.Is(err, ErrParameter) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatIsAPersonsOwnIsAccepted(t *testing.T) {
	for name, value := range map[string]string{
		"shared_buffers": "1GB", "wal_level": "logical", "recovery_prefetch": "on", "log_statement": "ddl", "max_wal_senders": "3",
		"auto_explain.log_min_duration": "1s", "timezone": "Europe/Berlin", "archive_timeout": "0", "shared_preload_libraries": "",
	} {
		if err := CheckParameter(name, value); err != nil {
			t.Error(err)
		}
	}
}

func TestAValueThatWouldLockTheAgentOutIsRefused(t *testing.T) {
	for name, value := range map[string]string{
		"wal_level": "minimal", "max_wal_senders": "0", "superuser_reserved_connections": "many",
	} {
		if err := CheckParameter(name, value); !errors.Is(err, ErrParameter) || !strings.Contains(err.Error(), "write") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEveryRefusalIsNamedAtOnce(t *testing.T) {
	err := CheckParameters(map[string]string{"port": "1", "work_mem": "4MB", "fsync": "off"})
	if err == nil || strings.Count(err.Error(), "\n") != 1 || !strings.Contains(err.Error(), "port") || !strings.Contains(err.Error(), "fsync") {
		t.Errorf("%v", err)
	}
}

func TestWhatHowdahFixesIsWhatItRefuses(t *testing.T) {
	for _, p := range FixedParameters(NewestMajor) {
		if _, isFixed := Fixed(p.Name); !isFixed {
			t.Errorf("%s could be overridden", p.Name)
		}
	}
	for _, p := range DefaultParameters(15, 1<<30, 2) {
		if err := CheckParameter(p.Name, p.Value); err != nil {
			t.Errorf("a default is refused: %v", err)
		}
	}
}

func TestMemoryAndCoresAreDivided(t *testing.T) {
	for _, c := range []struct {
		memory int64
		cores  int
		want   map[string]string
	}{
		{512 * mib, 1, map[string]string{"shared_buffers": "128MB", "effective_cache_size": "384MB", "work_mem": "1720kB", "max_connections": "100", "maintenance_work_mem": "32MB", "max_worker_processes": "9", "max_parallel_workers_per_gather": "0"}},
		{16 * gib, 8, map[string]string{"shared_buffers": "4096MB", "effective_cache_size": "12288MB", "work_mem": "61931kB", "max_connections": "100", "maintenance_work_mem": "1024MB", "max_parallel_workers": "8", "max_parallel_workers_per_gather": "4"}},
		{20 * mib, 64, map[string]string{"shared_buffers": "16MB", "max_worker_processes": "72", "work_mem": "1MB"}},
	} {
		got := map[string]string{}
		for _, p := range DefaultParameters(17, c.memory, c.cores) {
			got[p.Name] = p.Value
		}
		for name, want := range c.want {
			if got[name] != want {
				t.Errorf("%d bytes, %d cores: %s is %q, want %q", c.memory, c.cores, name, got[name], want)
			}
		}
	}
	for _, p := range DefaultParameters(18, 0, 0) {
		if p.Name == "shared_buffers" || p.Name == "max_parallel_workers" || p.Name == "effective_io_concurrency" {
			t.Errorf("%s is set without knowing", p.Name)
		}
	}
}

func FuzzRenderConf(f *testing.F) {
	f.Add("a.b", `x'y\`)
	f.Fuzz(func(t *testing.T, name, value string) {
		got, err := RenderConf([]Parameter{{name, value}})
		if err == nil && strings.Count(got, "\n") != 1 {
			t.Errorf("%q", got)
		}
	})
}
