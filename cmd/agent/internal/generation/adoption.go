package generation

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// ErrOutdated is an adoption that the volume knows a later one of, or another one under the same number.
var ErrOutdated = errors.New("the volume has seen a later adoption")

// Adoption is which data generation the cluster runs on, and how many times that has changed by the word of the db-controller.
type Adoption struct {
	// ClusterUID is that of the PostgresCluster: one that was created anew counts from the beginning.
	ClusterUID     string `json:"clusterUID"`
	Number         int64  `json:"number"`
	DataGeneration string `json:"dataGeneration"`
}

const adoptionFile = "adoption.json"

// Adoption is the last one that the volume was told of, and false if it was told of none.
func (v Volume) Adoption() (Adoption, bool, error) {
	content, err := os.ReadFile(filepath.Join(string(v), adoptionFile))
	if errors.Is(err, os.ErrNotExist) {
		return Adoption{}, false, nil
	}
	if err != nil {
		return Adoption{}, false, err
	}
	known := Adoption{}
	if err := json.Unmarshal(content, &known); err != nil {
		return Adoption{}, false, fmt.Errorf("%s of the volume can't be read: %w", adoptionFile, err)
	}
	return known, true, nil
}

// Accept records an adoption durably, ahead of everything that is done under it. ErrOutdated: the volume knows a later one, or
// another data generation under the same number, so whoever tells of this one was rolled back. That nothing was ever adopted is not
// recorded.
func (v Volume) Accept(told Adoption) error {
	known, found, err := v.Adoption()
	switch {
	case err != nil:
		return err
	case found && known == told, !found && told.Number == 0:
		return nil
	case found && known.ClusterUID == told.ClusterUID && known.Number >= told.Number:
		return fmt.Errorf("%w: number %d, of data generation %s, while the PostgresCluster is at number %d, of data generation %s",
			ErrOutdated, known.Number, known.DataGeneration, told.Number, told.DataGeneration)
	}
	content, err := json.Marshal(told)
	if err != nil {
		return err
	}
	return WriteFile(filepath.Join(string(v), adoptionFile), append(content, '\n'), fileMode)
}
