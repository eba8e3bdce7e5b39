// Package imagechange takes an image over, from spec or from the suite, once a pod without a volume has shown that it can run the cluster, and takes it back
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
	"howdah.dev/howdah/cmd/db-controller/internal/minorupdate"
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

// target is the image that the instances are to run in, and whether nobody has named it; empty: nobody wants another than they run in.
func target(o *observed.Cluster) (image string, automatic bool) {
	spec, status := &o.Cluster.Spec, &o.Cluster.Status
	switch {
	case spec.Image == "" && minorupdate.Automatic(o):
		return minorupdate.Offered(o), true
	case spec.Image == status.Image || spec.Version != status.MajorVersion:
		return "", false
	}
	return spec.Image, false
}

// wantedImage is what the instances are to run in now and they don't; empty: nothing, one that was refused, or one whose time has yet
// to come.
func wantedImage(o *observed.Cluster) (image string, automatic bool) {
	image, automatic = target(o)
	if takenBack(o) || automatic && (minorupdate.Hold(o) != "" || minorupdate.UnderWay(o)) {
		return "", automatic
	}
	return image, automatic
}

// Due is the image that is to be taken over now, once a trial has shown that it can be; empty: there is none.
func Due(o *observed.Cluster) string {
	wanted, automatic := wantedImage(o)
	switch {
	case wanted == "", !o.HasRun(), o.ImageJob.Foreign, o.ImageJob.Deleting, o.ImageJob.Failed:
		return ""
	case automatic && minorupdate.Obstacle(o) != "":
		return ""
	}
	return wanted
}

// UnderWay says whether an image is being tried or has yet to reach all instances.
func UnderWay(o *observed.Cluster) bool {
	return o.Cluster.Status.ImageChange != nil || o.ImageJob.Exists && !o.ImageJob.Foreign && !o.ImageJob.Failed || Due(o) != ""
}

// takenBack says that the image of spec was taken back before, or that of the suite. One that came by itself may be tried once more by
// naming it.
func takenBack(o *observed.Cluster) bool {
	refused, named := o.Cluster.Status.RefusedImage, o.Cluster.Spec.Image
	switch {
	case refused == nil:
		return false
	case named == "":
		return refused.Image == minorupdate.Offered(o)
	}
	return refused.Image == named && !refused.Automatic
}

// Change takes over another image once a pod without a volume has shown that it can run the cluster. Until then, and if it
// can't, everything continues in the image that runs: no other step waits for it.
func (s *Steps) Change(ctx context.Context, o *observed.Cluster) flow.Outcome {
	status := &o.Cluster.Status
	wanted, automatic := wantedImage(o)
	if status.RefusedImage != nil && !takenBack(o) {
		status.RefusedImage = nil
	}
	switch {
	case wanted == "":
		return s.removeTrial(ctx, o)
	case !o.HasRun(): // the init Job shows whether it can
		status.Image = wanted
		return flow.Save(v1alpha1.ReasonApplying, "The image is being changed to "+wanted+".")
	case o.ImageJob.Foreign, o.ImageJob.Deleting, automatic && minorupdate.Obstacle(o) != "":
		return flow.Next
	case !o.ImageJob.Exists && !observed.RollsOut(o):
		return flow.Next // its turn will come
	case !o.ImageJob.Exists:
		return s.begin(ctx, o, wanted)
	case !s.tries(o, wanted):
		return s.removeTrial(ctx, o)
	case o.ImageJob.Complete || o.ImageJob.Done:
		status.ImageChange = &v1alpha1.ImageChange{From: status.Image, To: wanted, MajorVersion: status.MajorVersion, Automatic: automatic}
		status.Image = wanted
		return flow.Save(v1alpha1.ReasonApplying, "The image is being changed to "+wanted+".")
	case automatic && o.ImageJob.Failed: // recorded, as nobody is to find the Job and delete it
		_, message := o.ImageJob.FailureReason()
		return refuse(o, wanted, message, true)
	}
	return flow.Next
}

func refuse(o *observed.Cluster, image, message string, automatic bool) flow.Outcome {
	o.Cluster.Status.RefusedImage = &v1alpha1.RefusedImage{Image: image, Message: message, Automatic: automatic}
	return flow.Save(v1alpha1.ReasonImageRefused, refusedMessage(o))
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
	return wanted.Fits(job) && has.MajorVersion == int(o.Cluster.Status.MajorVersion) && has.PreloadLibraries == preloadLibraries(o) &&
		has.NotBelow == notBelow(o)
}

func preloadLibraries(o *observed.Cluster) string {
	return string(o.Cluster.Spec.PostgreSQL.Parameters["shared_preload_libraries"])
}

// notBelow is the release that runs, for an image that nobody has named: a suite that is taken back takes no server back.
func notBelow(o *observed.Cluster) string {
	if _, automatic := target(o); automatic {
		return o.Cluster.Status.Version
	}
	return ""
}

func (s *Steps) trial(o *observed.Cluster, image string) workload.Job {
	task := agentapi.ImageJob{MajorVersion: int(o.Cluster.Status.MajorVersion), PreloadLibraries: preloadLibraries(o), NotBelow: notBelow(o)}
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

// TakeBack goes back to the image before where the first instance doesn't come up in the new one. A change ends once all run in it. One
// that nobody has asked for is taken back where any replica doesn't come up, for as long as the primary runs in the image before.
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
	case running == o.Reach() && running >= o.Wanted(): // rather than that none runs, as while the cluster hibernates
		status.ImageChange = nil
	case trouble != "" && (running == 0 || minorupdate.UnderWay(o) && primaryRuns(o, change.From)):
		automatic := minorupdate.UnderWay(o)
		status.Image, status.ImageChange = change.From, nil
		return refuse(o, change.To, trouble, automatic)
	}
	return flow.Next
}

func primaryRuns(o *observed.Cluster, image string) bool {
	pod := o.PrimaryPod()
	return pod != nil && imageOf(pod) == image
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
	if refused := status.RefusedImage; o.Cluster.Spec.Image == "" {
		return fmt.Sprintf("The suite's image %s can't run this cluster, whose instances stay on %s: %s It isn't tried again. To try it, set spec.image: %[1]s. To run in another image of PostgreSQL %[4]d, set spec.image to that.",
			refused.Image, status.Image, phrase.Sentence(refused.Message), status.MajorVersion)
	}
	return fmt.Sprintf("The image was reverted from %s to %s: %s Set spec.image to another image of PostgreSQL %d. To retry, set spec.image to %[2]s first.",
		status.RefusedImage.Image, status.Image, phrase.Sentence(status.RefusedImage.Message), status.MajorVersion)
}

// Condition says of an image that spec names how its trial stands, or why it isn't used.
func Condition(o *observed.Cluster) condition.Finding {
	wanted, automatic := wantedImage(o)
	switch {
	case automatic || o.Cluster.Spec.Image == "":
		return condition.Finding{} // see Updated
	case takenBack(o):
		return condition.False(v1alpha1.ReasonImageRefused, refusedMessage(o))
	case wanted == "" || !o.HasRun():
		return condition.Finding{}
	case o.RolloutWait != "":
		return condition.False(v1alpha1.ReasonRestartPending, fmt.Sprintf("The image %s is going to replace %s. %s", wanted, o.Cluster.Status.Image, o.RolloutWait))
	case o.ImageJob.Failed:
		_, message := o.ImageJob.FailureReason()
		return condition.False(v1alpha1.ReasonImageRefused, fmt.Sprintf(
			"The image %s can't run this cluster, whose instances stay on %s: %s Set spec.image to another image of PostgreSQL %d, or delete Job %s to try it again.",
			wanted, o.Cluster.Status.Image, phrase.Sentence(message), o.Cluster.Status.MajorVersion, o.Names.ImageJob()))
	}
	return trying(o, wanted)
}

// trying says how the trial of an image stands.
func trying(o *observed.Cluster, image string) condition.Finding {
	name := o.Names.ImageJob()
	switch {
	case o.ImageJob.Foreign:
		return condition.False(v1alpha1.ReasonNameConflict, fmt.Sprintf(
			"The image %s can't be tried: Job %s already exists and belongs to somebody else. Delete it.", image, name))
	case o.Refused[name] != "":
		return condition.False(v1alpha1.ReasonApplying, fmt.Sprintf("The image %s can't be tried before an instance runs in it: %s", image, o.Refused[name]))
	case o.ImageJob.PodRefused():
		return condition.False(v1alpha1.ReasonPodRefused, fmt.Sprintf("The image %s can't be tried before an instance runs in it. %s", image, o.ImageJob.Message))
	}
	return condition.False(v1alpha1.ReasonApplying, phrase.Sentence(fmt.Sprintf(
		"The image %s is being tried in a separate pod before an instance uses it.%s", image, phrase.Prefixed(" ", o.ImageJob.Trouble()))))
}
