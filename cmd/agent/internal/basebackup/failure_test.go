package basebackup

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/backup"
)

func TestABackupThatNeedsMoreMemorySaysHowMuchAndWhereToSetIt(t *testing.T) {
	err := explain(t.Context(), fmt.Errorf("write: %w", &backup.MemoryError{Files: 1_000_000, Need: 768 << 20, Have: 256 << 20}))
	failure := &job.Failure{}
	if !errors.As(err, &failure) || failure.Reason != job.ReasonMemoryTooSmall || !failure.Final || failure.NeedsMemory != 768<<20 ||
		!strings.Contains(err.Error(), "1000000 files") || !strings.Contains(err.Error(), "set spec.resources.limits.memory of the Backup or BackupSchedule to 768Mi or more") {
		t.Errorf("%+v", failure)
	}
}
