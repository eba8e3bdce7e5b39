package clustercopy

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/workload"
)

// Check is the Job that checks a copy: pg_amcheck over every database, then the assertions. It connects to the copy and does nothing
// else: it has no volume, no bucket and no access to the API server.
type Check struct {
	Name      string
	Owner     client.Object
	Component string
	Agent     workload.Agent
	// Image of PostgreSQL of that version, which the copy runs.
	Image        string
	MajorVersion int32
	Cluster      *v1alpha1.PostgresCluster
	Assertions   []v1alpha1.DrillAssertion
}

// Possible reports that the Secrets that the Job mounts are known.
func (c Check) Possible() bool {
	connection := c.Cluster.Status.Connection
	return connection != nil && connection.SuperuserSecret != ""
}

// bounds of a limit of CPU, where the copy has one: the server does most of the work.
var bounds = workload.Bounds{Most: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}

// Job of the check.
func (c Check) Job() workload.Job {
	connection := c.Cluster.Status.Connection
	task := agentapi.DrillJob{
		Host: connection.Host, MajorVersion: int(c.MajorVersion), Database: applicationDatabase(c.Cluster), SuperuserSecret: connection.SuperuserSecret,
	}
	for _, assertion := range c.Assertions {
		task.Assertions = append(task.Assertions, agentapi.DrillAssertion(assertion))
	}
	return workload.Job{
		Name: c.Name, Owner: c.Owner, Cluster: c.Cluster.Name, Component: c.Component,
		Image: c.Image, Agent: c.Agent, Args: []string{"drill"}, Spec: task,
		ClusterSpec: &c.Cluster.Spec, Replaceable: true,
		ClientTLSSecret: connection.UpgradeSecret, Secrets: map[string][]string{connection.SuperuserSecret: {"password"}},
		Resources: bounds.Limit(corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
		}, &c.Cluster.Spec),
	}
}

// RemoveCheck deletes the Job of a Check. A check changes nothing, so nobody waits until a pod on a lost node is known to have ended.
func RemoveCheck(ctx context.Context, writer client.Client, live client.Reader, owner client.Object, name string, state workload.State, now time.Time) error {
	if err := workload.Remove(ctx, writer, live, owner, name, state); err != nil || !state.Lost(now) {
		return err
	}
	return workload.Abandon(ctx, writer, owner, name, state)
}

func applicationDatabase(cluster *v1alpha1.PostgresCluster) string {
	if b := cluster.Spec.Bootstrap; b != nil && b.Restore != nil && b.Restore.Database != "" {
		return b.Restore.Database
	}
	return "app"
}

// Verdict is what the check has found, as the end of a sentence, and the reason where that is a failure. Damage comes first, for it
// may be why an assertion isn't true.
func Verdict(result agentapi.DrillResult, assertions int) (reason, found string) {
	var failed []string
	for _, f := range result.Failed {
		failed = append(failed, fmt.Sprintf("assertion %s: %s", f.Name, f.Message))
	}
	switch {
	case result.CorruptCount > 0:
		text := fmt.Sprintf(", but pg_amcheck found %d damaged: %s", result.CorruptCount, strings.Join(result.Corrupt, ", "))
		if result.FailedCount > 0 {
			text += fmt.Sprintf("; false assertions: %d", result.FailedCount)
		}
		return v1alpha1.ReasonDataCorrupt, text + "."
	case result.FailedCount > 0:
		return v1alpha1.ReasonAssertionFailed, fmt.Sprintf(", but %d of %d assertions are false: %s.", result.FailedCount, assertions, strings.Join(failed, "; "))
	case assertions == 0:
		return "", "; pg_amcheck found no damage."
	}
	return "", fmt.Sprintf("; pg_amcheck found no damage, and %d of %d assertions are true.", assertions, assertions)
}
