package imagechange

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/workload"
)

// changing is a cluster of three whose last instance runs in the new image, for so long.
func changing(since time.Duration, more func(*observed.Cluster)) func(*observed.Cluster) {
	return func(o *observed.Cluster) {
		observedtest.NewImage(2)(o)
		o.Cluster.Status.ImageChange = &v1alpha1.ImageChange{From: "postgres:17", To: "postgres:17.6", MajorVersion: 17}
		o.Cluster.Spec.Image = "postgres:17.6"
		o.Pod(2).CreationTimestamp = metav1.NewTime(o.Now.Add(-since))
		more(o)
	}
}

func crashing(o *observed.Cluster) {
	observedtest.Unready(o, 2)
	status := observedtest.Waiting("CrashLoopBackOff", "back-off")
	status.Image = "postgres:17.6"
	o.Pod(2).Status.ContainerStatuses = []corev1.ContainerStatus{status}
}

func TestAnImageIsTakenBackWhereTheFirstInstanceDoesNotComeUpInIt(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*observed.Cluster)
		image  string // that is to run
		ends   bool   // the change is over
		why    string
	}{
		"crashes":              {changing(2*time.Minute, crashing), "postgres:17", true, "CrashLoopBackOff"},
		"crashes for a moment": {changing(10*time.Second, crashing), "postgres:17.6", false, ""},
		"can't start": {changing(2*time.Minute, func(o *observed.Cluster) {
			observedtest.Unready(o, 2)
			o.Agents["shop-2"].State, o.Agents["shop-2"].Message = agentapi.StateFailed, "no such library"
		}), "postgres:17", true, "no such library"},
		"is being cloned": {changing(time.Hour, func(o *observed.Cluster) { observedtest.Unready(o, 2) }), "postgres:17.6", false, ""},
		"another runs in it": {changing(time.Hour, func(o *observed.Cluster) {
			crashing(o)
			o.Pod(1).Spec.Containers[0].Image = "postgres:17.6"
		}), "postgres:17.6", false, ""},
		"all run in it": {changing(time.Hour, func(o *observed.Cluster) {
			o.Pod(0).Spec.Containers[0].Image = "postgres:17.6"
			o.Pod(1).Spec.Containers[0].Image = "postgres:17.6"
		}), "postgres:17.6", true, ""},
		"none runs, as it hibernates": {changing(time.Hour, func(o *observed.Cluster) {
			o.Pods = nil
			set := o.StatefulSet()
			set.Spec.Replicas, set.Status.Replicas = ptr.To[int32](0), 0
		}), "postgres:17.6", false, ""},
		"an Upgrade has come between": {changing(time.Hour, func(o *observed.Cluster) {
			crashing(o)
			o.Cluster.Status.MajorVersion = 18
		}), "postgres:17.6", true, ""},
		"a Restore has come between": {changing(time.Hour, func(o *observed.Cluster) {
			crashing(o)
			o.Cluster.Status.Image = "postgres:17.7"
		}), "postgres:17.7", true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := observedtest.Trio(c.change)
			TakeBack(t.Context(), o)
			status := o.Cluster.Status
			if status.Image != c.image || (status.ImageChange == nil) != c.ends {
				t.Errorf("it is to run %s; the change is %+v", status.Image, status.ImageChange)
			}
			if refused := status.RefusedImage; (refused != nil) != (c.why != "") || refused != nil && !strings.Contains(refused.Message, c.why) {
				t.Errorf("refused: %+v", refused)
			}
			if again, _ := wantedImage(o); c.why != "" && again != "" {
				t.Errorf("%s would be tried again and again", again)
			}
		})
	}
}

func TestAConditionSaysHowTheTrialOfAnImageStands(t *testing.T) {
	wants := func(more func(*observed.Cluster)) func(*observed.Cluster) {
		return func(o *observed.Cluster) {
			o.Cluster.Spec.Image = "postgres:17.6"
			more(o)
		}
	}
	for name, c := range map[string]struct {
		change       func(*observed.Cluster)
		reason, says string
	}{
		"nothing is wanted":        {func(*observed.Cluster) {}, "", ""},
		"it is of another version": {wants(func(o *observed.Cluster) { o.Cluster.Spec.Version = 18 }), "", ""},
		"it is tried":              {wants(func(*observed.Cluster) {}), "Applying", "postgres:17.6 is being tried in a separate pod"},
		"its pod waits": {wants(func(o *observed.Cluster) {
			o.ImageJob = workload.State{Exists: true, LivePods: 1, Message: "no node has room"}
		}), "Applying", "no node has room"},
		"it can't run the cluster": {wants(func(o *observed.Cluster) {
			o.ImageJob = workload.State{Exists: true, Failed: true, Outcome: &agentapi.Outcome{Error: &agentapi.JobError{Reason: "BadImage", Message: "PostgreSQL 17 is not installed"}}}
		}), "ImageRefused", "whose instances stay on postgres:17: PostgreSQL 17 is not installed. Set spec.image to another image of PostgreSQL 17, or delete Job shop-image"},
		"a quota":             {wants(func(o *observed.Cluster) { o.Refused = map[string]string{"shop-image": "Exceeded quota."} }), "Applying", "can't be tried before an instance runs in it: Exceeded quota."},
		"somebody else's Job": {wants(func(o *observed.Cluster) { o.ImageJob.Foreign = true }), "NameConflict", "Job shop-image already exists"},
		"it was taken back": {wants(func(o *observed.Cluster) {
			o.Cluster.Status.RefusedImage = &v1alpha1.RefusedImage{Image: "postgres:17.6", Message: "Container postgres waits"}
		}), "ImageRefused", "The image was reverted from postgres:17.6 to postgres:17: Container postgres waits. Set spec.image to another image of PostgreSQL 17. To retry, set spec.image to postgres:17 first."},
	} {
		t.Run(name, func(t *testing.T) {
			if found := Condition(observedtest.Running(c.change)); found.Reason != c.reason || !strings.Contains(found.Message, c.says) {
				t.Errorf("%s: %s", found.Reason, found.Message)
			}
		})
	}
}
