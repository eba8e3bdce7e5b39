package availability

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/volume"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/phrase"
	"howdah.dev/howdah/pkg/workload"
)

// Remedy is what a person does about a pod of the cluster that Kubernetes refuses to create.
func Remedy(o *observed.Cluster, why string) string {
	users := fmt.Sprintf("On OpenShift, the PostgresCluster needs spec.runAs: {fromNamespace: true}, which can't be set later: delete PostgresCluster %s and create it again with that field (docs/openshift.md).", o.Cluster.Name)
	switch user := o.Cluster.Spec.RunAs; {
	case user != nil && user.FromNamespace:
		users = "Give the ServiceAccount of the pod security context constraints that allow it (docs/openshift.md)."
	case o.HasRun(): // where to delete it would delete the data
		users = "On OpenShift, the PostgresCluster needs spec.runAs: {fromNamespace: true}, which can't be set later: create a new PostgresCluster with that field, and move the data with a Restore (docs/openshift.md)."
	}
	return workload.Remedy(why, users)
}

// refused says that Kubernetes refuses to create the pod of an instance; an empty reason: it has not said so.
func refused(o *observed.Cluster, ordinal int) (reason, message string) {
	set := o.StatefulSet()
	if set == nil {
		return "", ""
	}
	why := o.Refusals[set.UID].Of(o.Names.Instance(ordinal))
	if why == "" {
		return "", ""
	}
	return v1alpha1.ReasonPodRefused, fmt.Sprintf("Kubernetes refuses to create pod %s: %s %s", o.Names.Instance(ordinal), phrase.Sentence(why), Remedy(o, why))
}

// Trouble is PodTrouble of a pod that mounts the volume of an instance.
func Trouble(o *observed.Cluster, ordinal int, pod *corev1.Pod) (reason, message string) {
	reason, message = PodTrouble(pod)
	if field := classless(o, ordinal); reason == v1alpha1.ReasonUnschedulable && field != "" {
		message = fmt.Sprintf("Pod %s can't be scheduled: %s", pod.Name, noClass(o, field))
	}
	return reason, message
}

// classless is the field that names the class of a volume which can't come because no StorageClass provides it; empty: there is none. Kubernetes gives a
// claim the default class when it is created, or later once there is one.
func classless(o *observed.Cluster, ordinal int) (field string) {
	for _, claim := range observed.ClaimsOf(o, ordinal) {
		if claim.Spec.StorageClassName == nil && claim.Status.Phase == corev1.ClaimPending && volume.ClassOf(o.Cluster, claim) == nil {
			if volume.IsWAL(claim) {
				return "spec.storage.wal.storageClassName"
			}
			return "spec.storage.storageClassName"
		}
	}
	return ""
}

func noClass(o *observed.Cluster, field string) string {
	text := fmt.Sprintf("The Kubernetes cluster has no default StorageClass, and %s is not set. Mark a class as default: the claim then uses it automatically.", field)
	if o.HasRun() { // then there is data that would be deleted
		return text
	}
	return text + " Or delete this PostgresCluster and create it again with " + field + "."
}

// silentAfter is how long an agent of a pod that runs may not answer before a person is told what may be in the way.
const silentAfter = time.Minute

// Silent says why the agent of a running pod has not answered for a while, and what to do; empty: it has, or it may be starting.
func Silent(o *observed.Cluster, pod *corev1.Pod) string {
	if pod == nil || !observed.PodRuns(pod) || !pod.DeletionTimestamp.IsZero() || o.Agents[pod.Name] != nil {
		return ""
	}
	silence, is := o.Silent[pod.Name]
	if !is || o.Now.Sub(silence.Since) < silentAfter {
		return ""
	}
	text := "The last error: " + phrase.Sentence(silence.Error)
	switch {
	case workload.NodeLost(pod):
		return fmt.Sprintf("%s Node %s of the pod doesn't respond, either.", text, pod.Spec.NodeName)
	case !silence.Unreached:
		return text
	case o.Cluster.Spec.NetworkPolicy != nil:
		return text + " If NetworkPolicies select the db-controller, allow it to connect to port 8443 of these pods (docs/networking.md)."
	}
	return text + " If NetworkPolicies select these pods, set spec.networkPolicy: {}, or allow port 8443 from the db-controller (docs/networking.md)."
}
