// Package switchover asks for another primary of a cluster and tells what came of it.
package switchover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
)

// Wish is a switchover that a person asks for.
type Wish struct {
	To      string
	Token   string
	Wait    bool
	Timeout time.Duration
}

const (
	interval = 250 * time.Millisecond
	readTime = 10 * time.Second
)

// Ask writes the wish into the cluster, and waits for the answer to it if that is wanted.
func (w Wish) Ask(ctx context.Context, c client.Client, key client.ObjectKey, out io.Writer) error {
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
		fmt.Fprintf(out, "asked for; the answer will be in status.switchover of postgrescluster/%s\n", key.Name)
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
	fmt.Fprintf(out, "%s is the primary now, instead of %s (%s)\n", answer.To, answer.From, time.Since(began).Round(100*time.Millisecond))
	return nil
}

// await waits for the answer that has our token; a later wish of somebody else would never let it come. An API server
// that is away for a moment doesn't end it.
func (w Wish) await(ctx context.Context, c client.Client, key client.ObjectKey) (*v1alpha1.SwitchoverStatus, error) {
	cluster := &v1alpha1.PostgresCluster{}
	var unread error
	err := wait.PollUntilContextTimeout(ctx, interval, w.Timeout, true, func(context.Context) (bool, error) {
		unread = read(ctx, c, key, cluster)
		if unread != nil {
			if apierrors.IsNotFound(unread) {
				return false, unread
			}
			return false, nil
		}
		if asked := cluster.Spec.Switchover; asked == nil || asked.Token != w.Token {
			return false, errors.New("somebody else has changed spec.switchover meanwhile")
		}
		answer := cluster.Status.Switchover
		return answer != nil && answer.Token == w.Token && answer.State != v1alpha1.SwitchoverRunning, nil
	})
	if wait.Interrupted(err) {
		if unread != nil {
			return nil, fmt.Errorf("no answer within %s, and the cluster can't be read: %w; the wish stands", w.Timeout, unread)
		}
		return nil, fmt.Errorf("no answer within %s%s; the wish stands", w.Timeout, said(cluster.Status.Switchover, w.Token))
	}
	return cluster.Status.Switchover, err
}

// read has a time limit of its own: it may last a little longer than the wait, and so tells an API server that doesn't
// answer from a wait that is over.
func read(ctx context.Context, c client.Client, key client.ObjectKey, cluster *v1alpha1.PostgresCluster) error {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	return c.Get(ctx, key, cluster)
}

// said is what was said so far.
func said(answer *v1alpha1.SwitchoverStatus, token string) string {
	if answer == nil || answer.Token != token || answer.Message == "" {
		return ""
	}
	return ": " + answer.Message
}
