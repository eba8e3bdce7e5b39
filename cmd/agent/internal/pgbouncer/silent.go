package pgbouncer

import (
	"context"
	"errors"
	"net"
	"os"
	"time"
)

const (
	// silentTime is for how long a server may say nothing before it is taken for one that will never answer its clients, and silentTry how long
	// one try may take.
	silentTime, silentTry = 15 * time.Second, 3 * time.Second
)

// strays are servers that readers are not sent to any more, while transactions of some are still open there. Most of these servers lag, or are about to
// end, and answer. One that is frozen would keep its clients waiting until it thaws. Only the loop of a pooler may use it.
type strays struct {
	tried  map[string]bool // by address and port
	silent chan verdict
}

// verdict is what came of trying a server.
type verdict struct {
	server string
	silent bool
}

func newStrays() *strays { return &strays{tried: map[string]bool{}, silent: make(chan verdict)} }

// try finds out whether a server says anything, unless that is being found out.
func (s *strays) try(ctx context.Context, server string) {
	if s.tried[server] {
		return
	}
	s.tried[server] = true
	go func() {
		v := verdict{server, isSilent(ctx, server, silentTime)}
		select {
		case s.silent <- v:
		case <-ctx.Done():
		}
	}()
}

// done takes in what came of it, so that the server may be tried again.
func (s *strays) done(v verdict) { delete(s.tried, v.server) }

// isSilent says that a server accepts connections, or seems to, and said nothing for this long. One that refuses them isn't silent: its clients are told.
func isSilent(ctx context.Context, server string, limit time.Duration) bool {
	for begin := time.Now(); time.Since(begin) < limit; {
		err := speaks(ctx, server)
		if ctx.Err() != nil || !isTimeout(err) {
			return false
		}
	}
	return true
}

// sslRequest asks for TLS, which is the first thing that any server answers, with one byte.
var sslRequest = []byte{0, 0, 0, 8, 4, 210, 22, 47}

// speaks has a server answer. Nobody logs in for that: its processes have to run, and no more.
func speaks(ctx context.Context, server string) error {
	ctx, cancel := context.WithTimeout(ctx, silentTry)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", server)
	if err != nil {
		return err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	if _, err := conn.Write(sslRequest); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 1))
	return err
}

func isTimeout(err error) bool {
	var network net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &network) && network.Timeout()
}

// lookForStrays tries the servers that readers are not sent to any more and have transactions open at.
func (p *Pooler) lookForStrays(ctx context.Context) error {
	if !p.config.ReadOnly {
		return nil
	}
	busy, err := p.bouncer.busy(ctx)
	for _, server := range busy {
		if !server.isOneOf(p.servers) {
			p.strays.try(ctx, server.String())
		}
	}
	return err
}

// leave ends the transactions of readers on a server that says nothing, unless they are sent there again.
func (p *Pooler) leave(ctx context.Context, v verdict) error {
	p.strays.done(v)
	if !v.silent {
		return nil
	}
	return p.bouncer.endClients(ctx, func(s server) bool { return s.String() == v.server && !s.isOneOf(p.servers) }, "the transaction of a reader is ended, as the replica says nothing")
}
