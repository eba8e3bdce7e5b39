package config

import (
	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
)

// repair is what the agents are told of spec.repair; nil where it says nothing but the default, as of spec.failover.
func repair(spec *v1alpha1.Repair) *agentapi.Repair {
	if spec == nil {
		return nil
	}
	told := agentapi.Repair{KeepCopies: spec.KeepReplacedCopies}
	if spec.PausedFrom != nil && spec.PausedUntil != nil {
		told.PausedFrom, told.PausedUntil = spec.PausedFrom.UTC(), spec.PausedUntil.UTC()
	}
	if told == (agentapi.Repair{}) {
		return nil
	}
	return &told
}
