package standbyjob

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// recordFile is in the folder of a data generation that is a standby's. It stays when the data generation is complete, and counts no more then.
const recordFile = "standby.json"

// record is what a volume knows of the standby on it. Each stage is recorded before it begins, and none is left but for the next.
type record struct {
	// Cluster is the UID of the cluster whose standby it is.
	Cluster string `json:"cluster"`
	// Lineage and Backup that the data is from.
	Lineage string `json:"lineage"`
	Backup  string `json:"backup"`
	// Restored: the backup is on the volume, and the next server on it is a standby.
	Restored bool `json:"restored,omitempty"`
	// Order is the promotion that was requested; empty: none was.
	Order agentapi.StandbyPromotion `json:"order,omitempty"`
	// Why another copy is made in this folder: the reason of a StandbyProblem; empty: this is the current copy. Beyond is what it has to replay
	// before it replaces that, and Begun when it was begun.
	Why    string       `json:"why,omitempty"`
	Beyond postgres.LSN `json:"beyond,omitempty"`
	Begun  *time.Time   `json:"begun,omitempty"`
	// Reinitialized is when this copy has replaced another one.
	Reinitialized *time.Time `json:"reinitialized,omitempty"`
	// Left are the lineages that were followed before, separated by spaces.
	Left string `json:"left,omitempty"`
	// Settled: the promoted data was shut down, and only has to be tidied. No server is started on it here any more.
	Settled bool `json:"settled,omitempty"`
}

func (r record) stage() agentapi.StandbyStage {
	switch {
	case !r.Restored:
		return agentapi.StandbyRestoring
	case r.Order == "":
		return agentapi.StandbyFollowing
	}
	return agentapi.StandbyPromoting
}

// heed is the record after something was wanted, and whether that is another one. A request counts only if it is for this cluster, once there is
// data to promote, and none is taken back: that nothing is requested, by whatever lost its memory, says nothing.
func (r record) heed(wanted agentapi.StandbyWanted) (record, bool) {
	switch {
	case wanted.Cluster == "" || wanted.Cluster != r.Cluster || !r.Restored:
		return r, false
	case r.Order == "" && (wanted.Promote == agentapi.PromoteAtEndOfArchive || wanted.Promote == agentapi.PromoteImmediately),
		r.Order == agentapi.PromoteAtEndOfArchive && wanted.Promote == agentapi.PromoteImmediately:
		r.Order = wanted.Promote
		return r, true
	}
	return r, false
}

// hasLeft says whether a lineage was followed before.
func (r record) hasLeft(lineage string) bool {
	return slices.Contains(strings.Fields(r.Left), lineage)
}

// successor is the record of a copy that replaces the one with the record r. A promotion that was requested meanwhile is for that one now.
func (r record) successor(made record, at time.Time) record {
	at = at.UTC().Truncate(time.Second)
	made.Why, made.Beyond, made.Begun = "", 0, r.Begun
	made.Order, made.Reinitialized, made.Left = r.Order, &at, r.Left
	if made.Lineage != r.Lineage {
		made.Left = strings.Join(append(strings.Fields(r.Left), r.Lineage), " ")
	}
	return made
}

// readRecord is empty where there is none.
func readRecord(volume generation.Volume, id string) (record, error) {
	content, err := os.ReadFile(filepath.Join(volume.Dir(id), recordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return record{}, nil
	}
	if err != nil {
		return record{}, err
	}
	found := record{}
	if err := json.Unmarshal(content, &found); err != nil {
		return record{}, fmt.Errorf("%s of data generation %s can't be read, so it isn't known how far the standby is: %w", recordFile, id, err)
	}
	return found, nil
}

func (r record) write(volume generation.Volume, id string) error {
	content, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return generation.WriteFile(filepath.Join(volume.Dir(id), recordFile), append(content, '\n'), 0o600)
}
