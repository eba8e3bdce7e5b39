package config

import (
	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
)

// failover is what the agents are told of spec.failover, and of an instance that is about to leave its volume: it is fenced. What says nothing but the default is not told: an older agent still computes the
// hash that the controller waits for.
func failover(spec *v1alpha1.Failover, leaving string) *agentapi.Failover {
	if spec == nil {
		if leaving == "" {
			return nil
		}
		spec = &v1alpha1.Failover{}
	}
	told := agentapi.Failover{IsolationSeconds: int(spec.IsolationTimeoutSeconds)}
	if spec.Profile != v1alpha1.FailoverDefault {
		told.Profile = string(spec.Profile)
	}
	if spec.ByMembers() {
		told.Renewal = string(spec.Renewal)
	}
	if spec.PausedUntil != nil {
		told.PausedUntil = spec.PausedUntil.UTC()
	}
	for i := range spec.Instances {
		name := string(spec.Instances[i].Name)
		if priority := spec.Priority(name); priority != agentapi.DefaultPriority {
			if told.Priorities == nil {
				told.Priorities = map[string]int{}
			}
			told.Priorities[name] = int(priority)
		}
		if spec.Instances[i].Never {
			told.Never = append(told.Never, name)
		}
	}
	for _, name := range spec.Fenced {
		told.Fenced = append(told.Fenced, string(name))
	}
	if leaving != "" && !spec.IsFenced(leaving) {
		told.Fenced = append(told.Fenced, leaving)
	}
	if told.Profile == "" && told.Renewal == "" && told.IsolationSeconds == 0 && told.PausedUntil.IsZero() && told.Priorities == nil && told.Never == nil && told.Fenced == nil {
		return nil
	}
	return &told
}
