package elect

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
)

const generation = "g1"

var limits = DefaultLimits()

// instance is a Core with a clock, and with an API server and peers that do what a test says.
type instance struct {
	*testing.T
	core *Core
	now  Time
	acts Acts
	// write is on its way until the test ends it.
	write *Write
}

func peers(n int) []string { return []string{"a", "b", "c", "d", "e"}[:n] }

func asynchronous() Config { return Config{Peers: peers(3), MaxLag: 100} }

func required(k int) Config { return Config{Peers: peers(3), MaxLag: 100, Number: k, Required: true} }

func preferred(k int) Config { return Config{Peers: peers(3), MaxLag: 100, Number: k} }

func start(t *testing.T, name string, config Config) *instance {
	self := Self{Name: name, UID: name + "-1", Address: "ip-" + name, Generation: generation, Original: name == "a", Whole: true}
	i := &instance{T: t, core: New(self, config), now: time.Second}
	i.step()
	return i
}

// leader is an instance that has taken the lease with that record, and whose server is up.
func leader(t *testing.T, config Config, record Record) *instance {
	t.Helper()
	i := start(t, "a", config)
	i.sees(record)
	i.writes(Written)
	i.serves(Primary, 1, 100)
	return i
}

func (i *instance) step() Acts {
	i.acts = i.core.Step(i.now)
	if i.acts.Write != nil {
		i.write = i.acts.Write
	}
	return i.acts
}

func (i *instance) passes(d time.Duration) *instance {
	i.now += d
	i.step()
	return i
}

func (i *instance) sees(r Record) *instance {
	i.core.SawLease(i.now, r)
	i.step()
	return i
}

// serves reports the server, with the quorum that was wanted.
func (i *instance) serves(mode Mode, timeline int64, lsn uint64) *instance {
	i.observes(Server{Mode: mode, Position: agentapi.Position{Timeline: timeline, LSN: lsn}})
	return i
}

func (i *instance) observes(server Server) *instance {
	if server.Mode == Primary {
		server.Sync, server.SyncSince = i.acts.Want.Sync, server.Position.LSN
	}
	i.core.Observe(i.now, server)
	i.step()
	return i
}

// writes ends the write that is wanted, and gives what was written.
func (i *instance) writes(outcome Outcome) Record {
	i.Helper()
	write := i.write
	if write == nil {
		i.Fatalf("no write is wanted: %+v", i.acts)
	}
	i.write = nil
	record := write.Record
	number, _ := strconv.Atoi(record.Version)
	version := strconv.Itoa(number + 1)
	i.core.Wrote(i.now, write, outcome, version)
	i.step()
	if outcome == Written {
		record.Version = version
	}
	return record
}

// renews lets time pass, with renewals that are confirmed at once.
func (i *instance) renews(d time.Duration) Record {
	i.Helper()
	record := *i.core.Record()
	for end := i.now + d; i.now < end; {
		i.passes(100 * time.Millisecond)
		if i.write != nil {
			record = i.writes(Written)
		}
	}
	return record
}

func (i *instance) hears(name string, timeline int64, lsn uint64) *instance {
	return i.hearsPosition(agentapi.Position{Pod: name, Replica: true, Timeline: timeline, LSN: lsn})
}

func (i *instance) hearsPosition(p agentapi.Position) *instance {
	p.Generation = generation
	i.core.Heard(i.now, p)
	i.step()
	return i
}

func (i *instance) follow(streaming ...string) *instance {
	followers := map[string]Follower{}
	for _, name := range streaming {
		followers[name] = Follower{Address: "ip-" + name, Streaming: true, Flushed: 1000}
	}
	i.core.Follow(i.now, followers)
	i.step()
	return i
}

func (i *instance) takes() Record {
	i.Helper()
	if i.write == nil {
		i.Fatalf("%s doesn't write the lease: %s", i.core.self.Name, i.acts.Want.Why)
	}
	return i.write.Record
}

func (i *instance) waits() {
	i.Helper()
	if i.write != nil {
		i.Fatalf("%s writes the lease: %+v", i.core.self.Name, i.write.Record)
	}
}

func (i *instance) wants(role Role) {
	i.Helper()
	if i.acts.Want.Role != role {
		i.Fatalf("%s wants role %d, not %d", i.core.self.Name, i.acts.Want.Role, role)
	}
}

func members(list ...string) []Member {
	out := make([]Member, 0, len(list))
	for _, name := range list {
		out = append(out, Member{Name: name, Address: "ip-" + name})
	}
	return out
}

// held is a Lease of a in its third term.
func held(quorum int, list ...string) Record {
	return Record{
		Version: "5", Holder: "a", HolderUID: "a-1", Address: "ip-a", Term: 3, Timeline: 1, Generation: generation, LastHolder: "a",
		Members: members(list...), Quorum: quorum,
	}
}

func givenUp(quorum int, successor string, complete bool, list ...string) Record {
	r := held(quorum, list...)
	r.Version, r.Holder, r.HolderUID, r.Successor, r.Complete = "6", "", "", successor, complete
	return r
}

func same(t *testing.T, what string, got []Member, want ...string) {
	t.Helper()
	if !slices.Equal(names(got), slices.Sorted(slices.Values(want))) {
		t.Errorf("%s: %v, not %v", what, names(got), want)
	}
}
