package basebackup

import (
	"errors"
	"strings"
	"testing"

	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/agentapi"
)

func TestABuildWhoseFilesAreDividedOtherwiseIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		block, blocks int64
		good          bool
	}{
		"as it is packaged": {8192, 131072, true}, "larger blocks": {16384, 65536, false}, "as many larger blocks": {16384, 131072, false}, "larger files": {8192, 262144, false}, "unknown": {0, 0, false},
	} {
		source, err := describe(agentapi.BackupJob{}, facts{blockSize: test.block, fileBlocks: test.blocks})
		failure := &job.Failure{}
		if test.good != (err == nil) || err != nil && (!errors.As(err, &failure) || !failure.Final || !strings.Contains(err.Error(), "--with-blocksize")) {
			t.Errorf("%s: %v", name, err)
		}
		if test.good && !source.CheckControl {
			t.Errorf("%s: its control file is not checked", name)
		}
	}
}
