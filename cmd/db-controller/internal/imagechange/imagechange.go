// Package imagechange takes an image over from spec once a pod without a volume has shown that it can run the cluster, and takes it back
// where the first instance doesn't come up in it.
package imagechange

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/apply"
	"howdah.dev/howdah/cmd/db-controller/internal/availability"
	"howdah.dev/howdah/cmd/db-controller/internal/component/statefulset"
	"howdah.dev/howdah/cmd/db-controller/internal/condition"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/phrase"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/workload"
)

// Steps that write. Each is a step of a plan.
type Steps struct {
	*apply.Applier
	// Agent of Jobs that are created from now on.
	Agent workload.Agent
}

// patience is how long an instance may take to come up in a new image before that is taken back. What keeps it down for longer
// may be anything else; to go back to what ran is never wrong.
const patience = time.Minute

// wantedImage is what spec wants the instances to run in and they don't; empty: nothing, or one that was taken back.
func wantedImage(o *observed.Cluster) string {
	spec, status := &o.Cluster.Spec, &o.Cluster.Status
	if spec.Image == status.Image || spec.Version != status.MajorVersion || takenBack(o) {
		return ""
	}
	return spec.Image
}

// takenBack says that the image of spec was taken back before.
func takenBack(o *observed.Cluster) bool {
	refused := o.Cluster.Status.RefusedImage
	return refused != nil && refused.Image == o.Cluster.Spec.Image
}

// Change takes over a changed spec.image once a pod without a volume has shown that it can run the cluster. Until then, and if it
// can't, everything goes on in the image that runs: no other step waits for it.
func (s *Steps) Change(ctx context.Context, o *observed.Cluster) flow.Outcome {
	status, wanted := &o.Cluster.Status, wantedImage(o)
	if status.RefusedImage != nil && !takenBack(o) {
		status.RefusedImage = nil
	}
	switch {
	case wanted == "":
		return s.removeTrial(ctx, o)
	case !o.HasRun(): // the init Job shows whether it can
		status.Image = wanted
		return flow.Save(v1alpha1.ReasonApplying, "The image is being changed to "+wanted+".")
	case o.ImageJob.Foreign, o.ImageJob.Deleting:
		return flow.Next
	case !o.ImageJob.Exists:
		return s.begin(ctx, o, wanted)
	case !s.tries(o, wanted):
		return s.removeTrial(ctx, o)
	case o.ImageJob.Complete || o.ImageJob.Done:
		status.ImageChange = &v1alpha1.ImageChange{From: status.Image, To: wanted, MajorVersion: status.MajorVersion}
		status.Image = wanted
		return flow.Save(v1alpha1.ReasonApplying, "The image is being changed to "+wanted+".")
	}
	return flow.Next
}

// begin a trial. Where a quota or a foreign Job is in the way, that is said, and nothing else waits for it.
func (s *Steps) begin(ctx context.Context, o *observed.Cluster, image string) flow.Outcome {
	err := s.trial(o, image).Ensure(ctx, s.Client)
	if err != nil && (workload.Taken(err) != "" || apierrors.IsForbidden(err)) {
		o.Refused[o.Names.ImageJob()] = phrase.Sentence(cmp.Or(workload.Taken(err), err.Error()))
		return flow.Next
	}
	if err != nil {
		return flow.Retry(err)
	}
	return flow.Next
}

func (s *Steps) removeTrial(ctx context.Context, o *observed.Cluster) flow.Outcome {
	if err := workload.Delete(ctx, s.Client, o.Cluster, o.Names.ImageJob(), o.ImageJob); err != nil {
		return flow.Retry(err)
	}
	return flow.Next
}

// tries says whether the Job that exists tries the image for the cluster as it is.
func (s *Steps) tries(o *observed.Cluster, image string) bool {
	job, ok := o.Live[observed.Key("Job", o.Names.ImageJob())].(*batchv1.Job)
	if !ok {
		return false
	}
	wanted, has := s.trial(o, image), agentapi.ImageJob{}
	if json.Unmarshal(workload.InlineSpec(job), &has) != nil {
		return false
	}
	return wanted.Fits(job) && has.MajorVersion == int(o.Cluster.Status.MajorVersion) && has.PreloadLibraries == preloadLibraries(o)
}

func preloadLibraries(o *observed.Cluster) string {
	return string(o.Cluster.Spec.PostgreSQL.Parameters["shared_preload_libraries"])
}

func (s *Steps) trial(o *observed.Cluster, image string) workload.Job {
	task := agentapi.ImageJob{MajorVersion: int(o.Cluster.Status.MajorVersion), PreloadLibraries: preloadLibraries(o)}
	for ordinal := range o.Reach() {
		if agent := o.Agent(ordinal); agent != nil && task.Format == nil {
			task.Format = agent.Format
		}
	}
	return workload.Job{
		Name: o.Names.ImageJob(), Owner: o.Cluster, Cluster: o.Cluster.Name, Component: workload.ComponentImage,
		Image: image, Agent: s.Agent, Args: []string{"image"}, Spec: task, Inline: true,
		ClusterSpec: &o.Cluster.Spec,
		Resources: corev1.ResourceRequirements{
			Requests: small(o.Cluster.Spec.Resources.Requests), Limits: small(o.Cluster.Spec.Resources.Limits),
		},
	}
}

// small are an instance's resources, as a quota may want them, cut to what it takes to start an empty server.
func small(resources corev1.ResourceList) corev1.ResourceList {
	most := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("512Mi")}
	cut := corev1.ResourceList{}
	for name, limit := range most {
		if quantity, set := resources[name]; set {
			if quantity.Cmp(limit) > 0 {
				quantity = limit
			}
			cut[name] = quantity
		}
	}
	return cut
}

// TakeBack goes back to the image before where the first instance doesn't come up in the new one. A change ends once all run in it.
func TakeBack(_ context.Context, o *observed.Cluster) flow.Outcome {
	status := &o.Cluster.Status
	change := status.ImageChange
	switch {
	case change == nil:
		return flow.Next
	case change.To != status.Image || change.MajorVersion != status.MajorVersion: // an Upgrade, or its undoing, has come between
		status.ImageChange = nil
		return flow.Next
	}
	running, trouble := 0, ""
	for ordinal := range o.Reach() {
		pod := o.Pod(ordinal)
		switch {
		case pod == nil || imageOf(pod) != change.To:
		case o.Serving(ordinal):
			running++
		case o.Now.Sub(pod.CreationTimestamp.Time) > patience && trouble == "":
			trouble = troubleOf(o, ordinal, pod)
		}
	}
	switch {
	case running == o.Reach():
		status.ImageChange = nil
	case running == 0 && trouble != "":
		status.Image, status.ImageChange = change.From, nil
		status.RefusedImage = &v1alpha1.RefusedImage{Image: change.To, Message: trouble}
		return flow.Save(v1alpha1.ReasonImageRefused, refusedMessage(o))
	}
	return flow.Next
}

func imageOf(pod *corev1.Pod) string {
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; c.Name == statefulset.ContainerName {
			return c.Image
		}
	}
	return ""
}

// troubleOf is why an instance can't come up by itself; empty: it may be on its way.
func troubleOf(o *observed.Cluster, ordinal int, pod *corev1.Pod) string {
	agent := o.Agent(ordinal)
	reason, message := availability.PodTrouble(pod)
	if reason == v1alpha1.ReasonImageUnavailable || reason == v1alpha1.ReasonUnavailable || agent != nil && agent.State == agentapi.StateFailed {
		if message == "" {
			_, message = availability.InstanceTrouble(o, ordinal)
		}
		return message
	}
	return ""
}

func refusedMessage(o *observed.Cluster) string {
	status := &o.Cluster.Status
	return fmt.Sprintf("The image %s was taken back to %s: %s Set spec.image to another image of PostgreSQL %d; to try the same again, set it to %[2]s first.",
		status.RefusedImage.Image, status.Image, phrase.Sentence(status.RefusedImage.Message), status.MajorVersion)
}

// Condition says of an image that spec wants how its trial stands, or why it isn't used.
func Condition(o *observed.Cluster) condition.Finding {
	status, wanted, name := &o.Cluster.Status, wantedImage(o), o.Names.ImageJob()
	switch {
	case status.RefusedImage != nil && takenBack(o):
		return condition.False(v1alpha1.ReasonImageRefused, refusedMessage(o))
	case wanted == "" || !o.HasRun():
		return condition.Finding{}
	case o.ImageJob.Foreign:
		return condition.False(v1alpha1.ReasonNameConflict, fmt.Sprintf(
			"The image %s can't be tried: Job %s already exists and belongs to somebody else. Delete it.", wanted, name))
	case o.Refused[name] != "":
		return condition.False(v1alpha1.ReasonApplying, fmt.Sprintf("The image %s can't be tried before an instance runs in it: %s", wanted, o.Refused[name]))
	case o.ImageJob.Failed:
		_, message := o.ImageJob.FailureReason()
		return condition.False(v1alpha1.ReasonImageRefused, fmt.Sprintf(
			"The image %s can't run this cluster, whose instances stay on %s: %s Set spec.image to another image of PostgreSQL %d, or delete Job %s to try it again.",
			wanted, status.Image, phrase.Sentence(message), status.MajorVersion, name))
	}
	return condition.False(v1alpha1.ReasonApplying, phrase.Sentence(fmt.Sprintf(
		"The image %s is being tried in a pod of its own before an instance runs in it.%s", wanted, phrase.Prefixed(" ", o.ImageJob.Trouble()))))
}
