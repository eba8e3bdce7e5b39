package datagram

import (
	"bytes"
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/elect"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/heaptest"
)

// member answers each question once, as the core does, and notes what it hears.
type member struct {
	mu    sync.Mutex
	asked []elect.WordRequest
	all   []elect.Time // that it has heard
	heard chan elect.Time
}

func (m *member) AskedWord(request elect.WordRequest) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	fresh := len(m.asked) == 0 || request.Number > m.asked[len(m.asked)-1].Number
	m.asked = append(m.asked, request)
	return fresh
}

func (m *member) HeardWord(_ string, _ int64, number elect.Time) {
	m.mu.Lock()
	m.all = append(m.all, number)
	m.mu.Unlock()
	m.heard <- number
}

func (m *member) questions() []elect.WordRequest {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.asked)
}

// network brings keys to sockets by name.
type network struct {
	mu      sync.Mutex
	sockets map[string]*Socket
	agreed  int
}

func (n *network) AgreeWord(_ context.Context, to elect.Member, key agentapi.WordKey) (agentapi.WordAnswer, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.agreed++
	return n.sockets[to.Name].Agree(key), nil
}

type end struct {
	*Socket
	*member
	address netip.AddrPort
	stop    context.CancelFunc
}

// listen makes an instance with a socket of this machine.
func (n *network) listen(t *testing.T, name string) *end {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &member{heard: make(chan elect.Time, 10_000)}
	s := New(conn, Options{Self: name, Generation: "g1", Peers: n, Election: m, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sockets[name] = s
	return &end{s, m, conn.LocalAddr().(*net.UDPAddr).AddrPort(), cancel}
}

func ask(number int64) elect.WordQuestion {
	return elect.WordQuestion{
		Members: []elect.Member{{Name: "b", Address: "127.0.0.1"}},
		Request: elect.WordRequest{
			Failsafe: agentapi.FailsafeRequest{Leader: "a", Generation: "g1", Term: 3}, Sequence: 7, Number: elect.Time(number), Expire: 4 * time.Second,
		},
	}
}

// awaitAnswer asks until an answer comes, and returns how many questions that took.
func (e *end) awaitAnswer(t *testing.T, number int64) int64 {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); number++ {
		e.Ask(t.Context(), ask(number))
		select {
		case heard := <-e.heard:
			if int64(heard) > number {
				t.Fatalf("answer %d to question %d", heard, number)
			}
			return number
		case <-time.After(20 * time.Millisecond):
		}
	}
	t.Fatal("no answer comes")
	return 0
}

func TestAQuestionIsAnsweredInTheNameOfWhoHasTheKey(t *testing.T) {
	n := &network{sockets: map[string]*Socket{}}
	a, b := n.listen(t, "a"), n.listen(t, "b")
	a.Port = b.address.Port()
	a.awaitAnswer(t, 1)
	got := b.questions()[0]
	want := ask(int64(got.Number)).Request
	if got != want {
		t.Errorf("%+v, not %+v", got, want)
	}
}

// relay lies between the two, and does with each datagram what it is told to.
type relay struct {
	conn net.PacketConn
	to   net.Addr
	pass func(raw []byte) [][]byte
	from net.Addr
}

func newRelay(t *testing.T, to netip.AddrPort, pass func([]byte) [][]byte) *relay {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	r := &relay{conn: conn, to: net.UDPAddrFromAddrPort(to), pass: pass}
	go r.run()
	return r
}

func (r *relay) port() uint16 { return r.conn.LocalAddr().(*net.UDPAddr).AddrPort().Port() }

func (r *relay) run() {
	buffer := make([]byte, 2*size)
	for {
		n, from, err := r.conn.ReadFrom(buffer)
		if err != nil {
			return
		}
		to := r.to
		if from.String() == r.to.String() {
			to = r.from
		} else {
			r.from = from
		}
		for _, raw := range r.pass(bytes.Clone(buffer[:n])) {
			_, _ = r.conn.WriteTo(raw, to)
		}
	}
}

func TestWhereAThirdOfAllIsLostAnswersStillComeOften(t *testing.T) {
	n := &network{sockets: map[string]*Socket{}}
	a, b := n.listen(t, "a"), n.listen(t, "b")
	rng := rand.New(rand.NewPCG(1, 1))
	a.Port = newRelay(t, b.address, func(raw []byte) [][]byte {
		if rng.Float64() < 0.35 {
			return nil
		}
		return [][]byte{raw}
	}).port()
	last := a.awaitAnswer(t, 1)
	longest, count, first := int64(0), 0, last
	for number := first + 1; number <= first+300; number++ {
		a.Ask(t.Context(), ask(number))
		select {
		case heard := <-a.heard:
			longest, count, last = max(longest, int64(heard)-last), count+1, max(last, int64(heard))
		case <-time.After(10 * time.Millisecond):
		}
	}
	if count < 60 || longest > 20 {
		t.Errorf("%d answers to 300 questions, and %d without one", count, longest)
	}
}

func TestWhatIsSaidAgainGetsNoAnswer(t *testing.T) {
	n := &network{sockets: map[string]*Socket{}}
	a, b := n.listen(t, "a"), n.listen(t, "b")
	a.Port = newRelay(t, b.address, func(raw []byte) [][]byte {
		if raw[kindAt] == question {
			return [][]byte{raw, raw, raw}
		}
		return [][]byte{raw}
	}).port()
	last := a.awaitAnswer(t, 1)
	a.awaitAnswer(t, last+1) // by now all of the first were received
	if asked := b.questions(); len(asked) < 3 {
		t.Fatalf("%+v", asked)
	}
	a.member.mu.Lock()
	defer a.member.mu.Unlock()
	for i, number := range a.all {
		if slices.Contains(a.all[:i], number) {
			t.Errorf("question %d was answered twice", number)
		}
	}
}

func TestNothingThatWasChangedCounts(t *testing.T) {
	n := &network{sockets: map[string]*Socket{}}
	a, b := n.listen(t, "a"), n.listen(t, "b")
	a.Port = newRelay(t, b.address, func(raw []byte) (all [][]byte) {
		for i := range raw { // first all that are forged, then the true one
			forged := bytes.Clone(raw)
			forged[i] ^= 0x80
			all = append(all, forged)
		}
		back := bytes.Clone(raw)
		back[kindAt] = answer
		return append(all, back, raw[:size-1], append(bytes.Clone(raw), 0), nil, raw)
	}).port()
	a.awaitAnswer(t, 1)
	for _, asked := range b.questions() {
		if asked != ask(int64(asked.Number)).Request || asked.Number < 1 || asked.Number > 100 {
			t.Errorf("it was asked %+v", asked)
		}
	}
}

func TestAMemberThatWasStartedAgainIsAskedWithAnotherKey(t *testing.T) {
	n := &network{sockets: map[string]*Socket{}}
	a, b := n.listen(t, "a"), n.listen(t, "b")
	a.Port = b.address.Port()
	last := a.awaitAnswer(t, 1)
	b.stop()
	n.mu.Lock()
	before := n.agreed // a may agree with the next one as soon as that listens
	n.mu.Unlock()
	again := n.listen(t, "b")
	a.Port = again.address.Port()
	for len(a.heard) > 0 {
		<-a.heard
	}
	a.awaitAnswer(t, last+1)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.agreed == before {
		t.Error("no other key was agreed on")
	}
}

func TestAKeyThatIsNoneIsRefused(t *testing.T) {
	good := agentapi.WordKey{Leader: "a", Generation: "g1", ID: make([]byte, idSize), Secret: make([]byte, keySize)}
	s := New(nil, Options{Self: "b", Generation: "g1"})
	if answer := s.Agree(good); !answer.Agreed || answer.Pod != "b" {
		t.Errorf("%+v", answer)
	}
	for what, change := range map[string]func(*agentapi.WordKey){
		"another generation": func(k *agentapi.WordKey) { k.Generation = "g2" },
		"its own":            func(k *agentapi.WordKey) { k.Leader = "b" },
		"nobody's":           func(k *agentapi.WordKey) { k.Leader = "" },
		"a short ID":         func(k *agentapi.WordKey) { k.ID = k.ID[1:] },
		"an empty secret":    func(k *agentapi.WordKey) { k.Secret = nil },
	} {
		key := good
		change(&key)
		if answer := s.Agree(key); answer.Agreed || answer.Message == "" {
			t.Errorf("%s: %+v", what, answer)
		}
	}
}

func FuzzADatagramIsWhatItSaysOrNothing(f *testing.F) {
	key := bytes.Repeat([]byte{1}, keySize)
	p := packet{kind: question, term: 3, sequence: 7, number: 9, expire: time.Second}
	f.Add(p.signed(key))
	p.kind, p.number = answer, -1
	f.Add(p.signed(key))
	f.Add([]byte(magic))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		var p packet
		var err error
		heaptest.AtMost(t, 64<<10, 0, len(raw), func() { p, err = parse(raw) })
		if err != nil {
			return
		}
		again := p.signed(key)
		if !bytes.Equal(again[:sumAt], raw[:sumAt]) {
			t.Fatalf("%x is read as %+v", raw, p)
		}
		if verify(raw, key) == nil && !bytes.Equal(again, raw) {
			t.Fatalf("%x is taken for signed", raw)
		}
	})
}
