package job

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// MemoryLimit is that of the container whose control group is at a path, in bytes; 0: there is none, or it can't be read.
func MemoryLimit(cgroup string) int64 {
	for _, name := range []string{"memory.max", "memory/memory.limit_in_bytes"} { // of version 2 and of version 1
		content, err := os.ReadFile(filepath.Join(cgroup, name))
		if err != nil {
			continue
		}
		limit, err := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
		if err != nil || limit >= 1<<60 { // "max", and the number by which version 1 says so
			return 0
		}
		return limit
	}
	return 0
}
