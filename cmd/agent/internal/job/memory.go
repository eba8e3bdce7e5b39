package job

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"howdah.dev/howdah/pkg/backup"
)

// Cgroup is where a pod finds its limits.
const Cgroup = "/sys/fs/cgroup"

// ReasonMemoryTooSmall says that the limit of the pod does not suffice for the number of files.
const ReasonMemoryTooSmall = "MemoryTooSmall"

// MemoryFailure is what to say of backup.ErrMemory, with the field that sets the limit; nil: the error is another one.
func MemoryFailure(err error, field string) error {
	lack := &backup.MemoryError{}
	if !errors.As(err, &lack) {
		return nil
	}
	return &Failure{
		Reason: ReasonMemoryTooSmall, Final: true, NeedsMemory: lack.Need,
		Err: fmt.Errorf("%w: set %s to %dMi or more", err, field, lack.Need>>20),
	}
}

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
