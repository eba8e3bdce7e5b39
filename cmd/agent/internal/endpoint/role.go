package endpoint

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"time"
)

// The labels of the pod that the Services of replicas select by.
const (
	labelRole    = "howdah.dev/role"
	labelDelayed = "howdah.dev/delayed"
)

// Labels are what they say.
type Labels struct {
	Role    string
	Delayed bool // it replays WAL late
}

// Labeller is the part of the Kubernetes API that writes a label.
type Labeller interface {
	Merge(ctx context.Context, path, manager string, patch, into any) error
}

// Role keeps the pod's labels.
type Role struct {
	Pod Pod
	API Labeller
	Log *slog.Logger

	mu     sync.Mutex
	wanted Labels
	wake   chan struct{}
}

// NewRole makes a keeper of the labels; Run writes them.
func NewRole(client Labeller, pod Pod, log *slog.Logger) *Role {
	return &Role{Pod: pod, API: client, Log: log, wake: make(chan struct{}, 1)}
}

// Set says what the role is. It doesn't wait.
func (r *Role) Set(wanted Labels) {
	r.mu.Lock()
	r.wanted = wanted
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run writes the labels until ctx ends, again and again while the API server refuses.
func (r *Role) Run(ctx context.Context) {
	written := Labels{}
	var retry <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		case <-retry:
		}
		r.mu.Lock()
		wanted := r.wanted
		r.mu.Unlock()
		retry = nil
		if wanted == written {
			continue
		}
		if err := r.write(ctx, wanted); err != nil {
			r.Log.Warn("the pod's labels can't be written; trying again", "role", wanted.Role, "delayed", wanted.Delayed, "error", err)
			retry = time.After(retryTime)
			continue
		}
		written = wanted
	}
}

func (r *Role) write(ctx context.Context, wanted Labels) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	patch := map[string]any{"metadata": map[string]any{"uid": r.Pod.UID, "labels": map[string]string{labelRole: wanted.Role, labelDelayed: strconv.FormatBool(wanted.Delayed)}}}
	return r.API.Merge(ctx, "/api/v1/namespaces/"+r.Pod.Namespace+"/pods/"+r.Pod.Name, manager, patch, nil)
}
