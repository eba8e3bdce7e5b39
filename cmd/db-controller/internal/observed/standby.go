package observed

import (
	"slices"

	"howdah.dev/howdah/pkg/agentapi"
)

// StandsBy says whether the cluster follows another one, and wasn't promoted yet: nothing has ever served its data.
func StandsBy(o *Cluster) bool { return o.Cluster.Spec.Standby != nil && !o.HasRun() }

// StandbyReport is what the Job of a standby has said; nil: nothing that can be read.
func StandbyReport(o *Cluster) *agentapi.StandbyReport {
	said := &agentapi.StandbyReport{}
	if o.Cluster.Spec.Standby == nil || !o.importSaid(agentapi.StandbyKey, said) || !slices.Contains(standbyStages, said.Stage) {
		return nil
	}
	return said
}

var standbyStages = []agentapi.StandbyStage{agentapi.StandbyRestoring, agentapi.StandbyFollowing, agentapi.StandbyPromoting}
