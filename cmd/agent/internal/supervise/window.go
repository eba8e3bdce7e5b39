package supervise

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
)

// mayBlock says whether clients may be made to wait at that moment: in the maintenance window, or at any time where there is none.
// What can't be read is no permission.
func (p Paths) mayBlock(now time.Time) bool {
	raw, err := os.ReadFile(filepath.Join(filepath.Dir(p.ConfigFile), filepath.Base(agentapi.WindowFile)))
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	window := agentapi.Period{}
	return err == nil && json.Unmarshal(raw, &window) == nil && window.Has(now)
}
