//go:build postgres

package supervise

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/member"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

// byWord is a pair whose primary is to keep its lease by the word of the other, where these pods get datagrams.
func byWord(t *testing.T, pods ...string) *pair {
	t.Helper()
	two, _ := newPair(t)
	two.words = map[string]net.PacketConn{}
	for _, name := range pods {
		conn, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		two.words[name] = &cuttable{conn, two}
	}
	two.keep(agentapi.RenewalMembers)
	two.run()
	return two
}

// keep the lease in another way.
func (c *pair) keep(renewal string) {
	c.first.t.Helper()
	for _, p := range []*pod{c.first, c.second} {
		config := p.config
		config.Failover = &agentapi.Failover{Renewal: renewal}
		p.configure(config)
	}
}

// datagrams of a pod, and the port of the other one.
func (c *pair) datagrams(p *pod) (net.PacketConn, uint16) {
	own, other := c.words[p.name], c.words[map[string]string{"shop-0": "shop-1", "shop-1": "shop-0"}[p.name]]
	switch {
	case own == nil:
		return nil, 0
	case other == nil:
		return own, 1 // nobody is there
	}
	return own, other.LocalAddr().(*net.UDPAddr).AddrPort().Port()
}

// cuttable loses everything while the first is cut off.
type cuttable struct {
	net.PacketConn
	pair *pair
}

func (c *cuttable) WriteTo(packet []byte, to net.Addr) (int, error) {
	if c.pair.cut.Load() {
		return len(packet), nil
	}
	return c.PacketConn.WriteTo(packet, to)
}

// kubernetes is the API server for a pod.
func (c *pair) kubernetes(p *pod) member.API {
	if p == c.first {
		return &cutAPI{c.lease, c}
	}
	return c.lease
}

// cutAPI is one that the first doesn't reach while it is cut off.
type cutAPI struct {
	*leaseServer
	pair *pair
}

var errCut = errors.New("no route to host")

func (c *cutAPI) Get(ctx context.Context, path string, into any) error {
	if c.pair.cut.Load() {
		return errCut
	}
	return c.leaseServer.Get(ctx, path, into)
}

func (c *cutAPI) Merge(ctx context.Context, path, manager string, patch, into any) error {
	if c.pair.cut.Load() {
		return errCut
	}
	return c.leaseServer.Merge(ctx, path, manager, patch, into)
}

func (c *cutAPI) Watch(ctx context.Context, folder, name, version string, each func(json.RawMessage) error) error {
	return c.leaseServer.Watch(ctx, folder, name, version, func(object json.RawMessage) error {
		if c.pair.cut.Load() {
			return errCut
		}
		return each(object)
	})
}

// awaitRenewal waits until the first keeps its lease in some way.
func (c *pair) awaitRenewal(renewal string, silent ...string) {
	c.first.t.Helper()
	c.first.awaitStatus("keep the lease by "+renewal, func(s agentapi.Status) bool {
		e := s.Election
		return e != nil && len(e.Members) > 0 && e.Renewal == renewal && strings.Join(e.Silent, " ") == strings.Join(silent, " ")
	})
}

func TestAPrimaryWhoseMemberAnswersDoesNotRenewItsLease(t *testing.T) {
	subset.OnlyInFull(t)
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	two := byWord(t, "shop-0", "shop-1")
	two.awaitRenewal(agentapi.RenewalMembers)
	before := len(two.lease.annotations())
	two.awaitRest(12 * time.Second) // three renewals
	if now := len(two.lease.annotations()); now > before+1 {
		t.Errorf("the Lease was written %d times in 12 s", now-before)
	}
	two.keep(agentapi.RenewalAPIServer)
	two.awaitRenewal(agentapi.RenewalAPIServer)
	two.keep(agentapi.RenewalMembers)
	two.awaitRenewal(agentapi.RenewalMembers)
	if err := two.second.terminate(time.Minute); err != nil {
		t.Fatal(err)
	}
	two.first.awaitStatus("renew the lease, as nobody gives a word", func(s agentapi.Status) bool { return s.Election.Renewal == agentapi.RenewalAPIServer })
	if s := two.first.agent.Status(); s.Role != "primary" || s.State != agentapi.StateRunning {
		t.Errorf("%+v", s)
	}
}

// awaitWords waits until the second has given its word some times more. The age of the lease is that of the last one, or of the version
// that was seen last.
func (c *pair) awaitWords() {
	c.second.t.Helper()
	before, given := 0.0, 0
	c.second.awaitStatus("give its word again and again", func(s agentapi.Status) bool {
		if s.Election.LeaseAgeSeconds < before {
			given++
		}
		before = s.Election.LeaseAgeSeconds
		return given > 3
	})
}

// awaitRest lets time pass, in which the first has to stay primary.
func (c *pair) awaitRest(d time.Duration) {
	c.first.t.Helper()
	for end := time.After(d); ; {
		select {
		case <-end:
			return
		case <-time.After(100 * time.Millisecond):
		}
		if !c.first.agent.member.Leads() {
			c.first.t.Fatal("the first doesn't lead any more")
		}
	}
}

func TestAMemberThatGetsNoDatagramsHasTheLeaseRenewed(t *testing.T) {
	subset.OneIn(t, 3)
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	two := byWord(t, "shop-0")
	two.awaitRenewal(agentapi.RenewalAPIServer, "shop-1")
	two.awaitRest(12 * time.Second)
	for _, written := range two.lease.annotations() {
		if strings.Contains(written, "wordSeconds") {
			t.Errorf("the Lease says %s", written)
		}
	}
}

func TestAPrimaryThatIsCutOffIsFencedBeforeAnotherTakesOver(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	two := byWord(t, "shop-0", "shop-1")
	two.awaitRenewal(agentapi.RenewalMembers)
	two.awaitWords()
	acknowledged := two.first.commits()
	ended := make(chan time.Time, 1)
	go func() {
		<-acknowledged // all of its sessions end with it
		ended <- time.Now()
	}()
	cut := time.Now()
	two.cut.Store(true)
	two.second.await("take over", func() bool { return two.second.agent.Status().Role == "primary" })
	took := time.Now()
	select {
	case fenced := <-ended:
		t.Logf("fenced after %s, another primary after %s", fenced.Sub(cut).Round(time.Millisecond), took.Sub(cut).Round(time.Millisecond))
	default:
		t.Error("the first still accepts writes")
	}
	if took.Sub(cut) > 8*time.Second { // by renewal it is more than 9
		t.Errorf("that took %s", took.Sub(cut))
	}
	two.cut.Store(false)
	two.second.awaitStatus("have a member, and its word", func(s agentapi.Status) bool { return s.Election.Renewal == agentapi.RenewalMembers })
}
