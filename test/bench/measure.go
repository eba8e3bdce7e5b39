package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// measured is what one run of a tool cost.
type measured struct {
	wall     time.Duration
	cpu      time.Duration // user and system, of the tool and its children
	peak     int64         // bytes of memory of all its processes at one time
	stored   int64         // bytes
	objects  int
	segments int // of WAL, where that is what was moved
	machine  processorTime
}

func (m measured) String() string {
	return fmt.Sprintf("%.2f s, CPU %.2f s, %d MiB, stored %.1f MB in %d objects; processors idle %.0f%%, stolen %.0f%%",
		m.wall.Seconds(), m.cpu.Seconds(), m.peak>>20, float64(m.stored)/1e6, m.objects, 100*m.machine.idleShare(), 100*m.machine.stolenShare())
}

// sampling is how often memory is looked at.
const sampling = 20 * time.Millisecond

// measure runs a command, and looks at the memory of its group of processes meanwhile.
func measure(ctx context.Context, cmd *exec.Cmd) (measured, error) {
	var said strings.Builder
	if cmd.Stdout == nil {
		cmd.Stdout = &said
	}
	cmd.Stderr = &said
	before, began := readProcessorTime(), time.Now()
	if err := cmd.Start(); err != nil {
		return measured{}, err
	}
	peak := make(chan int64)
	ctx, cancel := context.WithCancel(ctx)
	go func() { peak <- watchMemory(ctx, cmd.Process.Pid) }()
	err := cmd.Wait()
	wall := time.Since(began)
	cancel()
	result := measured{wall: wall, machine: readProcessorTime().since(before), peak: <-peak, cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
	if err != nil {
		return result, fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, said.String())
	}
	// A process alone has its peak in its account, which sampling may miss.
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		result.peak = max(result.peak, usage.Maxrss<<10)
	}
	return result, nil
}

// watchMemory returns the most that a group of processes had resident at one time. Pages that they share count once for
// each, as top shows them.
func watchMemory(ctx context.Context, group int) (peak int64) {
	ticker := time.NewTicker(sampling)
	defer ticker.Stop()
	watched := processGroup{id: strconv.Itoa(group), others: map[string]bool{}}
	for {
		select {
		case <-ctx.Done():
			return peak
		case <-ticker.C:
			peak = max(peak, watched.memory())
		}
	}
}

// processGroup knows which processes are none of its own: to read them all each time takes the better part of a processor
// from the tool that is measured.
type processGroup struct {
	id     string
	others map[string]bool
}

func (g processGroup) memory() (total int64) {
	folder, err := os.Open("/proc")
	if err != nil {
		return 0
	}
	defer folder.Close()
	names, _ := folder.Readdirnames(-1) // it only misses a sample
	for _, name := range names {
		if g.others[name] {
			continue
		}
		fields := statFields(filepath.Join("/proc", name, "stat"))
		switch {
		case len(fields) <= statResident || fields[statGroup] != g.id:
			g.others[name] = true
		default:
			pages, _ := strconv.ParseInt(fields[statResident], 10, 64) // the kernel writes numbers
			total += pages * int64(os.Getpagesize())
		}
	}
	return total
}

// Places of fields behind the name of the program in /proc/PID/stat.
const (
	statParent   = 1
	statGroup    = 2
	statWaited   = 13 // user and then system time of children that have ended
	statResident = 21
)

// statFields are empty for a process that has ended.
func statFields(file string) []string {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	_, behind, _ := strings.Cut(string(content), ") ")
	return strings.Fields(behind)
}

// tick is the unit of times in /proc, the same on every architecture that PostgreSQL's packages are for.
const tick = 10 * time.Millisecond

// endedChildren is the processor time that children of a process took which have ended.
func endedChildren(pid int) time.Duration {
	fields := statFields(fmt.Sprintf("/proc/%d/stat", pid))
	total := time.Duration(0)
	for _, field := range fields[min(statWaited, len(fields)):min(statWaited+2, len(fields))] {
		ticks, _ := strconv.ParseInt(field, 10, 64) // the kernel writes numbers
		total += time.Duration(ticks) * tick
	}
	return total
}

// awaitEnd returns when a process has no more child with this word in its name.
func awaitEnd(ctx context.Context, parent int, word string) error {
	children := func() bool {
		files, _ := filepath.Glob("/proc/[0-9]*/stat") // fails on a bad pattern only
		return slices.ContainsFunc(files, func(file string) bool {
			fields := statFields(file)
			if len(fields) <= statParent || fields[statParent] != strconv.Itoa(parent) {
				return false
			}
			name, err := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
			// What has ended and wasn't waited for yet has no name any more.
			return err == nil && (len(name) == 0 || strings.Contains(string(name), word))
		})
	}
	for children() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(sampling):
		}
	}
	return nil
}

// counter counts what a tool writes to its standard output.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
