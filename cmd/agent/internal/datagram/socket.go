// Package datagram carries the questions for the word of members, and the answers: each is one signed UDP datagram that may be lost. Where a
// third of all packets is lost, TCP is silent for seconds, and ten datagrams a second are not.
//
// The holder of the lease agrees on a key with each member over mutual TLS, so only agents of the cluster can ask or answer. A key belongs to
// two processes: one that is started again has none, and what was recorded before is worth nothing to it. An old question that is said
// again gets no response, as package elect counts them.
package datagram

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/elect"
	"howdah.dev/howdah/pkg/agentapi"
)

// Election gives the word of this instance, and hears that of others.
type Election interface {
	AskedWord(request elect.WordRequest) bool
	HeardWord(member string, term int64, number elect.Time)
}

// Peers bring a key to another instance, and to nobody else.
type Peers interface {
	AgreeWord(ctx context.Context, to elect.Member, key agentapi.WordKey) (agentapi.WordAnswer, error)
}

// Options of a socket.
type Options struct {
	Self, Generation string
	// Port of the other instances.
	Port     uint16
	Peers    Peers
	Election Election
	Log      *slog.Logger
}

const (
	agreeTime = 2 * time.Second
	// silence is after what time without an answer a key is agreed on anew: the other process may be another one by now.
	silence = time.Second
	// holders is how many may have agreed on a key with this instance. There is one at a time, and there are nine instances at most.
	holders = 16
)

// Socket asks and answers. Any goroutine may use it.
type Socket struct {
	Options
	conn net.PacketConn

	mu         sync.Mutex
	asked      map[string]*session // by member, with the keys of this process
	requesters map[string]*session // by holder, with the keys of those
}

// session is a key that two processes have agreed on.
type session struct {
	peer     string
	id       id
	secret   []byte
	to       netip.AddrPort
	heard    time.Time // when it was agreed on, or an answer came
	agreeing time.Time // since when another key is being agreed on; zero: none is
}

// New makes a socket on a connection, which it closes; Run serves it.
func New(conn net.PacketConn, options Options) *Socket {
	return &Socket{Options: options, conn: conn, asked: map[string]*session{}, requesters: map[string]*session{}}
}

// Run receives until ctx ends.
func (s *Socket) Run(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { s.conn.Close() })
	defer stop()
	buffer := make([]byte, size+1) // one that is longer is cut, and has another size then
	for ctx.Err() == nil {
		n, from, err := s.conn.ReadFrom(buffer)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err == nil:
			s.received(buffer[:n], from)
		}
	}
}

func (s *Socket) received(raw []byte, from net.Addr) {
	p, err := parse(raw)
	if err != nil {
		return
	}
	known := s.known(&p)
	if known == nil || verify(raw, known.secret) != nil {
		return // whoever may send datagrams here must not fill the log
	}
	if p.kind == answer {
		s.mu.Lock()
		known.heard = time.Now()
		s.mu.Unlock()
		s.Election.HeardWord(known.peer, p.term, p.number)
		return
	}
	request := elect.WordRequest{
		Failsafe: agentapi.FailsafeRequest{Leader: known.peer, Generation: s.Generation, Term: p.term},
		Sequence: p.sequence, Number: p.number, Expire: p.expire,
	}
	if !s.Election.AskedWord(request) {
		return
	}
	p.kind = answer
	s.send(&p, known.secret, from)
}

// known is the session that a packet belongs to; nil: there is none.
func (s *Socket) known(p *packet) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	sessions := s.requesters
	if p.kind == answer {
		sessions = s.asked
	}
	for _, known := range sessions {
		if known.id == p.key && known.secret != nil {
			return known
		}
	}
	return nil
}

// send a packet. What can't be sent is lost like others.
func (s *Socket) send(p *packet, secret []byte, to net.Addr) {
	if _, err := s.conn.WriteTo(p.signed(secret), to); err != nil {
		s.Log.Debug("a datagram can't be sent", "to", to.String(), "error", err)
	}
}

// Ask members. Where there is no key yet, or nobody has answered to it for a while, one is agreed on first, in the background.
func (s *Socket) Ask(ctx context.Context, asked elect.WordQuestion) {
	request := &asked.Request
	for _, member := range asked.Members {
		known := s.session(ctx, member)
		if known == nil {
			continue
		}
		p := packet{question, known.id, request.Failsafe.Term, request.Sequence, request.Number, request.Expire}
		s.send(&p, known.secret, net.UDPAddrFromAddrPort(known.to))
	}
}

// session to ask a member in, as it is now; nil: there is none yet.
func (s *Socket) session(ctx context.Context, member elect.Member) *session {
	address, err := netip.ParseAddr(member.Address)
	if err != nil {
		return nil
	}
	to := netip.AddrPortFrom(address, s.Port)
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.asked[member.Name]
	if known == nil {
		known = &session{peer: member.Name}
		s.asked[member.Name] = known
	}
	now := time.Now()
	if (known.secret == nil || known.to != to || now.Sub(known.heard) >= silence) && now.Sub(known.agreeing) >= agreeTime {
		known.agreeing = now
		go s.agree(ctx, member, to)
	}
	if known.secret == nil {
		return nil
	}
	present := *known
	return &present
}

// agree on a key with a member.
func (s *Socket) agree(ctx context.Context, member elect.Member, to netip.AddrPort) {
	ctx, cancel := context.WithTimeout(ctx, agreeTime)
	defer cancel()
	fresh := &session{peer: member.Name, secret: make([]byte, keySize), to: to}
	rand.Read(fresh.id[:])
	rand.Read(fresh.secret)
	answer, err := s.Peers.AgreeWord(ctx, member, agentapi.WordKey{Leader: s.Self, Generation: s.Generation, ID: fresh.id[:], Secret: fresh.secret})
	if err == nil && answer.Pod != member.Name {
		err = fmt.Errorf("%s answers there", answer.Pod)
	}
	if err == nil && !answer.Agreed {
		err = errors.New(answer.Message)
	}
	if err != nil {
		s.Log.Debug("no key was agreed on with a member, so it can't be asked for a promise", "member", member.Name, "error", err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	fresh.heard, fresh.agreeing = time.Now(), s.asked[member.Name].agreeing
	s.asked[member.Name] = fresh
}

// Agree takes in the key of a holder, which an agent of the cluster has brought over mutual TLS.
func (s *Socket) Agree(key agentapi.WordKey) agentapi.WordAnswer {
	refused := func(why string) agentapi.WordAnswer { return agentapi.WordAnswer{Pod: s.Self, Message: why} }
	switch {
	case key.Generation != s.Generation:
		return refused("another data generation runs here")
	case key.Leader == "" || key.Leader == s.Self:
		return refused("the key is of no other instance")
	case len(key.ID) != idSize || len(key.Secret) != keySize:
		return refused("the key has another size")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, found := s.requesters[key.Leader]; !found && len(s.requesters) >= holders {
		clear(s.requesters)
	}
	s.requesters[key.Leader] = &session{peer: key.Leader, id: id(key.ID), secret: key.Secret}
	return agentapi.WordAnswer{Pod: s.Self, Agreed: true}
}
