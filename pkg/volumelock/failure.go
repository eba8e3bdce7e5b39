package volumelock

import (
	"fmt"
	"time"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
)

// longestMessage bounds that of a failure, in characters: it is repeated in conditions, which have room for 1,024.
const longestMessage = 800

// Fail is why the work is given up: a reason, which is a constant of the API, and a message for a person.
func Fail(reason, format string, args ...any) *v1alpha1.Failure {
	message := []rune(fmt.Sprintf(format, args...))
	if len(message) > longestMessage {
		message = append(message[:longestMessage-1], '…')
	}
	return &v1alpha1.Failure{Reason: reason, Message: string(message)}
}

// Failure is why the lock has failed, or nil: the cluster was deleted, there is a Refusal, or the cluster does not run on what
// was handed over within limit. Zero is no limit.
func (l Lock) Failure(limit time.Duration) *v1alpha1.Failure {
	response := l.Response()
	switch refusal := l.Refusal(); {
	case l.ClusterUID != "" && (l.Gone() || !l.Cluster.DeletionTimestamp.IsZero()):
		return Fail(v1alpha1.ReasonClusterReplaced, "PostgresCluster %s was deleted before it ran on the new data.", l.ClusterName)
	case response != nil && response.Deadline != nil && l.Now.After(response.Deadline.Time) && !l.Running() && !l.RunsNew():
		return Fail(v1alpha1.ReasonMaxDowntimeExceeded, "PostgresCluster %s would have been down for longer than spec.maxDowntime. It says: %s",
			l.ClusterName, State(l.Cluster))
	case refusal != nil:
		return refusal
	case limit > 0 && l.Status.Handover != nil && l.Status.HandedOverAt != nil && l.Now.After(l.Status.HandedOverAt.Add(limit)) && !l.Running():
		return Fail(v1alpha1.ReasonNotStarted, "PostgresCluster %s did not accept connections on the new data within %s. It says: %s",
			l.ClusterName, limit, State(l.Cluster))
	}
	return nil
}

// Refusal is that the db-controller refuses the volumes, or grants none, or nil. To wait for more than an empty grant would leave
// the cluster down without end: a response stays as it is until the request is withdrawn.
func (l Lock) Refusal() *v1alpha1.Failure {
	response := l.Response()
	switch {
	case response == nil:
		return nil
	case response.State == v1alpha1.VolumeLockRefused:
		return Fail(v1alpha1.ReasonVolumeLockRefused, "The db-controller refuses the volumes of PostgresCluster %s. %s", l.ClusterName, flow.Sentence(response.Message))
	case response.State == v1alpha1.VolumeLockGranted && len(response.Volumes) == 0 && l.Status.Handover == nil:
		return Fail(v1alpha1.ReasonVolumeLockRefused, "The db-controller granted no volume of PostgresCluster %s.", l.ClusterName)
	}
	return nil
}
