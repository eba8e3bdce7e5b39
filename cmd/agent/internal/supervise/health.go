package supervise

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/postmaster"
)

const (
	knockPause = 5 * time.Second
	knockTime  = 4 * time.Second
	// frozenTime is how long a postmaster may be stopped, and deafTime how long it may accept no connections. The latter is
	// long: a busy machine is no reason to kill a server.
	frozenTime = 3 * time.Second
	deafTime   = 20 * time.Second
)

// health is whether a running server lets anybody in.
type health struct {
	*instance
	answered atomic.Pointer[time.Time] // when it has accepted a connection last; any goroutine may use it
	frozen   time.Time                 // since when it is stopped; zero: it isn't. Only the loop uses it
}

func newHealth(i *instance) *health {
	h := &health{instance: i}
	h.note()
	return h
}

// note that the server answers.
func (h *health) note() {
	now := time.Now()
	h.answered.Store(&now)
}

// knock connects to the server every now and then, until ctx ends.
func (h *health) knock(ctx context.Context) {
	tick := time.NewTicker(knockPause)
	defer tick.Stop()
	for {
		if err := h.knockOnce(ctx); err == nil {
			h.note()
		} else if ctx.Err() == nil {
			h.Log.Warn("PostgreSQL does not accept new connections", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// sslRequest is what a client sends first. Over a socket the server says no to it, without a session.
const sslRequest = 80877103

func (h *health) knockOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, knockTime)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", h.socket())
	if err != nil {
		return err
	}
	defer conn.Close()
	if deadline, limited := ctx.Deadline(); limited {
		if err := conn.SetDeadline(deadline); err != nil {
			return err
		}
	}
	request := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 8), sslRequest)
	if _, err := conn.Write(request); err != nil {
		return err
	}
	_, err = io.ReadFull(conn, make([]byte, 1))
	return err
}

// sick says in a sentence why a running server has to be killed; empty: it hasn't.
func (h *health) sick(server *postmaster.Server) string {
	now := time.Now()
	switch {
	case !server.Frozen():
		h.frozen = time.Time{}
	case h.frozen.IsZero():
		h.frozen = now
	case now.Sub(h.frozen) >= frozenTime:
		return "the postmaster is stopped by a signal"
	}
	if answered := *h.answered.Load(); now.Sub(answered) >= deafTime {
		return fmt.Sprintf("the postmaster has accepted no connections since %s", answered.UTC().Format(time.TimeOnly))
	}
	return ""
}
