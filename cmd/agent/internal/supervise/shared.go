package supervise

import (
	"math"
	"sync/atomic"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
)

// shared is what the loop and the services of a server both use. It is put together once, and each of its parts is safe for any
// goroutine.
type shared struct {
	*instance
	election  *election
	latest    *latest
	publisher Publisher
	slots     *slots
	progress  *progress
	disk      *diskSpace
	wakeups   wakeups
}

// latest is the newest configuration of the cluster. Any goroutine may read it; the loop takes it in.
type latest struct {
	newest atomic.Pointer[inputs]
}

func (l *latest) inputs() inputs { return *l.newest.Load() }

func (l *latest) config() agentapi.Config { return l.newest.Load().config }

func (l *latest) set(in inputs) { l.newest.Store(&in) }

// elects says whether there is anybody to elect.
func (l *latest) elects() bool { return l.config().Instances > 1 }

// replicasLast says whether a replica ends only when it has all that its primary has written.
func (l *latest) replicasLast() bool { return l.config().ReplicasLast }

// replayLimit is how long such a replica replays at most once its primary has ended.
func (l *latest) replayLimit() time.Duration {
	if limit := l.config().ReplayLimitSeconds; limit > 0 {
		return time.Duration(limit) * time.Second
	}
	return math.MaxInt64
}

// wakeups wake services when what they are for has changed.
type wakeups struct {
	// credentials is for who keeps the roles, when a password has changed.
	credentials chan struct{}
	// declarations is for who keeps what is declared, when that, or a password in it, has changed.
	declarations chan struct{}
	// slots is for who keeps declared slots, when others are declared.
	slots chan struct{}
}

func newWakeups() wakeups {
	return wakeups{credentials: make(chan struct{}, 1), declarations: make(chan struct{}, 1), slots: make(chan struct{}, 1)}
}

// wake lets who waits on a channel continue, to look at what is there then.
func wake(waiting chan<- struct{}) {
	select {
	case waiting <- struct{}{}:
	default:
	}
}
