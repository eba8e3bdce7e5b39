package schedule

import (
	"strings"
	"testing"
	"time"
)

func TestTheNameOfABackupFitsWithTheLongestScheduleName(t *testing.T) {
	long, due := strings.Repeat("s", 41), time.Date(2026, 7, 1, 3, 0, 0, 0, time.FixedZone("", 2*60*60))
	if name := backupName(long, due, 1); !strings.HasSuffix(name, "s-2607010100") {
		t.Error(name)
	}
	if name := backupName(long, due, mostNames); len(name) > 56 || !strings.HasSuffix(name, "-2607010100-9") {
		t.Errorf("%s has %d characters", name, len(name))
	}
}
