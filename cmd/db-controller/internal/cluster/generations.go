package cluster

import (
	"context"
	"slices"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/flow"
)

// releaseGenerations records which data generations nobody needs any longer; the instances are told with their configuration.
func releaseGenerations(_ context.Context, o *observed.Cluster) flow.Outcome {
	status := &o.Cluster.Status
	if slices.Equal(o.Released, status.ReleasedDataGenerations) {
		return flow.Next
	}
	status.ReleasedDataGenerations = o.Released
	if slices.Contains(o.Released, status.PreviousDataGeneration) {
		status.PreviousDataGeneration = ""
	}
	return flow.Save(v1alpha1.ReasonApplying, "Data that is no longer needed is being removed.")
}
