package manager

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
)

// gcPercent is how much the heap may grow before it is collected, in percent of what is in use. A controller rests most of
// the time, so it is little work to keep its heap small. GOGC says otherwise.
const gcPercent = 25

// memoryLimitPercent of the limit of the container is where the garbage collector begins to work harder, before the kernel kills the
// process. GOMEMLIMIT says otherwise.
const memoryLimitPercent = 90

func keepMemorySmall() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if limit := memoryLimit("/sys/fs/cgroup"); limit > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit / 100 * memoryLimitPercent)
	}
}

// memoryLimit of the container, in bytes; 0: it has none, or it can't be known.
func memoryLimit(cgroups string) int64 {
	for _, file := range []string{"memory.max", "memory/memory.limit_in_bytes"} { // cgroup v2 and v1
		content, err := os.ReadFile(filepath.Join(cgroups, file))
		if err != nil {
			continue
		}
		limit, err := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
		if err != nil || limit <= 0 || limit > 1<<50 { // v2 says max, and v1 a number that no machine has
			return 0
		}
		return limit
	}
	return 0
}
