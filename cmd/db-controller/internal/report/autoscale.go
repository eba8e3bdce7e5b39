package report

import (
	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/autoscale"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/agentapi"
)

// reportAutoscale says which requests fit the load. What was said stays while no agent has measured long enough.
func reportAutoscale(o *observed.Cluster) {
	spec, status := o.Cluster.Spec.Autoscale, &o.Cluster.Status
	before := v1alpha1.AutoscaleStatus{}
	if status.Autoscale != nil {
		before = *status.Autoscale
	}
	if spec == nil || spec.Resources == nil {
		status.Autoscale = nil
		if before.Applied != nil {
			status.Autoscale = &v1alpha1.AutoscaleStatus{Applied: before.Applied}
		}
		return
	}
	now := v1alpha1.AutoscaleStatus{
		Applied: before.Applied,
		CPU:     recommended(o, autoscale.CPU, spec.Resources.CPU, before.CPU, func(u *agentapi.Usage) (int64, float64) { return u.CPUMillis, u.ThrottledShare }),
		Memory: recommended(o, autoscale.Memory, spec.Resources.Memory, before.Memory, func(u *agentapi.Usage) (int64, float64) {
			return u.MemoryBytes, 0
		}),
	}
	status.Autoscale = nil
	if now.CPU != nil || now.Memory != nil || now.Applied != nil {
		status.Autoscale = &now
		now.Waiting = autoscale.Waits(o)
	}
}

func recommended(o *observed.Cluster, kind autoscale.Kind, bounds *v1alpha1.ResourceBounds, before *v1alpha1.ResourceRecommendation, use func(*agentapi.Usage) (int64, float64)) *v1alpha1.ResourceRecommendation {
	if bounds == nil {
		return nil
	}
	load := autoscale.Load{}
	for ordinal := range o.Wanted() {
		agent := o.Agent(ordinal)
		if agent == nil || agent.Usage == nil || agent.Usage.Seconds < autoscale.LeastSeconds {
			continue
		}
		if used, throttled := use(agent.Usage); load.Instance == "" || used > load.Used {
			load = autoscale.Load{Instance: o.Names.Instance(ordinal), Used: used, Throttled: throttled}
		}
	}
	if load.Instance == "" {
		return before
	}
	if limit, limited := o.Cluster.Spec.Resources.Limits[kind.Name]; limited {
		load.Limit = kind.Value(limit)
	}
	return autoscale.Recommend(kind, *bounds, before, load, o.Now)
}
