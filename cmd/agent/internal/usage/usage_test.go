package usage

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestTheUseOfAContainerIsWhatItsKernelCounts(t *testing.T) {
	now := time.Date(2026, 3, 3, 12, 0, 0, 0, time.UTC)
	for version, files := range map[string]map[string]string{
		"version 2": {
			"memory.current": "1000\n", "memory.stat": "anon 500\ninactive_file 200\nactive_file 100\n", "cpu.stat": "usage_usec 2000000\nnr_periods 10\nnr_throttled 4\n",
		},
		"version 1": {
			"memory/memory.usage_in_bytes": "1000\n", "memory/memory.stat": "rss 500\ninactive_file 1\nactive_file 1\ntotal_inactive_file 200\ntotal_active_file 100\n",
			"cpuacct/cpuacct.usage": "2000000000\n", "cpu/cpu.stat": "nr_periods 10\nnr_throttled 4\nthrottled_time 5\n",
		},
	} {
		s, err := Read(cgroupOf(t, files), now)
		if want := (Sample{At: now, CPU: 2 * time.Second, Periods: 10, Throttled: 4, Memory: 700}); err != nil || s != want {
			t.Errorf("%s: %+v, %v", version, s, err)
		}
		for name := range files {
			fewer := maps.Clone(files)
			delete(fewer, name)
			if s, err := Read(cgroupOf(t, fewer), now); err == nil {
				t.Errorf("%s without %s: %+v", version, name, s)
			}
		}
	}
	if _, err := Read(t.TempDir(), now); err == nil {
		t.Error("no cgroup is a use of nothing")
	}
}

func cgroupOf(t *testing.T, files map[string]string) string {
	t.Helper()
	cgroup := t.TempDir()
	for name, content := range files {
		path := filepath.Join(cgroup, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cgroup
}

func TestTheUseOfAnHourIsThatOfAllItsSamples(t *testing.T) {
	s := Sample{At: time.Date(2026, 3, 3, 12, 0, 0, 0, time.UTC), CPU: 2 * time.Second, Periods: 10, Throttled: 4, Memory: 700}
	w := &Window{}
	if used := w.Add(s); used != nil {
		t.Errorf("%+v of one sample", used)
	}
	for range 119 { // half a core, for an hour
		s.At, s.CPU, s.Periods = s.At.Add(30*time.Second), s.CPU+15*time.Second, s.Periods+10
		w.Add(s)
	}
	s.At, s.CPU, s.Periods, s.Throttled, s.Memory = s.At.Add(30*time.Second), s.CPU+60*time.Second, s.Periods+10, s.Throttled+120, 900
	used := w.Add(s)
	if used.CPUMillis != 500 || used.MemoryBytes != 900 || used.ThrottledShare != 0.1 || used.Seconds != 3600 || used.RecentSeconds != 300 || used.RecentCPUMillis != 650 {
		t.Errorf("%+v", used)
	}
	s.At, s.CPU = s.At.Add(time.Minute), time.Second
	if used := w.Add(s); used != nil {
		t.Errorf("%+v of another container", used)
	}
}
