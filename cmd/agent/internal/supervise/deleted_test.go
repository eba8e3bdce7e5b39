//go:build postgres

package supervise

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/kube"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// Members answer the failsafe question of a primary whose Lease was deleted, so it leads on. But an instance that starts knows of no
// primary until it can read the Lease.
func TestThePrimaryCreatesALeaseThatWasDeleted(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	two, _ := newPair(t)
	two.run()
	two.first.awaitStatus("have a member", func(s agentapi.Status) bool { return s.Election != nil && len(s.Election.Members) > 0 })
	before, written := two.lease.delete(), len(two.lease.annotations())
	two.first.await("create the Lease", func() bool { return two.lease.annotation() != "" })
	if after := two.lease.annotation(); !strings.Contains(after, `"members":[{"name":"shop-1"`) || !strings.Contains(after, `"lastHolder":"shop-0"`) {
		t.Errorf("the Lease was\n%s, is\n%s", before, after)
	}
	two.first.await("write it again", func() bool { return len(two.lease.annotations()) > written })
	if err := two.second.terminate(time.Minute); err != nil {
		t.Fatal(err)
	}
	two.second.start()
	two.awaitStreaming()
	if !two.first.public.ready() {
		t.Error("clients are no longer sent to the primary")
	}
}

// delete takes the Lease away, and returns its annotation.
func (l *leaseServer) delete() string {
	before := l.annotation()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.object = nil
	l.version++
	close(l.changed)
	l.changed = make(chan struct{})
	return before
}

// annotation of the Lease; empty: there is none.
func (l *leaseServer) annotation() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.object == nil {
		return ""
	}
	annotations, _ := l.object["metadata"].(map[string]any)["annotations"].(map[string]any)
	text, _ := annotations["howdah.dev/election"].(string)
	return text
}

// Create is a server-side apply: it is in conflict with what others have written, and not with what its manager has.
func (l *leaseServer) Create(_ context.Context, _, manager string, object, into any) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.object != nil && l.creator != manager {
		return &kube.StatusError{Code: http.StatusConflict, Reason: "Conflict"}
	}
	l.creator, l.object = manager, map[string]any{}
	if err := convert(object, &l.object); err != nil {
		return err
	}
	l.publish()
	return convert(l.object, into)
}
