// Package reinit asks for a new clone of one replica and tells what came of it.
package reinit

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

// Request is a new clone that a person asks for.
type Request struct {
	Instance           string
	Token              string
	AllowFewerReplicas bool
	Wait               bool
	Timeout            time.Duration
}

// Ask writes the request into the cluster, and waits for the answer to it if that is wanted.
func (r Request) Ask(ctx context.Context, c client.Client, key client.ObjectKey, out io.Writer) error {
	cluster := &v1alpha1.PostgresCluster{}
	if err := c.Get(ctx, key, cluster); err != nil {
		return err
	}
	before := cluster.DeepCopy()
	cluster.Spec.Reinit = &v1alpha1.Reinit{Instance: r.Instance, Token: r.Token, AllowFewerReplicas: r.AllowFewerReplicas}
	if err := c.Patch(ctx, cluster, client.MergeFrom(before)); err != nil {
		return err
	}
	if !r.Wait {
		fmt.Fprintf(out, "Requested. The result will be in status.reinit of postgrescluster/%s.\n", key.Name)
		return nil
	}
	began := time.Now()
	answer, err := r.await(ctx, c, key)
	if err != nil {
		return err
	}
	switch answer.State {
	case v1alpha1.ReinitRefused:
		return fmt.Errorf("refused: %s", answer.Message)
	case v1alpha1.ReinitFailed:
		return fmt.Errorf("failed: %s", answer.Message)
	}
	fmt.Fprintf(out, "%s was cloned again and streams. It took %s. %s\n", answer.Instance, time.Since(began).Round(100*time.Millisecond), answer.Message)
	return nil
}

// await waits for the answer that has our token; a later request of somebody else would never let it come.
func (r Request) await(ctx context.Context, c client.Client, key client.ObjectKey) (*v1alpha1.ReinitStatus, error) {
	cluster, err := await.Cluster(ctx, c, key, r.Timeout, func(cluster *v1alpha1.PostgresCluster) (bool, error) {
		if asked := cluster.Spec.Reinit; asked == nil || asked.Token != r.Token {
			return false, errors.New("somebody else has changed spec.reinit in the meantime")
		}
		answer := cluster.Status.Reinit
		return answer != nil && answer.Token == r.Token && answer.State != v1alpha1.ReinitRunning, nil
	})
	if await.Unanswered(err) {
		return nil, fmt.Errorf("%w; the clone continues if it has begun%s", err, said(cluster.Status.Reinit, r.Token))
	}
	return cluster.Status.Reinit, err
}

// said is what was said so far.
func said(answer *v1alpha1.ReinitStatus, token string) string {
	switch {
	case answer == nil:
		return ""
	case answer.Token != token && answer.State == v1alpha1.ReinitRunning:
		return fmt.Sprintf(": it waits for another request, which clones %s", answer.Instance)
	case answer.Token != token || answer.Message == "":
		return ""
	}
	return ": " + answer.Message
}
