// Package switchover asks for another primary of a cluster and tells what came of it.
package switchover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/kubectl-howdah/internal/await"
)

// Request is a switchover that a person asks for.
type Request struct {
	To      string
	Token   string
	Wait    bool
	Timeout time.Duration
}

// Ask writes the request into the cluster, and waits for the answer to it if that is wanted.
func (w Request) Ask(ctx context.Context, c client.Client, key client.ObjectKey, out io.Writer) error {
	cluster := &v1alpha1.PostgresCluster{}
	if err := c.Get(ctx, key, cluster); err != nil {
		return err
	}
	before := cluster.DeepCopy()
	cluster.Spec.Switchover = &v1alpha1.Switchover{To: w.To, Token: w.Token}
	if err := c.Patch(ctx, cluster, client.MergeFrom(before)); err != nil {
		return err
	}
	if !w.Wait {
		fmt.Fprintf(out, "Requested. The result will be in status.switchover of postgrescluster/%s.\n", key.Name)
		return nil
	}
	began := time.Now()
	answer, err := w.await(ctx, c, key)
	if err != nil {
		return err
	}
	if answer.State == v1alpha1.SwitchoverRefused {
		return fmt.Errorf("refused: %s", answer.Message)
	}
	if answer.From == answer.To {
		fmt.Fprintf(out, "%s is the primary already.\n", answer.To)
		return nil
	}
	fmt.Fprintf(out, "%s is now the primary instead of %s. It took %s.\n", answer.To, answer.From, time.Since(began).Round(100*time.Millisecond))
	return nil
}

// await waits for the answer that has our token; a later request of somebody else would never let it come.
func (w Request) await(ctx context.Context, c client.Client, key client.ObjectKey) (*v1alpha1.SwitchoverStatus, error) {
	cluster, err := await.Cluster(ctx, c, key, w.Timeout, func(cluster *v1alpha1.PostgresCluster) (bool, error) {
		if asked := cluster.Spec.Switchover; asked == nil || asked.Token != w.Token {
			return false, errors.New("somebody else has changed spec.switchover in the meantime")
		}
		answer := cluster.Status.Switchover
		return answer != nil && answer.Token == w.Token && answer.State != v1alpha1.SwitchoverRunning, nil
	})
	if await.Unanswered(err) {
		cluster.Namespace, cluster.Name = key.Namespace, key.Name // it may never have been read
		return nil, fmt.Errorf("%w; spec.switchover stays as requested%s\n%s", err, said(cluster.Status.Switchover, w.Token), w.later(cluster))
	}
	return cluster.Status.Switchover, err
}

// later says what comes of a request to which there is no answer yet: it has no end.
func (w Request) later(cluster *v1alpha1.PostgresCluster) string {
	if answer := cluster.Status.Switchover; answer != nil && answer.Token == w.Token {
		return "The switchover has begun; status.switchover will say how it ended. It can only be stopped if the agent of the primary hasn't been asked yet: " + TakeBack(cluster)
	}
	return "The switchover is carried out whenever it can be, even hours later. To take the request back before: " + TakeBack(cluster)
}

// TakeBack is the command that takes a request for a switchover back.
func TakeBack(cluster *v1alpha1.PostgresCluster) string {
	return fmt.Sprintf(`kubectl patch postgrescluster %s -n %s --type=merge -p '{"spec":{"switchover":null}}'`, cluster.Name, cluster.Namespace)
}

// said is what was said so far.
func said(answer *v1alpha1.SwitchoverStatus, token string) string {
	if answer == nil || answer.Token != token || answer.Message == "" {
		return ""
	}
	return ": " + answer.Message
}
