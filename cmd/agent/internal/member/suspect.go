package member

import (
	"context"
	"fmt"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/elect"
)

// A holder that died with all its processes cannot give the lease up. Kubernetes may know for sure that its container has
// ended: then nobody has to wait until the lease runs out. The container that comes again by itself comes first: nothing is
// lost by that. Silence proves nothing, nor does a pod that is gone.

const (
	suspectPause = 500 * time.Millisecond
	silentTime   = 1500 * time.Millisecond // after which a primary is looked at
	endedTime    = 1500 * time.Millisecond // that a container may stay ended before it is taken for dead
	container    = "postgres"
)

// suspect looks at the pod of a primary that neither answers nor sends WAL.
func (m *Member) suspect(ctx context.Context) {
	var ended time.Duration // when it was first seen to have ended
	for ctx.Err() == nil {
		m.pause(ctx, suspectPause)
		record, silent := m.silentHolder()
		if !silent {
			ended = 0
			continue
		}
		found := pod{}
		limited, cancel := context.WithTimeout(ctx, writeTime)
		err := m.API.Get(limited, fmt.Sprintf("/api/v1/namespaces/%s/pods/%s", m.Namespace, record.Holder), &found)
		cancel()
		if err != nil {
			ended = 0
			continue
		}
		has, forGood := found.ended(record.HolderUID, record.Started)
		switch {
		case !has:
			ended = 0
		case ended == 0:
			ended = m.Now()
		}
		if has && (forGood || m.Now()-ended >= endedTime) {
			m.Log.Warn("the container of the primary has ended", "primary", record.Holder, "term", record.Term)
			m.tell(func(core *elect.Core, now time.Duration) { core.HolderEnded(now, record.Term) })
		}
	}
}

// silentHolder is the holder, if it is another pod that has said nothing for a while in any way.
func (m *Member) silentHolder() (elect.Record, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	record := m.core.Record()
	if record == nil || record.Started == "" || record.Holder == "" || record.Holder == m.Self.Name || m.want.Role != elect.Follow ||
		m.server.Mode != elect.Replica || m.server.Position.Streaming {
		return elect.Record{}, false
	}
	silent := m.leader.name != record.Holder || m.Now()-m.leader.at > silentTime
	return *record, silent
}

// pod is the part of a Pod that is read.
type pod struct {
	Metadata struct{ UID string }
	Status   struct {
		ContainerStatuses []struct {
			Name             string
			State, LastState containerState
		}
	}
}

type containerState struct {
	Waiting    *struct{ Reason string }
	Running    *struct{}
	Terminated *struct{ FinishedAt time.Time }
}

// ended says whether the container in which a process was started then has ended and no other runs yet; and whether
// none will for a while. Both times are of the clock of its node.
func (p *pod) ended(uid, started string) (has, forGood bool) {
	since, err := time.Parse(time.RFC3339, started)
	if err != nil || p.Metadata.UID != uid {
		return false, false
	}
	// Kubernetes writes whole seconds: the end of the container before may bear the second in which this one began.
	after := func(s containerState) bool {
		return s.Terminated != nil && s.Terminated.FinishedAt.After(since.Add(time.Second))
	}
	for _, c := range p.Status.ContainerStatuses {
		switch {
		case c.Name != container:
		case after(c.State):
			return true, false
		case c.State.Waiting != nil && after(c.LastState):
			return true, c.State.Waiting.Reason == "CrashLoopBackOff"
		}
	}
	return false, false
}
