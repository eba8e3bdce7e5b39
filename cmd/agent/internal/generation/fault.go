package generation

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Fault is one that the agent has caused for a failover drill. The volume has the last one, so that none is caused twice.
type Fault struct {
	// Token of the request.
	Token string `json:"token"`
	// Fault as the request names it.
	Fault string `json:"fault"`
	// State and Message as the agent's status has them.
	State   string `json:"state"`
	Message string `json:"message,omitempty"`
}

const faultFile = "fault.json"

// LastFault is the one that a volume knows of; zero: it knows of none.
func LastFault(v Volume) (Fault, error) {
	content, err := os.ReadFile(filepath.Join(string(v), faultFile))
	if errors.Is(err, os.ErrNotExist) {
		return Fault{}, nil
	}
	if err != nil {
		return Fault{}, err
	}
	known := Fault{}
	if err := json.Unmarshal(content, &known); err != nil {
		return Fault{}, fmt.Errorf("%s of the volume can't be read: %w", faultFile, err)
	}
	return known, nil
}

// RecordFault makes it durable, ahead of what is done for it.
func RecordFault(v Volume, fault Fault) error {
	content, err := json.Marshal(fault)
	if err != nil {
		return err
	}
	return WriteFile(filepath.Join(string(v), faultFile), append(content, '\n'), fileMode)
}
