package config

import (
	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
)

// deepChecks is what the agents are told of spec.deepChecks; nil where it says nothing but the default, as of spec.failover.
func deepChecks(spec *v1alpha1.DeepChecks) *agentapi.DeepChecks {
	if spec == nil {
		return nil
	}
	told := agentapi.DeepChecks{Suspend: spec.Suspend}
	if spec.Interval != nil {
		told.IntervalSeconds = int64(spec.Interval.Seconds())
	}
	if spec.IndexTimeout != nil {
		told.IndexTimeoutSeconds = int64(spec.IndexTimeout.Seconds())
	}
	if told == (agentapi.DeepChecks{}) {
		return nil
	}
	return &told
}
