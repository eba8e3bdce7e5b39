// Package usage says what CPU and memory a container uses, from its cgroup.
package usage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
)

// Sample is what the kernel has counted at one time.
type Sample struct {
	At        time.Time
	CPU       time.Duration // that was used, since the container began
	Periods   int64         // of a CPU limit, and in how many of them the container was stopped
	Throttled int64
	Memory    int64 // bytes without those of files, which the kernel takes back when it needs them
}

// Read a cgroup: of version 2, or of version 1, which has a folder for each controller.
func Read(cgroup string, now time.Time) (Sample, error) {
	sample, err := readV2(cgroup)
	if errors.Is(err, fs.ErrNotExist) {
		if old, oldErr := readV1(cgroup); oldErr == nil {
			sample, err = old, nil
		}
	}
	if err != nil {
		return Sample{}, err
	}
	sample.At = now
	return sample, nil
}

func readV2(cgroup string) (Sample, error) {
	current, err := number(cgroup, "memory.current")
	if err != nil {
		return Sample{}, err
	}
	memory, err := fields(cgroup, "memory.stat")
	if err != nil {
		return Sample{}, err
	}
	cpu, err := fields(cgroup, "cpu.stat")
	if err != nil {
		return Sample{}, err
	}
	return Sample{
		CPU: time.Duration(cpu["usage_usec"]) * time.Microsecond, Periods: cpu["nr_periods"], Throttled: cpu["nr_throttled"],
		Memory: max(0, current-memory["inactive_file"]-memory["active_file"]),
	}, nil
}

func readV1(cgroup string) (Sample, error) {
	current, err := number(cgroup, "memory/memory.usage_in_bytes")
	if err != nil {
		return Sample{}, err
	}
	memory, err := fields(cgroup, "memory/memory.stat")
	if err != nil {
		return Sample{}, err
	}
	used, err := number(cgroup, "cpuacct/cpuacct.usage")
	if err != nil {
		return Sample{}, err
	}
	cpu, err := fields(cgroup, "cpu/cpu.stat")
	if err != nil {
		return Sample{}, err
	}
	return Sample{
		CPU: time.Duration(used), Periods: cpu["nr_periods"], Throttled: cpu["nr_throttled"],
		Memory: max(0, current-memory["total_inactive_file"]-memory["total_active_file"]),
	}, nil
}

// number that is all that a file has.
func number(cgroup, name string) (int64, error) {
	content, err := os.ReadFile(filepath.Join(cgroup, name))
	if err != nil {
		return 0, err
	}
	value, err := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return value, nil
}

// fields of a file with a name and a number in each line.
func fields(cgroup, name string) (map[string]int64, error) {
	content, err := os.ReadFile(filepath.Join(cgroup, name))
	if err != nil {
		return nil, err
	}
	values := map[string]int64{}
	for line := range strings.Lines(string(content)) {
		key, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		if value, err := strconv.ParseInt(text, 10, 64); err == nil {
			values[key] = value
		}
	}
	return values, nil
}

// Window has the samples of the last hour. Only one goroutine uses it.
type Window struct{ samples []Sample }

const (
	length = time.Hour
	recent = 5 * time.Minute
)

// Add a sample, and say what was used in the window; nil: it takes two samples to know.
func (w *Window) Add(s Sample) *agentapi.Usage {
	if n := len(w.samples); n > 0 && s.CPU < w.samples[n-1].CPU {
		w.samples = nil // another container counts
	}
	w.samples = append(w.samples, s)
	w.samples = slices.DeleteFunc(w.samples, func(old Sample) bool { return s.At.Sub(old.At) > length })
	if len(w.samples) < 2 {
		return nil
	}
	first := w.samples[0]
	used := &agentapi.Usage{Seconds: int64(s.At.Sub(first.At).Seconds())}
	var rates []int64
	for i, one := range w.samples {
		used.MemoryBytes = max(used.MemoryBytes, one.Memory)
		if i == 0 {
			continue
		}
		before := w.samples[i-1]
		if took := one.At.Sub(before.At); took > 0 {
			rates = append(rates, int64(1000*(one.CPU-before.CPU)/took))
		}
	}
	if len(rates) > 0 {
		slices.Sort(rates)
		used.CPUMillis = rates[len(rates)*95/100]
	}
	since := w.samples[slices.IndexFunc(w.samples, func(old Sample) bool { return s.At.Sub(old.At) <= recent })]
	if took := s.At.Sub(since.At); took > 0 {
		used.RecentSeconds, used.RecentCPUMillis = int64(took.Seconds()), int64(1000*(s.CPU-since.CPU)/took)
	}
	if periods := s.Periods - first.Periods; periods > 0 {
		used.ThrottledShare = float64(s.Throttled-first.Throttled) / float64(periods)
	}
	return used
}
