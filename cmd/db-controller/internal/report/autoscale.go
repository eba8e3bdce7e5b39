package report

import (
	"cmp"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/autoscale"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/agentapi"
)

// reportAutoscale says which sizes fit the load. What was said stays while no agent has measured long enough.
func reportAutoscale(o *observed.Cluster) {
	before := v1alpha1.AutoscaleStatus{}
	if said := o.Cluster.Status.Autoscale; said != nil {
		before = *said
	}
	now := v1alpha1.AutoscaleStatus{Applied: before.Applied, Replicas: reportReplicas(o, before.Replicas)}
	if spec := o.Cluster.Spec.Autoscale; spec != nil && spec.Resources != nil {
		now.CPU = recommended(o, autoscale.CPU, spec.Resources.CPU, before.CPU, func(u *agentapi.Usage) (int64, float64) { return u.CPUMillis, u.ThrottledShare })
		now.Memory = recommended(o, autoscale.Memory, spec.Resources.Memory, before.Memory, func(u *agentapi.Usage) (int64, float64) {
			return u.MemoryBytes, 0
		})
	}
	o.Cluster.Status.Autoscale = nil
	if now != (v1alpha1.AutoscaleStatus{}) {
		o.Cluster.Status.Autoscale = &now
		now.Waiting = autoscale.Waits(o)
	}
}

// reportReplicas says how many replicas fit the load. How many instances there are to be is decided elsewhere, and forgotten with its spec.
func reportReplicas(o *observed.Cluster, before *v1alpha1.AutoscaleReplicasStatus) *v1alpha1.AutoscaleReplicasStatus {
	spec := autoscale.ReplicasOf(o.Cluster)
	if spec == nil {
		return nil
	}
	now := &v1alpha1.AutoscaleReplicasStatus{}
	if before != nil {
		now.Recommended, now.Applied = before.Recommended, before.Applied
	}
	if spec.Mode != v1alpha1.AutoscaleApply {
		now.Applied = nil
	}
	load, unknown := autoscale.LoadOfReplicas(o)
	if unknown == "" {
		now.Recommended = autoscale.RecommendReplicas(*spec, now.Recommended, load, o.Now)
	} else {
		now.Recommended = autoscale.KeepReplicas(*spec, now.Recommended, o.Now)
	}
	now.Waiting = cmp.Or(autoscale.WaitsForInstances(o), unknown)
	return now
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

// reportTuning says what an automatic change of parameters waits for. What was changed is forgotten where nobody wants that any more.
func reportTuning(o *observed.Cluster) {
	status := &o.Cluster.Status
	if o.Cluster.Spec.Tuning != v1alpha1.TuningAutomatic {
		status.AutomaticTuning = nil
		return
	}
	waiting := autoscale.WaitsForTuning(o)
	if status.AutomaticTuning == nil {
		if waiting == "" {
			return
		}
		status.AutomaticTuning = &v1alpha1.AutomaticTuning{}
	}
	status.AutomaticTuning.Waiting = waiting
	if status.AutomaticTuning.Since == nil && waiting == "" {
		status.AutomaticTuning = nil
	}
}
