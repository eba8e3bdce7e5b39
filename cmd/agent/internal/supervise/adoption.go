package supervise

import (
	"context"
	"errors"
	"fmt"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/pkg/agentapi"
)

// accept takes a configuration for the latest word of which data the cluster runs on, or refuses it: the volume knows of a later one
// where the store of the API server was restored from a backup. Nothing is started, removed or pointed at under such a configuration.
func (i *instance) accept(ctx context.Context, config agentapi.Config) error {
	told := generation.Adoption{ClusterUID: config.ClusterUID, Number: config.Adoptions, DataGeneration: config.DataGeneration}
	err := i.withRoom(func() error { return i.Volume.Accept(told) })
	i.tellAdoption(ctx)
	i.tellCopies()
	if errors.Is(err, generation.ErrOutdated) {
		return fmt.Errorf("the status of the PostgresCluster is older than the volume: %w; see StatusOutdated in docs/runbooks", err)
	}
	return err
}

// tellCopies publishes which data the volume has whole copies of.
func (i *instance) tellCopies() {
	whole, err := generation.AllCopies(i.Volume)
	if err != nil {
		i.Log.Error("the data on the volume could not be determined", "error", err)
	}
	var copies []agentapi.Copy
	for _, g := range whole {
		copies = append(copies, agentapi.Copy{ID: g.ID, Of: g.DataGeneration()})
	}
	i.set(func(status *agentapi.Status) { status.Copies = copies })
}

// tellAdoption publishes what the volume knows, and what it has of that, for a person who may have to decide.
func (i *instance) tellAdoption(ctx context.Context) {
	known, found, err := i.Volume.Adoption()
	if err != nil || !found {
		return
	}
	told := &agentapi.Adoption{Number: known.Number, DataGeneration: known.DataGeneration}
	if g, err := i.Volume.Resolve(known.DataGeneration); err == nil {
		data := i.known(ctx, known.DataGeneration)
		told.Whole, told.SystemIdentifier, told.MajorVersion = data.whole, g.SystemIdentifier, g.MajorVersion
		told.Timeline, told.Checkpoint = data.timeline, data.checkpoint.LSN
	}
	i.set(func(status *agentapi.Status) { status.Adoption = told })
}
