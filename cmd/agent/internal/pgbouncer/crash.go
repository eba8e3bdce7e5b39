package pgbouncer

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"
)

// crashes passes PgBouncer's log on, and notes connections to the server that have ended without a word. On a busy machine, clients may notice that a
// server was killed before the session of the pulse ends. Any goroutine may use it.
type crashes struct {
	to   *os.File
	seen chan bool // whether there were several at once
	last time.Time
}

func newCrashes(to *os.File) *crashes { return &crashes{to: to, seen: make(chan bool, 4)} }

var crashed = []byte("server conn crashed?")

func (c *crashes) Write(lines []byte) (int, error) {
	if count := bytes.Count(lines, crashed); count > 0 {
		now := time.Now()
		several := count > 1 || now.Sub(c.last) < atOnce
		c.last = now
		select {
		case c.seen <- several:
		default:
		}
	}
	return c.to.Write(lines)
}

const (
	// crashTime is how long a server that has dropped a connection is watched more closely, and crashPoll how often. A single process that was killed
	// or terminated is no reason to have clients wait.
	crashTime, crashPoll = 200 * time.Millisecond, 5 * time.Millisecond
	// atOnce is how close several connections end that have a common cause. It is taken for the end of the server, until that accepts a session.
	atOnce = 20 * time.Millisecond
)

// tell tells when a server that has dropped a connection accepts no other one, or has dropped several, until ctx ends.
func (c *crashes) tell(ctx context.Context, of *pulse, signs chan<- sign) {
	for {
		var several bool
		select {
		case several = <-c.seen:
		case <-ctx.Done():
			return
		}
		server, changed := of.next()
		if server == (place{}) || !several && !c.dies(ctx, server, changed) {
			continue
		}
		select {
		case signs <- sign{server, ended}:
		case <-ctx.Done():
			return
		}
		of.renew() // if it lives after all, it soon accepts a session
	}
}

// dies says whether a server refuses connections within a moment, or drops more of them.
func (c *crashes) dies(ctx context.Context, server place, changed <-chan struct{}) bool {
	ctx, cancel := context.WithTimeout(ctx, crashTime)
	defer cancel()
	dialer := net.Dialer{}
	for {
		conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(server.Address, strconv.Itoa(server.Port)))
		if errors.Is(err, syscall.ECONNREFUSED) {
			return true
		}
		if err == nil {
			_ = conn.Close()
		}
		select {
		case <-time.After(crashPoll):
		case several := <-c.seen:
			if several {
				return true
			}
		case <-changed:
			return false
		case <-ctx.Done():
			return false
		}
	}
}
