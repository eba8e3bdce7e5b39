// Package rollout bounds to how many clusters a change is rolled out at a time, where it takes down what runs, and has canaries run in a
// new image first.
package rollout

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/availability"
	"howdah.dev/howdah/cmd/db-controller/internal/imagechange"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/rolling"
	"howdah.dev/howdah/pkg/flow"
)

// Settings of the suite's administrator.
type Settings struct {
	// MaxConcurrent clusters to which changes are rolled out at a time; 0 means unlimited.
	MaxConcurrent int
	// CanaryNamespaces are those whose canaries count for all clusters, and not only for their neighbours.
	CanaryNamespaces []string
}

// Steps that decide. Each is a step of a plan.
type Steps struct {
	Client           client.Reader
	Limit            *Limit
	CanaryNamespaces []string
}

// Admit records that the cluster begins with a change that takes down what runs. Until it is its turn, everything else continues.
func (s *Steps) Admit(ctx context.Context, o *observed.Cluster) flow.Outcome {
	name, status := client.ObjectKeyFromObject(o.Cluster), &o.Cluster.Status
	switch {
	case status.Rollout != nil && ended(o):
		status.Rollout = nil // once that is written, it is another's turn
		return flow.Next
	case status.Rollout != nil:
		s.Limit.Rolling(name, status.Rollout.StartedAt.Time)
		return flow.Next
	case !begins(o):
		s.Limit.Done(name)
		return flow.Next
	}
	wait, err := s.waits(ctx, o)
	if err != nil {
		return flow.Retry(err)
	}
	if o.RolloutWait = wait; wait != "" {
		return flow.Next
	}
	status.Rollout = &v1alpha1.RolloutStatus{StartedAt: metav1.NewTime(o.Now)}
	return flow.Save(v1alpha1.ReasonApplying, "A change is being rolled out to the instances.")
}

// begins says whether the cluster would take something down, or try an image, if it may.
func begins(o *observed.Cluster) bool {
	return !observed.Rests(o) && (rolling.Due(o) || imagechange.Due(o) != "")
}

// ended says whether nothing is left to do. What can't be known now is assumed to be as before.
func ended(o *observed.Cluster) bool {
	if observed.Rests(o) {
		return true
	}
	if rolling.Pending(o) || imagechange.UnderWay(o) {
		return false
	}
	for ordinal := range o.Wanted() {
		if availability.Unsettled(o, ordinal) != "" {
			return false
		}
	}
	return true
}

func (s *Steps) waits(ctx context.Context, o *observed.Cluster) (string, error) {
	if err := s.Limit.Recover(func() (map[types.NamespacedName]time.Time, error) { return s.begun(ctx) }); err != nil {
		return "", err
	}
	if image := imagechange.Due(o); image != "" {
		wait, err := s.awaitsCanary(ctx, o, image)
		if wait != "" || err != nil {
			return wait, err
		}
	}
	return s.Limit.Begin(client.ObjectKeyFromObject(o.Cluster)), nil
}

func (s *Steps) awaitsCanary(ctx context.Context, o *observed.Cluster, image string) (string, error) {
	if o.Cluster.Labels[v1alpha1.LabelCanary] == "true" {
		return "", nil
	}
	var canaries v1alpha1.PostgresClusterList
	if err := s.Client.List(ctx, &canaries, client.MatchingLabels{v1alpha1.LabelCanary: "true"}); err != nil {
		return "", fmt.Errorf("list canaries: %w", err)
	}
	return awaitsCanary(countFor(canaries.Items, o.Cluster.Namespace, s.CanaryNamespaces), image), nil
}

func (s *Steps) begun(ctx context.Context) (map[types.NamespacedName]time.Time, error) {
	var clusters v1alpha1.PostgresClusterList
	if err := s.Client.List(ctx, &clusters); err != nil {
		return nil, fmt.Errorf("list clusters to which a change is rolled out: %w", err)
	}
	begun := map[types.NamespacedName]time.Time{}
	for i := range clusters.Items {
		if rollout := clusters.Items[i].Status.Rollout; rollout != nil {
			begun[client.ObjectKeyFromObject(&clusters.Items[i])] = rollout.StartedAt.Time
		}
	}
	return begun, nil
}
