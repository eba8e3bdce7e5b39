package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"howdah.dev/howdah/pkg/agentapi"
)

// knownRepository is the identity of the repository that was found first at the place that WAL goes to; empty: nobody knows it yet.
func (p Paths) knownRepository() (string, error) {
	raw, err := os.ReadFile(filepath.Join(filepath.Dir(p.ConfigFile), filepath.Base(agentapi.RepositoryFile)))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	known := agentapi.Repository{}
	if err := json.Unmarshal(raw, &known); err != nil {
		return "", fmt.Errorf("%s: %w", filepath.Base(agentapi.RepositoryFile), err)
	}
	return known.Identity, nil
}
