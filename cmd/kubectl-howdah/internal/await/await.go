// Package await waits until an object says what a person has asked for.
package await

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
)

const (
	interval = 250 * time.Millisecond
	readTime = 10 * time.Second
)

// ErrTimeout and ErrInterrupted are the ends of a wait through which the object never said it.
var (
	ErrTimeout     = errors.New("timed out")
	ErrInterrupted = errors.New("interrupted")
)

// Unanswered says whether a wait ended that way. What was asked for stays then.
func Unanswered(err error) bool { return errors.Is(err, ErrTimeout) || errors.Is(err, ErrInterrupted) }

// Cluster reads a cluster again and again until done says so or fails, and returns what was read last.
func Cluster(ctx context.Context, c client.Client, key client.ObjectKey, limit time.Duration, done func(*v1alpha1.PostgresCluster) (bool, error)) (*v1alpha1.PostgresCluster, error) {
	cluster := &v1alpha1.PostgresCluster{}
	return cluster, Object(ctx, c, key, cluster, limit, func() (bool, error) { return done(cluster) })
}

// Object reads an object again and again until done says so or fails. An API server that is away for a moment doesn't end the
// wait; one that still is at its end is part of the ErrTimeout, like the limit.
func Object(ctx context.Context, c client.Client, key client.ObjectKey, object client.Object, limit time.Duration, done func() (bool, error)) error {
	var unread error
	err := wait.PollUntilContextTimeout(ctx, interval, limit, true, func(context.Context) (bool, error) {
		unread = read(ctx, c, key, object)
		switch {
		case apierrors.IsNotFound(unread):
			return false, unread
		case unread != nil:
			return false, nil
		}
		return done()
	})
	switch {
	case !wait.Interrupted(err):
		return err
	case ctx.Err() != nil: // Ctrl-C
		return ErrInterrupted
	case unread != nil:
		return fmt.Errorf("%w after %s, and %s can't be read: %w", ErrTimeout, limit, key.Name, unread)
	}
	return fmt.Errorf("%w after %s", ErrTimeout, limit)
}

// read has a time limit of its own: it may last a little longer than the wait, and so tells an API server that doesn't
// answer from a wait that is over.
func read(ctx context.Context, c client.Client, key client.ObjectKey, object client.Object) error {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	return c.Get(ctx, key, object)
}
