// Package retainedvolumes begins a cluster with volumes that a deleted one has left behind. Jobs that only read look at each of them; then it is
// decided, once, which instance has every commit that was acknowledged, and nothing is changed before that was recorded.
package retainedvolumes

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/apply"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/pace"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/workload"
)

// Steps that begin a cluster with volumes. Each is a step of a plan.
type Steps struct {
	*apply.Applier
	Agent workload.Agent
}

// Begin looks at the volumes and records with which of them the cluster begins.
func (s *Steps) Begin(ctx context.Context, o *observed.Cluster) flow.Outcome {
	if o.Begun() || !o.BeginsWithVolumes() {
		return flow.Next
	}
	set, why := choose(o)
	if why != "" {
		return refused(why)
	}
	if why := set.used(); why != "" {
		return flow.Poll(pace.UnknownInterval, v1alpha1.ReasonInspectingVolumes, why)
	}
	if outcome := s.inspect(ctx, o, set); !outcome.Finished() {
		return outcome
	}
	if waits := set.waits(); waits != "" {
		return flow.Poll(pace.UnknownInterval, v1alpha1.ReasonInspectingVolumes, waits)
	}
	begins, why := set.judge()
	if why != "" {
		return refused(why)
	}
	return s.pin(ctx, o, set, begins)
}

func refused(message string) flow.Outcome {
	outcome := flow.Stop(v1alpha1.ReasonVolumesRefused, message+" Nothing was changed on any volume.")
	outcome.After = pace.UnknownInterval // not all of what stands in the way is watched
	return outcome
}

// inspect has a Job look at each volume, all at once. One that was created for another spec is created again.
func (s *Steps) inspect(ctx context.Context, o *observed.Cluster, set *set) flow.Outcome {
	for _, v := range set.volumes {
		name, job := o.Names.InspectionJob(v.Ordinal), s.job(o, set, v)
		switch state := v.Inspection; {
		case state.Deleting:
			return flow.Wait(v1alpha1.ReasonInspectingVolumes, fmt.Sprintf("Job %s is being deleted, and will be created again.", name))
		case v.Job != nil && !fits(job, v):
			if err := workload.Delete(ctx, s.Client, o.Cluster, name, state); err != nil {
				return flow.Retry(err)
			}
			return flow.Wait(v1alpha1.ReasonInspectingVolumes, fmt.Sprintf("Job %s is being created again, as spec has changed, or as what it has found is lost.", name))
		case !state.Exists:
			if err := job.Ensure(ctx, s.Client); err != nil {
				return workload.NotEnsured(err)
			}
		}
	}
	return flow.Next
}

// fits says whether a Job looks for what is looked for now, and whether it can still say what it has found.
func fits(job workload.Job, v *volumeOf) bool {
	spec, err := json.Marshal(job.Spec)
	silent := v.Inspection.Ended() && v.result == nil && v.failed == ""
	return err == nil && bytes.Equal(spec, workload.InlineSpec(v.Job)) && job.Fits(v.Job) && !silent
}

func (s *Steps) job(o *observed.Cluster, set *set, v *volumeOf) workload.Job {
	spec := &o.Cluster.Spec
	return workload.Job{
		Name: o.Names.InspectionJob(v.Ordinal), Owner: o.Cluster, Cluster: o.Cluster.Name, Component: workload.ComponentInspection,
		Image: image(o), Agent: s.Agent, Args: []string{"inspect"}, Inline: true, ClusterSpec: spec,
		Spec:      agentapi.InspectionJob{Identity: string(set.identity), DataGeneration: set.generation(), MajorVersion: int(spec.Version)},
		DataClaim: v.Claim.Name, DataReadOnly: true,
		Resources: corev1.ResourceRequirements{Requests: spec.Resources.Requests, Limits: spec.Resources.Limits},
	}
}

func image(o *observed.Cluster) string {
	if wanted := o.Cluster.Spec.Image; wanted != "" {
		return wanted
	}
	return o.Images[o.Cluster.Spec.Version]
}

// generation that a volume has which was never told of an adoption.
func (s *set) generation() string {
	if s.record != nil {
		return s.record.DataGeneration
	}
	return protocol.DataGeneration(s.identity, 0)
}

// pin records which data the cluster has and who begins, before anything of it is touched.
func (s *Steps) pin(ctx context.Context, o *observed.Cluster, set *set, begins *volumeOf) flow.Outcome {
	status, found := &o.Cluster.Status, begins.result
	status.Identity, status.DataGeneration, status.Adoptions = set.identity, found.DataGeneration, found.Adoptions
	if set.record != nil {
		status.Adoptions = max(status.Adoptions, set.record.Adoptions)
	}
	status.MajorVersion, status.Version = int32(found.MajorVersion), fmt.Sprint(found.MajorVersion)
	status.Image, status.AgentImage = image(o), s.Agent.Image
	status.SystemIdentifier, status.DataInstance = found.SystemIdentifier, o.Names.Instance(begins.Ordinal)
	log.FromContext(ctx).Info("Begins with volumes that were left behind", "identity", set.identity, "instance", status.DataInstance, "generation", status.DataGeneration)
	return flow.Save(v1alpha1.ReasonTakingOver, fmt.Sprintf("The cluster begins with the volume of %s, which was found %q on timeline %d. %s",
		status.DataInstance, found.State, found.Timeline, set.others(begins)))
}

// others says what becomes of the other volumes.
func (s *set) others(begins *volumeOf) string {
	var follow []string
	for _, v := range s.volumes {
		if v != begins && v.Ordinal < s.wanted {
			follow = append(follow, v.instance)
		}
	}
	if len(follow) == 0 {
		return "There is no other volume."
	}
	return fmt.Sprintf("Those of %s follow it.", strings.Join(follow, ", "))
}

// ReleaseInspections removes the Jobs, once what they have found was recorded.
func (s *Steps) ReleaseInspections(ctx context.Context, o *observed.Cluster) flow.Outcome {
	for i := range o.Volumes {
		if job := o.Volumes[i].Job; job != nil && job.DeletionTimestamp.IsZero() {
			if err := s.Remove(ctx, job); err != nil {
				return flow.Retry(err)
			}
		}
	}
	return flow.Next
}

// trouble is why a pod of a Job doesn't run; empty: it does, or has ended.
func trouble(v *volumeOf) string {
	if v.Inspection.Lost(v.now) {
		return workload.LostMessage
	}
	return v.Inspection.Trouble()
}
