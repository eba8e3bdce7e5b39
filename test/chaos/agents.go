package chaos

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/workload"
)

// agentUpgrade has the instances restarted one by one by an agent of another version, and back. Each time, while instances have one and
// the other, the primary's server is killed.
func agentUpgrade(r *round) {
	current := r.agentImage()
	heal := r.healing(func() { r.Must(r.setAgentImage(context.Background(), current)) })
	r.strike()
	for _, image := range []string{r.OldAgent, current} {
		r.Must(r.setAgentImage(r.Context(), image))
		r.until("the db-controller that gives it to pods", recoveryTime, r.isRolledOut)
		r.replaceAll()
		r.until("instances with agents of both versions", recoveryTime, func(ctx context.Context) error {
			with, all, err := r.withAgent(ctx, image)
			if err == nil && (with == 0 || with == all) {
				err = fmt.Errorf("%d of %d have %s", with, all, image)
			}
			return err
		})
		r.Kube("signal", id(r.Subject.primary()), "KILL", "--program", "postgres")
		r.until("all instances with the agent of "+image, recoveryTime, func(ctx context.Context) error {
			with, all, err := r.withAgent(ctx, image)
			if err == nil && with < all {
				err = fmt.Errorf("%d of %d have it", with, all)
			}
			return err
		})
		r.awaitWhole()
	}
	heal()
}

// renewalChange has the primary keep its lease in the other way, and back. Each time its pod is killed at any moment of the change.
func renewalChange(r *round) {
	original := cmp.Or(r.Renewal, v1alpha1.RenewalAPIServer)
	other := v1alpha1.RenewalMembers
	if original == other {
		other = v1alpha1.RenewalAPIServer
	}
	cluster := &v1alpha1.PostgresCluster{ObjectMeta: r.Meta(name)}
	change := func(to Renewal) { r.Merge(cluster, fmt.Sprintf(`{"spec":{"failover":{"renewal":%q}}}`, to)) }
	heal := r.healing(func() { change(original) })
	r.strike()
	for _, to := range []Renewal{other, original} {
		r.primary = r.Subject.primary()
		before := r.started(r.primary)
		change(to)
		r.pass(rand.N(5 * time.Second))
		r.Kube("signal", id(r.primary), "KILL")
		r.awaitServer(before)
		r.awaitWhole()
	}
	heal()
	r.awaitRenewal()
}

// replaceAll asks for something that every instance gets with a new pod.
func (r *round) replaceAll() {
	r.Helper()
	r.Merge(&v1alpha1.PostgresCluster{ObjectMeta: r.Meta(name)}, fmt.Sprintf(`{"spec":{"pods":{"annotations":{"example.com/round":"%d"}}}}`, time.Now().UnixNano()))
}

// withAgent counts the instances whose agent is of an image, and all.
func (r *round) withAgent(ctx context.Context, image string) (with, all int, err error) {
	pods, err := r.pods(ctx)
	for i := range pods {
		if workload.AgentImage(&pods[i]) == image {
			with++
		}
	}
	return with, int(r.instances), err
}

const agentImageFlag = "--agent-image="

// agentImage is what the db-controller gives to new pods.
func (s *Subject) agentImage() string {
	s.Helper()
	_, container, err := s.dbController(s.Context())
	s.Must(err)
	for _, arg := range container.Args {
		if image, is := strings.CutPrefix(arg, agentImageFlag); is {
			return image
		}
	}
	s.Fatalf("the db-controller has no %s", agentImageFlag)
	return ""
}

// setAgentImage changes that, as an upgrade of the suite does.
func (s *Subject) setAgentImage(ctx context.Context, image string) error {
	deployment, container, err := s.dbController(ctx)
	if err != nil {
		return err
	}
	args := slices.DeleteFunc(slices.Clone(container.Args), func(arg string) bool { return strings.HasPrefix(arg, agentImageFlag) })
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
		"containers": []any{map[string]any{"name": container.Name, "args": append(args, agentImageFlag+image)}},
	}}}})
	if err != nil {
		return err
	}
	return s.Patch(ctx, deployment, client.RawPatch("application/strategic-merge-patch+json", patch))
}

// isRolledOut: no pod of the db-controller is left that was started with other arguments.
func (s *Subject) isRolledOut(ctx context.Context) error {
	deployment, _, err := s.dbController(ctx)
	if err != nil {
		return err
	}
	is, wanted := deployment.Status, ptr.Deref(deployment.Spec.Replicas, 1)
	if is.ObservedGeneration < deployment.Generation || is.UpdatedReplicas < wanted || is.AvailableReplicas < wanted || is.Replicas > wanted {
		return fmt.Errorf("%d pods, of which %d are new and %d available", is.Replicas, is.UpdatedReplicas, is.AvailableReplicas)
	}
	return nil
}

func (s *Subject) dbController(ctx context.Context) (*appsv1.Deployment, *corev1.Container, error) {
	list := &appsv1.DeploymentList{}
	if err := s.List(ctx, list, client.InNamespace("howdah-system")); err != nil {
		return nil, nil, err
	}
	for i := range list.Items {
		for j, container := range list.Items[i].Spec.Template.Spec.Containers {
			if container.Name == "db-controller" {
				return &list.Items[i], &list.Items[i].Spec.Template.Spec.Containers[j], nil
			}
		}
	}
	return nil, nil, errors.New("no Deployment runs the db-controller")
}
