package usage

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestTheUseOfAContainerIsWhatItsKernelCounts(t *testing.T) {
	cgroup, now := t.TempDir(), time.Date(2026, 3, 3, 12, 0, 0, 0, time.UTC)
	for name, content := range map[string]string{
		"memory.current": "1000\n", "memory.stat": "anon 500\ninactive_file 200\nactive_file 100\n", "cpu.stat": "usage_usec 2000000\nnr_periods 10\nnr_throttled 4\n",
	} {
		if err := os.WriteFile(filepath.Join(cgroup, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Read(cgroup, now)
	if want := (Sample{At: now, CPU: 2 * time.Second, Periods: 10, Throttled: 4, Memory: 700}); err != nil || s != want {
		t.Fatalf("%+v, %v", s, err)
	}
	if _, err := Read(t.TempDir(), now); err == nil {
		t.Error("no cgroup is a use of nothing")
	}
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
