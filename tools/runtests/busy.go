package main

import (
	"os"
	"strconv"
	"strings"
)

// cpu is how long the machine's processors have worked and waited, in the kernel's ticks.
type cpu struct{ working, waiting float64 }

// processorTime reads it; a machine that doesn't tell has none.
func processorTime() cpu {
	content, err := os.ReadFile("/proc/stat")
	if err != nil {
		return cpu{}
	}
	line, _, _ := strings.Cut(string(content), "\n")
	return parseProcessorTime(line)
}

// parseProcessorTime reads the line of all processors: user, nice, system, idle, iowait and others, of which the first five, irq
// and softirq are counted.
func parseProcessorTime(line string) (t cpu) {
	for i, field := range strings.Fields(line) {
		ticks, err := strconv.ParseFloat(field, 64)
		switch {
		case err != nil || i > 7:
		case i == 4, i == 5:
			t.waiting += ticks
		default:
			t.working += ticks
		}
	}
	return t
}

// busyShare is the share of the processors that worked between two moments.
func busyShare(from, to cpu) float64 {
	working, waiting := to.working-from.working, to.waiting-from.waiting
	if working+waiting <= 0 {
		return 0
	}
	return working / (working + waiting)
}
