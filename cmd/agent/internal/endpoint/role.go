package endpoint

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// labelRole is the label of the pod that the Services of replicas select by.
const labelRole = "howdah.dev/role"

// Labeller is the part of the Kubernetes API that writes a label.
type Labeller interface {
	Merge(ctx context.Context, path, manager string, patch, into any) error
}

// Role keeps the pod's label.
type Role struct {
	Pod Pod
	API Labeller
	Log *slog.Logger

	mu     sync.Mutex
	wanted string
	wake   chan struct{}
}

// NewRole makes a keeper of the label; Run writes it.
func NewRole(client Labeller, pod Pod, log *slog.Logger) *Role {
	return &Role{Pod: pod, API: client, Log: log, wake: make(chan struct{}, 1)}
}

// Set says what the role is. It doesn't wait.
func (r *Role) Set(role string) {
	r.mu.Lock()
	r.wanted = role
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run writes the label until ctx ends, again and again while the API server refuses.
func (r *Role) Run(ctx context.Context) {
	written := ""
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
			r.Log.Warn("the pod's label can't be written; trying again", "label", labelRole, "role", wanted, "error", err)
			retry = time.After(retryTime)
			continue
		}
		written = wanted
	}
}

func (r *Role) write(ctx context.Context, role string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	patch := map[string]any{"metadata": map[string]any{"uid": r.Pod.UID, "labels": map[string]string{labelRole: role}}}
	return r.API.Merge(ctx, "/api/v1/namespaces/"+r.Pod.Namespace+"/pods/"+r.Pod.Name, manager, patch, nil)
}
