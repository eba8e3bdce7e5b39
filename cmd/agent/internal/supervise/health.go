package supervise

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/postmaster"
)

const (
	knockPause = 5 * time.Second
	knockTime  = 4 * time.Second
	// frozenTime is how long a postmaster may be stopped, and deafTime how long it may not answer at the door. The latter is
	// long: a busy machine is no reason to kill a server.
	frozenTime = 3 * time.Second
	deafTime   = 20 * time.Second
)

// health is what is known of whether a running server lets anybody in.
type health struct {
	frozen   time.Time // since when it is stopped; zero: it isn't
	answered time.Time // when it has answered at the door last
}

// knock asks at the door of the server every now and then, until ctx ends.
func (r *runner) knock(ctx context.Context) {
	tick := time.NewTicker(knockPause)
	defer tick.Stop()
	for {
		if err := r.knockOnce(ctx); err == nil {
			r.facts.mu.Lock()
			r.facts.health.answered = time.Now()
			r.facts.mu.Unlock()
		} else if ctx.Err() == nil {
			r.Log.Warn("PostgreSQL does not answer at the door", "error", err)
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

func (r *runner) knockOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, knockTime)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", r.socket())
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
func (r *runner) sick(server *postmaster.Server) string {
	now := time.Now()
	r.facts.mu.Lock()
	defer r.facts.mu.Unlock()
	h := &r.facts.health
	switch {
	case !server.Frozen():
		h.frozen = time.Time{}
	case h.frozen.IsZero():
		h.frozen = now
	case now.Sub(h.frozen) >= frozenTime:
		return "the postmaster is stopped by a signal"
	}
	if now.Sub(h.answered) >= deafTime {
		return fmt.Sprintf("the postmaster lets nobody in since %s", h.answered.UTC().Format(time.TimeOnly))
	}
	return ""
}

// socket is the server's.
func (r *runner) socket() string {
	return filepath.Join(r.SocketDir, fmt.Sprintf(".s.PGSQL.%d", r.Port))
}
