// Package psql chooses the instance in whose pod psql is started, and the command that starts it.
package psql

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/workload"
)

// Container of a database pod in which PostgreSQL runs.
const container = "postgres"

// Request is what psql is started for.
type Request struct {
	// Instance whose pod it is started in; empty: that of the primary, or with Replica, of a replica.
	Instance string
	Replica  bool
	// Terminal says that a person types and reads.
	Terminal bool
	// Kubectl are the flags with which kubectl finds the same Kubernetes cluster.
	Kubectl []string
}

// Command is the arguments of kubectl that start psql with its own arguments.
func (r Request) Command(ctx context.Context, c client.Client, key client.ObjectKey, args []string) ([]string, error) {
	pod, err := r.pod(ctx, c, key)
	if err != nil {
		return nil, err
	}
	command := append(slices.Clone(r.Kubectl), "--namespace", key.Namespace, "exec", "--stdin")
	if r.Terminal {
		command = append(command, "--tty")
	}
	return append(append(command, pod, "--container", container, "--", "psql"), args...), nil
}

func (r Request) pod(ctx context.Context, c client.Client, key client.ObjectKey) (string, error) {
	cluster := &v1alpha1.PostgresCluster{}
	if err := c.Get(ctx, key, cluster); err != nil {
		return "", err
	}
	switch {
	case r.Instance != "" && r.Replica:
		return "", errors.New("--instance and --replica can't be combined")
	case r.Instance != "":
		return r.named(ctx, c, key)
	case r.Replica:
		return replica(ctx, c, key)
	}
	return primary(ctx, c, cluster)
}

// named refuses the pod of another cluster, into whose database nobody means to type.
func (r Request) named(ctx context.Context, c client.Client, key client.ObjectKey) (string, error) {
	pods, err := instances(ctx, c, key)
	if err != nil {
		return "", err
	}
	var names []string
	for i := range pods {
		names = append(names, pods[i].Name)
	}
	if !slices.Contains(names, r.Instance) {
		return "", fmt.Errorf("PostgresCluster %s has no pod %s; its pods are %v", key.Name, r.Instance, names)
	}
	return r.Instance, nil
}

func replica(ctx context.Context, c client.Client, key client.ObjectKey) (string, error) {
	pods, err := instances(ctx, c, key)
	if err != nil {
		return "", err
	}
	for i := range pods {
		if pods[i].Labels[v1alpha1.LabelRole] == string(v1alpha1.RoleReplica) && ready(&pods[i]) {
			return pods[i].Name, nil
		}
	}
	return "", fmt.Errorf("no replica of PostgresCluster %s is ready; --instance names one that isn't", key.Name)
}

// primary asks the Service first: the primary itself writes where it leads, with or without the controllers.
func primary(ctx context.Context, c client.Client, cluster *v1alpha1.PostgresCluster) (string, error) {
	slice := &discoveryv1.EndpointSlice{}
	err := c.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: cluster.Name + "-rw"}, slice)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return "", err
	}
	if err == nil {
		for _, endpoint := range slice.Endpoints {
			if endpoint.TargetRef != nil && ptr.Deref(endpoint.Conditions.Ready, true) {
				return endpoint.TargetRef.Name, nil
			}
		}
	}
	if apierrors.IsForbidden(err) && cluster.Status.Primary != "" {
		return cluster.Status.Primary, nil
	}
	return "", fmt.Errorf("PostgresCluster %s has no primary that accepts connections; kubectl howdah status %[1]s says why, and --instance names an instance", cluster.Name)
}

func instances(ctx context.Context, c client.Client, key client.ObjectKey) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	err := c.List(ctx, pods, client.InNamespace(key.Namespace), client.MatchingLabels{
		v1alpha1.LabelCluster: key.Name, v1alpha1.LabelComponent: workload.ComponentInstance,
	})
	return pods.Items, err
}

func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
