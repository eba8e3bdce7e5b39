package cluster

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/pace"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/postgres"
)

// heedVolumes stops before anything is touched when a volume has seen a later adoption than the status: then the status comes from a
// backup of etcd, and what it says of the data is of no worth. It continues when a person has decided which data to run.
func (r *Reconciler) heedVolumes(_ context.Context, o *observed.Cluster) flow.Outcome {
	ahead := volumesAhead(o)
	if len(ahead) == 0 {
		return stillOutdated(o)
	}
	chosen, wrong := decided(o, ahead)
	if chosen.instance != "" && wrong == "" {
		wrong = r.runChosen(o, chosen)
	}
	if chosen.instance == "" || wrong != "" {
		outcome := flow.Stop(v1alpha1.ReasonStatusOutdated, outdated(o, ahead)+wrong)
		outcome.After = pace.UnknownInterval // what agents say is not watched
		return outcome
	}
	return flow.Save(v1alpha1.ReasonApplying, fmt.Sprintf("The cluster continues with data generation %s of %s, as the annotation %s requests.",
		chosen.generation, chosen.instance, v1alpha1.AnnotationRunData))
}

// stillOutdated stops also while an agent doesn't respond, if it was known before that a volume is ahead: silence takes nothing back.
func stillOutdated(o *observed.Cluster) flow.Outcome {
	ready := meta.FindStatusCondition(o.Cluster.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Reason != v1alpha1.ReasonStatusOutdated || o.Unheard(running) == "" {
		return flow.Next
	}
	outcome := flow.Stop(v1alpha1.ReasonStatusOutdated, ready.Message)
	outcome.After = pace.UnknownInterval
	return outcome
}

func running(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning }

// volumesAhead are the instances whose volumes have seen a later adoption, or another one under the same number, the latest first.
func volumesAhead(o *observed.Cluster) []string {
	status := o.Cluster.Status
	var ahead []string
	for _, name := range slices.Sorted(maps.Keys(o.Agents)) {
		agent := o.Agents[name]
		if agent == nil || agent.Adoption == nil {
			continue
		}
		known := agent.Adoption
		if known.Number > status.Adoptions || known.Number == status.Adoptions && known.DataGeneration != status.DataGeneration {
			ahead = append(ahead, name)
		}
	}
	slices.SortStableFunc(ahead, func(a, b string) int {
		x, y := o.Agents[a].Adoption, o.Agents[b].Adoption
		return cmp.Or(cmp.Compare(y.Number, x.Number), cmp.Compare(y.Timeline, x.Timeline), cmp.Compare(y.Checkpoint, x.Checkpoint))
	})
	return ahead
}

// outdated says what was found, and what a person can do.
func outdated(o *observed.Cluster, ahead []string) string {
	status, newest := o.Cluster.Status, o.Agents[ahead[0]].Adoption
	var have []string
	for _, name := range ahead {
		known := o.Agents[name].Adoption
		have = append(have, fmt.Sprintf("%s has adoption %d with data generation %s (timeline %d, checkpoint %s)",
			name, known.Number, known.DataGeneration, known.Timeline, postgres.LSN(known.Checkpoint)))
	}
	return fmt.Sprintf("The volumes record a later adoption than this status (number %d, data generation %s), as happens when etcd was "+
		"restored from a backup: %s. Nothing is started or changed until you decide which data to run. For the data of the volume: "+
		"kubectl annotate pgc %s -n %s --overwrite %s=%s. To go back to the data that this status names, and lose what was written since: kubectl annotate pgc %[4]s -n %[5]s --overwrite %[6]s=%[8]s.",
		status.Adoptions, status.DataGeneration, strings.Join(have, "; "), o.Cluster.Name, o.Cluster.Namespace, v1alpha1.AnnotationRunData,
		choice{ahead[0], newest.DataGeneration, newest.Number}, choice{o.Names.Instance(o.DataInstance()), status.DataGeneration, newest.Number})
}

// choice is a person's: the data generation to run, the instance that begins it, and the adoption that this replaces. With the number
// in it, a decision that comes back with a backup of etcd decides nothing.
type choice struct {
	instance, generation string
	number               int64
}

func (c choice) String() string { return fmt.Sprintf("%s/%s/%d", c.instance, c.generation, c.number) }

// decided is what a person has decided, or why that is no decision; empty: nothing yet.
func decided(o *observed.Cluster, ahead []string) (choice, string) {
	value := o.Cluster.Annotations[v1alpha1.AnnotationRunData]
	if value == "" {
		return choice{}, ""
	}
	newest := o.Agents[ahead[0]].Adoption
	for _, generation := range []string{newest.DataGeneration, o.Cluster.Status.DataGeneration} {
		for ordinal := range o.Reach() {
			if c := (choice{o.Names.Instance(ordinal), generation, newest.Number}); c.String() == value {
				return c, ""
			}
		}
	}
	return choice{}, fmt.Sprintf(" The annotation is %q, which names no instance, data generation and number of these; write it as above.", value)
}

// runChosen records a person's decision as one more adoption, and returns why it can't be carried out.
func (r *Reconciler) runChosen(o *observed.Cluster, chosen choice) (wrong string) {
	status := &o.Cluster.Status
	if chosen.generation != status.DataGeneration {
		agent := o.Agents[chosen.instance]
		if agent == nil || agent.Adoption == nil || agent.Adoption.DataGeneration != chosen.generation || !agent.Adoption.Whole {
			return fmt.Sprintf(" %s has no complete copy of data generation %s; name another instance.", chosen.instance, chosen.generation)
		}
		if wrong := runOther(o, r.Images, agent.Adoption); wrong != "" {
			return wrong
		}
	}
	status.Adoptions = chosen.number + 1
	status.DataInstance, status.Primary = chosen.instance, chosen.instance
	status.ReleasedDataGenerations = slices.DeleteFunc(status.ReleasedDataGenerations, func(g string) bool { return g == chosen.generation })
	refuseAll(status.VolumeLocks)
	return ""
}

// refuseAll takes the volumes from whoever had them when the backup of etcd was taken: what they hand over may be other data, or the same on another volume,
// and a person has decided since.
func refuseAll(locks []v1alpha1.VolumeLock) {
	for i := range locks {
		locks[i].State, locks[i].Volumes = v1alpha1.VolumeLockRefused, nil
		locks[i].Message = "A person has decided which data the cluster runs on, after the status was found to be outdated."
	}
}

// runOther makes the status that of the data on a volume.
func runOther(o *observed.Cluster, images manager.Images, data *agentapi.Adoption) (wrong string) {
	status, spec := &o.Cluster.Status, o.Cluster.Spec
	if major := int32(data.MajorVersion); major != status.MajorVersion {
		image := images[major]
		if spec.Version == major && spec.Image != "" {
			image = spec.Image
		}
		if image == "" {
			return fmt.Sprintf(" Data generation %s is from PostgreSQL %d, for which no image is known; set spec.version to %[2]d and spec.image.", data.DataGeneration, major)
		}
		status.MajorVersion, status.Version, status.Image = major, fmt.Sprint(major), image
	}
	status.PreviousDataGeneration, status.DataGeneration = status.DataGeneration, data.DataGeneration
	status.SystemIdentifier, status.Timeline = data.SystemIdentifier, 0
	return ""
}
