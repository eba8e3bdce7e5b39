package elect

import (
	"slices"

	"howdah.dev/howdah/pkg/agentapi"
)

// What a Core is told.

// Self is the instance that a Core decides for.
type Self struct {
	Name, UID, Address string
	// Started says when this process was, for who has to tell it from another one of the same pod.
	Started string
	// Generation is the data generation that the instance is to run. Original: its volume has the one that others are
	// cloned from. Whole: its volume has a copy of it, whichever.
	Generation string
	Original   bool
	Whole      bool
	// Standby: the last server on that copy was a replica.
	Standby bool
	// Timeline is the latest that its volume knows of, and Checkpoint the one in the control file there; 0: it isn't known.
	Timeline   int64
	Checkpoint End
}

// Found takes in what the volume says of its copy when it is looked at again. That matters where it could not be read before: else whoever was primary
// last would wait for its own data.
func Found(c *Core, self Self) {
	if c.self.Whole || !self.Whole {
		return
	}
	c.self.Original, c.self.Whole, c.self.Standby = self.Original, true, self.Standby
	c.self.Timeline, c.self.Checkpoint = max(c.self.Timeline, self.Timeline), later(c.self.Checkpoint, self.Checkpoint)
}

// holds says whether a record names this very pod as the holder.
func (s *Self) holds(record *Record) bool {
	return record.Holder == s.Name && record.HolderUID == s.UID && record.Generation == s.Generation
}

// Config is what the cluster asks for.
type Config struct {
	// Alone: there is no other instance than the one in Peers, and there will be none until this changes.
	Alone bool
	// Peers are the names of all instances, this one too.
	Peers []string
	// Begins is the instance that begins the data generation; empty: whoever has the original.
	Begins string
	// Number of synchronous replicas, 0 for none; Required: commits wait for them.
	Number   int
	Required bool
	// Degrade: until that many were there once in this data generation, those that are there will do. It has no meaning but with
	// Required, and says nothing from then on.
	Degrade bool
	// MaxLag is how far behind a member may be, in bytes.
	MaxLag uint64
	// Limits of this instance; zero: DefaultLimits.
	Limits   Limits
	Failover Failover
	// ByWord: the word of the members is to be enough to keep the lease, where all of them can be asked for it.
	ByWord bool
}

func (c *Config) limits() Limits {
	if c.Limits == (Limits{}) {
		return DefaultLimits()
	}
	return c.Limits
}

// number of replicas that commits are to wait for, as far as there are instances that can be such a replica.
func (c *Config) number() int {
	able := 0
	for _, name := range c.Peers {
		if c.counts(name) {
			able++
		}
	}
	return max(0, min(c.Number, able-1))
}

// counts says whether an instance may be a member when it is a replica.
func (c *Config) counts(name string) bool {
	return slices.Contains(c.Peers, name) && !c.Failover.delayed(name)
}

// degraded: the replicas of this data generation are yet to be built, and commits don't wait for that.
func (c *Config) degraded(record *Record) bool {
	return c.Required && c.Degrade && c.number() > 0 && !record.full(c.number())
}

// required: commits wait for that many replicas, whether they are there or not.
func (c *Config) required(record *Record) bool { return c.Required && !c.degraded(record) }

// Degraded says whether this instance is the primary, and commits don't wait for replicas that are yet to be built.
func Degraded(c *Core) bool { return c.holds && c.config.degraded(c.lease.record) }

// Mode is how PostgreSQL runs.
type Mode int

// The modes.
const (
	Down     Mode = iota // nothing of it runs
	Starting             // or stopping
	Replica              // it follows, and accepts connections
	Primary              // it accepts writes
)

// Server is what is known of the instance's own PostgreSQL.
type Server struct {
	Mode     Mode
	Position agentapi.Position
	// Sync is what synchronous_standby_names is by now in all processes, and SyncSince the WAL position from which on; for a
	// server that began with it, where the WAL was then or later.
	Sync      Sync
	SyncSince uint64
	// End is where the record of the checkpoint begins with which a primary was shut down in order, on the timeline of Position;
	// 0: it wasn't. Who has received more than that has everything.
	End uint64
	// Checkpoint is the last one in the control file of a primary.
	Checkpoint End
	// Deserted: no replica was connected any more when the primary was told to end, so none can get the last of its WAL. It
	// says nothing about a server that isn't Down.
	Deserted bool
	// Hopeless: it was primary and doesn't come up again. It says nothing about a server that isn't Down.
	Hopeless bool
	// Stalled: its disk has not answered for so long that nobody waits for it. No commit ends here, and nothing is received.
	Stalled bool
}

// hopeless: the server was primary and does not come up again.
func (s *Server) hopeless() bool { return s.Hopeless && s.Mode == Down }

// stuck: the disk of the holder's server doesn't respond, and somebody could take over. Where the storage of all is away, the
// replicas of a running primary say so, or don't stream.
func (s *Server) stuck(record *Record, replicas *replicas) bool {
	if !s.Stalled || s.Mode != Primary {
		return s.Stalled && len(record.Members) > 0
	}
	return slices.ContainsFunc(record.Members, func(m Member) bool { return replicas.stream(m.Name) })
}

// timeline that the server is on, or would begin if it were promoted.
func (s *Server) timeline() int64 {
	if s.Mode == Replica {
		return s.Position.Timeline + 1
	}
	return s.Position.Timeline
}

// end of the server's WAL, if it was shut down in order.
func (s *Server) end() (End, bool) {
	end := End{Timeline: s.Position.Timeline, LSN: s.End}
	return end, end.LSN > 0 && end.Timeline > 0
}

// Sync is a value of synchronous_standby_names: ANY Quorum (Members). Quorum 0 is asynchronous.
type Sync struct {
	Quorum  int
	Members []string
}

func (s Sync) equal(other Sync) bool {
	return s.Quorum == other.Quorum && (s.Quorum == 0 || slices.Equal(s.Members, other.Members))
}

// Follower is a replica as its primary sees it.
type Follower struct {
	Address   string
	Streaming bool
	Flushed   uint64
	Replayed  uint64
	Lag       uint64
}
