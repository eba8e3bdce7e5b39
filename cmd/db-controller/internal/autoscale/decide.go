package autoscale

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/statefulset"
	"howdah.dev/howdah/cmd/db-controller/internal/desired"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/flow"
)

const (
	applyPause  = 10 * time.Minute // between two changes
	refusePause = 24 * time.Hour   // after one that was refused
)

// Applies says whether recommended requests are given to running pods.
func Applies(cluster *v1alpha1.PostgresCluster) bool {
	spec := cluster.Spec.Autoscale
	return spec != nil && spec.Resources != nil && spec.Resources.Mode == v1alpha1.AutoscaleApply
}

// Decide records which requests the instances are to have, before one of them gets them. Where nobody wants that any more, they return to those
// of spec.
func Decide(_ context.Context, o *observed.Cluster) flow.Outcome {
	if o.Cluster.Status.Autoscale == nil {
		return flow.Next
	}
	if !Applies(o.Cluster) {
		return withdraw(o)
	}
	target, why := Target(o)
	before := statefulset.Requests(o.Cluster)
	if same(target, before) || Hindrance(o) != "" {
		return flow.Next
	}
	o.Cluster.Status.Autoscale.Applied = &v1alpha1.AppliedRequests{Requests: target, Previous: only(before, target), Reason: why, Since: *observed.TimeOf(o.Now)}
	return flow.Save(v1alpha1.ReasonApplying, fmt.Sprintf("All instances are given requests of %s without a restart, instead of %s. %s", show(target), show(only(before, target)), why))
}

// withdraw returns to the requests of spec, and forgets the others once no pod has them.
func withdraw(o *observed.Cluster) flow.Outcome {
	applied := o.Cluster.Status.Autoscale.Applied
	switch {
	case applied == nil:
		return flow.Next
	case len(applied.Requests) > 0:
		o.Cluster.Status.Autoscale.Applied = &v1alpha1.AppliedRequests{
			Reason: "spec.autoscale.resources.mode is not Apply, so the instances return to spec.resources.requests.", Since: *observed.TimeOf(o.Now),
		}
		return flow.Save(v1alpha1.ReasonApplying, o.Cluster.Status.Autoscale.Applied.Reason)
	case unsettled(o) == "":
		o.Cluster.Status.Autoscale.Applied = nil
	}
	return flow.Next
}

// TakeBack returns to the previous requests, because a pod can't have others; false: it has them, and there is nothing to return to.
func TakeBack(o *observed.Cluster, why string) bool {
	applied := o.Cluster.Status.AppliedRequests()
	if applied == nil || applied.Previous == nil {
		return false
	}
	applied.Requests, applied.Previous, applied.Refused, applied.Since = applied.Previous, nil, observed.Bounded(why, 512), *observed.TimeOf(o.Now)
	return true
}

// Target are the requests that are recommended, no more than the limits, and why.
func Target(o *observed.Cluster) (target corev1.ResourceList, why string) {
	target = corev1.ResourceList{}
	var reasons []string
	status := o.Cluster.Status.Autoscale
	for name, r := range map[corev1.ResourceName]*v1alpha1.ResourceRecommendation{corev1.ResourceCPU: status.CPU, corev1.ResourceMemory: status.Memory} {
		if _, has := o.Cluster.Spec.Resources.Requests[name]; r == nil || !has {
			continue
		}
		request := r.Request
		if limit, limited := o.Cluster.Spec.Resources.Limits[name]; limited && request.Cmp(limit) > 0 {
			request = limit
		}
		target[name] = request.DeepCopy()
		reasons = append(reasons, fmt.Sprintf("%s: %s", name, r.Reason))
	}
	slices.Sort(reasons)
	return target, strings.Join(reasons, " ")
}

// Waits says why what is recommended is not applied yet; empty: it is, or nobody wants it to be.
func Waits(o *observed.Cluster) string {
	if !Applies(o.Cluster) {
		return ""
	}
	if target, _ := Target(o); same(target, statefulset.Requests(o.Cluster)) {
		return ""
	}
	return Hindrance(o)
}

// Hindrance says why no other requests are applied now; empty: nothing speaks against it.
func Hindrance(o *observed.Cluster) string {
	applied := o.Cluster.Status.AppliedRequests()
	if why := underWay(o); why != "" {
		return why
	}
	switch {
	case applied != nil && applied.Refused != "" && o.Now.Sub(applied.Since.Time) < refusePause:
		return "The last change was refused, and the next one is tried a day later: " + applied.Refused
	case applied != nil && o.Now.Sub(applied.Since.Time) < applyPause:
		return "The last change was decided less than ten minutes ago."
	}
	return unsettled(o)
}

// underWay is what else is done to the cluster, during which no size is changed automatically; empty: nothing.
func underWay(o *observed.Cluster) string {
	status := &o.Cluster.Status
	switch {
	case o.Deleting():
		return "The cluster is being deleted."
	case o.Cluster.Spec.Hibernate:
		return "The cluster is hibernated."
	case o.Operation != "":
		return fmt.Sprintf("%s has not ended.", o.Operation)
	case o.BackingUp != "":
		return fmt.Sprintf("Pod %s takes a backup.", o.BackingUp)
	case o.FailoverDrill != nil:
		return fmt.Sprintf("FailoverDrill %s has not ended.", o.FailoverDrill.Name)
	case o.Cluster.Spec.Repair.Paused(o.Now):
		return "spec.repair pauses what is done automatically."
	case status.Cloning() != "":
		return fmt.Sprintf("%s is being cloned again.", status.Cloning())
	case status.Switchover != nil && status.Switchover.State == v1alpha1.SwitchoverRunning:
		return "A switchover has not ended."
	case status.ImageChange != nil:
		return "A change of image has not reached every instance."
	case status.StorageMove != nil && status.StorageMove.Current != nil:
		return fmt.Sprintf("%s is being moved to a new volume.", status.StorageMove.Current.Instance)
	}
	return ""
}

// unsettled names a pod that is not as it is to be.
func unsettled(o *observed.Cluster) string {
	for ordinal := range o.Wanted() {
		pod, name := o.Pod(ordinal), o.Names.Instance(ordinal)
		if pod == nil || !observed.PodReady(pod) {
			return fmt.Sprintf("Pod %s is not ready.", name)
		}
		if resizing, _ := desired.ResizeOf(o, pod); resizing != statefulset.ResizeNot || desired.Changes(o, ordinal) != "" {
			return fmt.Sprintf("Pod %s has yet to be brought up to date.", name)
		}
		if state, _ := statefulset.Adjust(pod, o.Cluster, o.Now); o.Cluster.Status.AppliedRequests() != nil && state != statefulset.ResizeDone {
			return fmt.Sprintf("Pod %s does not have its requests yet.", name)
		}
	}
	return ""
}

// only those of a list that another has.
func only(list, other corev1.ResourceList) corev1.ResourceList {
	few := corev1.ResourceList{}
	for name := range other {
		if quantity, has := list[name]; has {
			few[name] = quantity.DeepCopy()
		}
	}
	return few
}

// same: the target is what there is.
func same(target, there corev1.ResourceList) bool {
	for name, quantity := range target {
		if has := there[name]; has.Cmp(quantity) != 0 {
			return false
		}
	}
	return true
}

func show(list corev1.ResourceList) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(list)) {
		quantity := list[name]
		parts = append(parts, fmt.Sprintf("%s: %s", name, quantity.String()))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
