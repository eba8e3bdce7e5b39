package generation

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Reinit is a clone that a person has requested, in place of a copy that may be fit. The volume has the last one.
type Reinit struct {
	// Token of the request.
	Token string `json:"token"`
	// DataGeneration and Replaces are the data and the copy of it that the instance had when it was requested.
	DataGeneration string `json:"dataGeneration,omitempty"`
	Replaces       string `json:"replaces,omitempty"`
	// State and Message as the agent's status has them.
	State   string `json:"state"`
	Message string `json:"message,omitempty"`
	// Attempts that have failed.
	Attempts int `json:"attempts,omitempty"`
	// Past tokens, the oldest first: a request that arrives late is not carried out again.
	Past []string `json:"past,omitempty"`
}

const reinitFile = "reinit.json"

// LastReinit is the one that a volume knows of, and false if it knows of none.
func LastReinit(v Volume) (Reinit, bool, error) {
	content, err := os.ReadFile(filepath.Join(string(v), reinitFile))
	if errors.Is(err, os.ErrNotExist) {
		return Reinit{}, false, nil
	}
	if err != nil {
		return Reinit{}, false, err
	}
	known := Reinit{}
	if err := json.Unmarshal(content, &known); err != nil {
		return Reinit{}, false, fmt.Errorf("%s of the volume can't be read: %w", reinitFile, err)
	}
	return known, true, nil
}

// RecordReinit makes it durable, ahead of everything that is done for it.
func RecordReinit(v Volume, reinit Reinit) error {
	content, err := json.Marshal(reinit)
	if err != nil {
		return err
	}
	return WriteFile(filepath.Join(string(v), reinitFile), append(content, '\n'), fileMode)
}
