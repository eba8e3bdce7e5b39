//go:build postgres

package supervise

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"howdah.dev/howdah/cmd/agent/internal/api"
	"howdah.dev/howdah/cmd/agent/internal/elect"
	"howdah.dev/howdah/cmd/agent/internal/kube"
	"howdah.dev/howdah/pkg/agentapi"
)

// pair is a cluster of two, with all of its agents in this process: they elect over a Lease in memory, and ask each other
// by calls.
type pair struct {
	first, second *pod // shop-0 has the data
	lease         *leaseServer
	words         map[string]net.PacketConn // by pod, of those that get datagrams
	cut           atomic.Bool               // the first reaches nobody
}

// newPair makes one that archives into a store, which can be taken away. It keeps as little WAL for a replica as it can.
func newPair(t *testing.T) (*pair, *outage) {
	t.Helper()
	return newPairOn(t, "")
}

// newPairOn makes one whose first has this volume; empty: a folder of its own.
func newPairOn(t *testing.T, volume string) (*pair, *outage) {
	t.Helper()
	first, store := archivingOn(t, volume)
	two := &pair{first: first, second: newEmptyPod(t, ""), lease: newLeaseServer()}
	two.second.name, two.second.ca, two.second.store = "shop-1", first.ca, store
	config := first.with(map[string]string{
		"max_slot_wal_keep_size": "16MB", "wal_keep_size": "0", "min_wal_size": "32MB", "max_wal_size": "32MB", "wal_retrieve_retry_interval": "500ms",
	})
	config.Instances, config.Lease, config.PodDomain, config.DataInstance = 2, "shop", "shop-pods", "shop-0"
	for _, p := range []*pod{two.first, two.second} {
		p.pair = two
		p.issueServer()
		p.ca.Fill(t, p.PeerTLSDir, "howdah_replication")
		p.configure(config)
	}
	return two, store
}

// run starts both, and waits until the second follows the first.
func (c *pair) run() {
	c.first.t.Helper()
	c.first.run()
	c.second.start()
	c.awaitStreaming()
}

func (c *pair) awaitStreaming() {
	c.first.t.Helper()
	c.second.awaitStatus("follow", func(s agentapi.Status) bool { return s.Replication != nil && s.Replication.Streaming })
}

func (c *pair) pod(name string) *pod {
	return map[string]*pod{"shop-0": c.first, "shop-1": c.second}[name]
}

func (c *pair) port(name string) int { return c.pod(name).Port }

var errNoAgent = errors.New("the agent doesn't respond")

// elected is an instance's part in the election, as another one reaches it; nil: it doesn't.
func (c *pair) elected(name string) api.Election {
	if agent := c.pod(name).agent; agent != nil && !c.cut.Load() {
		return agent.Election()
	}
	return nil
}

func (c *pair) Position(ctx context.Context, to elect.Member, request agentapi.PositionRequest) (agentapi.Position, error) {
	if election := c.elected(to.Name); election != nil {
		return election.Located(ctx, request)
	}
	return agentapi.Position{}, errNoAgent
}

func (c *pair) Failsafe(_ context.Context, to elect.Member, request agentapi.FailsafeRequest) (agentapi.FailsafeAnswer, error) {
	if election := c.elected(to.Name); election != nil {
		return election.Failsafe(request), nil
	}
	return agentapi.FailsafeAnswer{}, errNoAgent
}

func (c *pair) Follow(_ context.Context, to elect.Member, request agentapi.FollowRequest) (agentapi.FollowAnswer, error) {
	if election := c.elected(to.Name); election != nil {
		return election.Followed(request), nil
	}
	return agentapi.FollowAnswer{}, errNoAgent
}

func (c *pair) AgreeWord(_ context.Context, to elect.Member, key agentapi.WordKey) (agentapi.WordAnswer, error) {
	if election := c.elected(to.Name); election != nil {
		return election.AgreeWord(key), nil
	}
	return agentapi.WordAnswer{}, errNoAgent
}

// leaseServer is an API server with one Lease.
type leaseServer struct {
	mu      sync.Mutex
	version int
	object  map[string]any
	changed chan struct{}
	written []string // the annotations of all patches
	creator string   // who has created it, until somebody patches it
}

func newLeaseServer() *leaseServer {
	return &leaseServer{version: 1, changed: make(chan struct{}), object: map[string]any{
		"metadata": map[string]any{"name": "shop", "resourceVersion": "1"}, "spec": map[string]any{},
	}}
}

func (l *leaseServer) Get(_ context.Context, path string, into any) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if filepath.Base(path) != "shop" || l.object == nil {
		return errNoLease
	}
	return convert(l.object, into)
}

var errNoLease = &kube.StatusError{Code: http.StatusNotFound, Reason: "NotFound"}

func (l *leaseServer) Merge(_ context.Context, _, _ string, patch, into any) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	wanted := map[string]any{}
	if err := convert(patch, &wanted); err != nil {
		return err
	}
	if l.object == nil {
		return errNoLease
	}
	meta := wanted["metadata"].(map[string]any)
	if meta["resourceVersion"] != strconv.Itoa(l.version) {
		return &kube.StatusError{Code: http.StatusConflict, Reason: "Conflict"}
	}
	merge(l.object, wanted)
	l.creator = ""
	if annotations, has := meta["annotations"].(map[string]any); has {
		l.written = append(l.written, fmt.Sprint(annotations["howdah.dev/election"]))
	}
	l.publish()
	return convert(l.object, into)
}

// publish makes what was changed a new version. The lock is held.
func (l *leaseServer) publish() {
	l.version++
	l.object["metadata"].(map[string]any)["resourceVersion"] = strconv.Itoa(l.version)
	close(l.changed)
	l.changed = make(chan struct{})
}

// annotations are those of all writes up to now.
func (l *leaseServer) annotations() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.written)
}

// Watch tells of what has changed since a version, once.
func (l *leaseServer) Watch(ctx context.Context, _, _, version string, each func(json.RawMessage) error) error {
	for {
		l.mu.Lock()
		now, changed, deleted := l.version, l.changed, l.object == nil
		content, err := json.Marshal(l.object)
		l.mu.Unlock()
		if deleted {
			return errNoLease
		}
		if err != nil {
			return err
		}
		if strconv.Itoa(now) != version {
			return each(content)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

func convert(from, into any) error {
	content, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(content, into)
}

// merge is a JSON merge patch.
func merge(into, patch map[string]any) {
	for name, value := range patch {
		inner, nested := value.(map[string]any)
		there, has := into[name].(map[string]any)
		switch {
		case value == nil:
			delete(into, name)
		case nested && has:
			merge(there, inner)
		default:
			into[name] = value
		}
	}
}
