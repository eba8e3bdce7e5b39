package supervise

import (
	"sync"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/archive"
	"howdah.dev/howdah/cmd/agent/internal/elect"
	"howdah.dev/howdah/cmd/agent/internal/replicate"
)

// progress is how a replica gets on. Its services note it, and the loop looks at it: any goroutine may use it.
type progress struct {
	mu       sync.Mutex
	stuck    time.Time // since when it makes no progress though its primary answers; zero: it isn't
	followed time.Time // since when it streams; zero: it doesn't
	replayed uint64
	level    time.Time // when it had all that its primary had
	needs    method    // to follow
	reads    reading   // of the archive
	lacking  string    // parameters of which it has less than the WAL asks for, so that it replays nothing; empty: none
}

// reading is whose archived WAL a replica reads; zero: none.
type reading struct {
	leader string
	term   int64
}

// begin forgets what was found out about the server before.
func (p *progress) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stuck, p.followed, p.needs, p.lacking = time.Time{}, time.Time{}, asItIs, ""
}

// note says whether the replica moves; one that fetches from the archive is not stuck, nor is a delayed one that is not to replay yet.
func (p *progress) note(found replicate.Position, answers, fetching, delayed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	moves := uint64(found.Replayed) != p.replayed
	p.replayed = uint64(found.Replayed)
	switch {
	case found.Streaming:
		p.stuck, p.needs = time.Time{}, asItIs
		if p.followed.IsZero() {
			p.followed = now
		}
	case moves || !answers || fetching || found.Waiting || delayed && found.Paused:
		p.stuck, p.followed = time.Time{}, time.Time{}
	case p.stuck.IsZero():
		p.stuck, p.followed = now, time.Time{}
	}
}

// lagging is for how long the replica has not had all that its primary had.
func (p *progress) lagging(lag int64, answers bool) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if lag == 0 && answers || p.level.IsZero() {
		p.level = time.Now()
	}
	if lag == 0 && answers {
		return 0
	}
	return time.Since(p.level)
}

// idleFor says whether the replica has made no progress for so long though its primary answers.
func (p *progress) idleFor(d time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.stuck.IsZero() && time.Since(p.stuck) >= d
}

// need notes what the replica needs to follow.
func (p *progress) need(m method) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.needs = m
}

// lack notes which parameters keep the replica from replaying.
func (p *progress) lack(parameters string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lacking = parameters
}

func (p *progress) lacks() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lacking
}

// verdict is what is known of whether the replica can follow.
func (p *progress) verdict() (stuck, followed time.Time, needs method) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stuck, p.followed, p.needs
}

// readsFor says whether a replica that follows as wanted is to read the archive.
func (p *progress) readsFor(want elect.Want) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reads != reading{} && p.reads == reading{want.Leader.Name, want.Term}
}

// read notes that the replica is to read the archive, and says whether that is new.
func (p *progress) read(want elect.Want) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := reading{want.Leader.Name, want.Term}
	changed := p.reads != now
	p.reads = now
	return changed
}

// endReading is for a replica that gets what it needs from its primary, or has another one, whose history may be another. It
// says whether the replica was to read the archive.
func (p *progress) endReading(archiver *archive.Archiver) bool {
	p.mu.Lock()
	was := p.reads
	p.reads = reading{}
	p.mu.Unlock()
	if was == (reading{}) {
		return false
	}
	archiver.EndSupply()
	return true
}
