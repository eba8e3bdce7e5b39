package ownwrites

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
)

// View is one cluster as this process reads it in one pass: through the cache and its own writes.
type View struct {
	memory      *Memory
	cluster     *v1alpha1.PostgresCluster
	cache, live client.Reader
	now         func() time.Time
	// begun and complete are as they were when the pass began: see Begun and Complete.
	begun, complete bool
	// lags: something was read from memory.
	lags bool
}

// Stale reports that the cache still shows a version of the PostgresCluster that this process has overwritten.
func (v *View) Stale() (stale bool) {
	v.memory.of(v.cluster, func(m *memory) { stale = m.overwrote(v.cluster.ResourceVersion, v.now()) })
	return stale
}

// Overwrote remembers the versions of the PostgresCluster that the pass has written over.
func (v *View) Overwrote(versions []string) {
	v.memory.of(v.cluster, func(m *memory) { m.overwritten, m.overwrittenAt = versions, v.now() })
}

// Begin says that this process begins the cluster: it writes the first thing that there is of it. It counts from the next pass on.
func (v *View) Begin() { v.memory.of(v.cluster, func(m *memory) { m.begun = true }) }

// Doubt says that something has failed, so the next passes ask the API server for what the cache lacks.
func (v *View) Doubt() { v.memory.of(v.cluster, func(m *memory) { m.begun = false }) }

// Begun reports that this process has begun the cluster, and nothing has failed since: it may create what it doesn't know of,
// and meets what is there (Taken).
func (v *View) Begun() bool { return v.begun }

// Complete reports that the cluster is Begun, has never run and is not being deleted: what is not known of it does not exist, or
// is somebody else's.
func (v *View) Complete() bool { return v.complete }

// Lags reports that some of what was read comes from memory, because the cache doesn't show it yet.
func (v *View) Lags() bool { return v.lags }

// Get reads an object into the one that has its name: as the cache shows it, else as this process has created it, else as the API
// server has it, unless what is known of the cluster is Complete. It returns nil for an object that doesn't exist.
func (v *View) Get(ctx context.Context, key string, object client.Object) (client.Object, error) {
	found, err := v.GetKnown(ctx, key, object)
	if found != nil || err != nil || v.complete {
		return found, err
	}
	return v.read(ctx, v.live, object)
}

// GetKnown is Get without asking the API server.
func (v *View) GetKnown(ctx context.Context, key string, object client.Object) (client.Object, error) {
	shown, err := v.getShown(ctx, key, object)
	if shown != nil || err != nil {
		return shown, err
	}
	return v.Created(key), nil
}

// GetShown reads an object as the cache shows it. Its error is ErrStale for one that this process has created and the cache
// doesn't show yet.
func (v *View) GetShown(ctx context.Context, key string, object client.Object) (client.Object, error) {
	shown, err := v.getShown(ctx, key, object)
	if shown == nil && err == nil && v.Recall(key, Age) != nil {
		return nil, ErrStale
	}
	return shown, err
}

func (v *View) getShown(ctx context.Context, key string, object client.Object) (client.Object, error) {
	shown, err := v.read(ctx, v.cache, object)
	if shown != nil {
		v.Drop(key)
	}
	return shown, err
}

// read returns nil for an object that doesn't exist.
func (v *View) read(ctx context.Context, reader client.Reader, object client.Object) (client.Object, error) {
	err := reader.Get(ctx, client.ObjectKey{Namespace: v.cluster.Namespace, Name: object.GetName()}, object)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read %T %s: %w", object, object.GetName(), err)
	}
	return object, nil
}

// Created is an object that this process has created a moment ago, and the cache doesn't show; nil: there is none.
func (v *View) Created(key string) client.Object {
	created := v.Recall(key, Age)
	v.lags = v.lags || created != nil
	return created
}

// Remember an object as it came from the API server. One without a UID did not.
func (v *View) Remember(key string, object client.Object) {
	if object.GetUID() == "" {
		return
	}
	v.memory.of(v.cluster, func(m *memory) {
		m.objects[key] = remembered{object.DeepCopyObject().(client.Object), v.now()}
	})
}

// Recall is an object that was remembered no longer ago than that; nil: there is none.
func (v *View) Recall(key string, age time.Duration) (object client.Object) {
	v.memory.of(v.cluster, func(m *memory) {
		if known, found := m.objects[key]; found && v.now().Sub(known.at) <= age {
			object = known.object.DeepCopyObject().(client.Object)
		}
	})
	return object
}

// Drop forgets an object: the cache has it, or it is about to be deleted.
func (v *View) Drop(key string) {
	v.memory.of(v.cluster, func(m *memory) { delete(m.objects, key) })
}

// Taken turns the error of creating an object that was taken not to exist into ErrTaken, if it says that the object does exist.
func (v *View) Taken(err error) error {
	if v.begun && (apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err)) {
		return fmt.Errorf("%w: %s", ErrTaken, err.Error()) // no "already exists" any more, which is ignored elsewhere
	}
	return err
}
