package archive

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/postgres"
)

const (
	fetches    = 4         // at a time
	aheadBytes = 128 << 20 // of segments on disk that nobody asked for yet
	maxAhead   = 8
)

// Ahead fetches the WAL of one lineage, and the segments that will be asked for next before they are. What was fetched
// waits in a folder on the volume, so that handing it over is a rename.
type Ahead struct {
	archive *wal.Archive
	lineage string
	dir     string
	depth   int
	ctx     context.Context // of what is fetched
	cancel  context.CancelFunc

	slots   chan struct{}
	working sync.WaitGroup
	mu      sync.Mutex
	coming  map[string]*coming
}

// coming is one segment on its way, or there.
type coming struct {
	done  chan struct{}
	path  string
	ahead bool  // fetched before it was asked for
	err   error // once done is closed
}

// NewAhead fetches into a folder, which has to exist. A segment of that size at a time is fetched in any case.
func NewAhead(archive *wal.Archive, lineage, dir string, segSize uint64) *Ahead {
	depth := max(1, min(maxAhead, aheadBytes/int(segSize)))
	ctx, cancel := context.WithCancel(context.Background())
	return &Ahead{
		archive: archive, lineage: lineage, dir: dir, depth: depth, ctx: ctx, cancel: cancel,
		slots: make(chan struct{}, min(fetches, depth)), coming: map[string]*coming{},
	}
}

// Segment puts a segment at path, and fetches those after it as long as wanted says so. objstore.ErrNotFound: it is not
// archived. When ctx ends it is waited for no more; what is on its way is there for who asks for it again.
func (a *Ahead) Segment(ctx context.Context, segment postgres.Segment, path string, wanted func(postgres.Segment) bool) error {
	this := a.want(segment, false)
	next := segment
	for range a.depth {
		if next = next.Next(); !wanted(next) {
			break
		}
		a.want(next, true)
	}
	select {
	case <-this.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	// Asked for again, it is fetched again: at the end of recovery PostgreSQL reads a segment twice.
	a.mu.Lock()
	delete(a.coming, segment.Name())
	a.mu.Unlock()
	if this.err != nil && this.ahead {
		return a.File(ctx, segment.Name(), path) // it may have been archived, or the store come back, since
	}
	if this.err != nil {
		return this.err
	}
	return os.Rename(this.path, path)
}

// want fetches a segment, unless it is on its way or there.
func (a *Ahead) want(segment postgres.Segment, ahead bool) *coming {
	a.mu.Lock()
	defer a.mu.Unlock()
	name := segment.Name()
	if found := a.coming[name]; found != nil {
		return found
	}
	this := &coming{done: make(chan struct{}), path: filepath.Join(a.dir, name), ahead: ahead}
	a.coming[name] = this
	a.working.Go(func() {
		defer close(this.done)
		select {
		case a.slots <- struct{}{}:
			defer func() { <-a.slots }()
			this.err = a.File(a.ctx, name, this.path)
		case <-a.ctx.Done():
			this.err = a.ctx.Err()
		}
	})
	return this
}

// File puts a file of any kind at path, whole or not at all.
func (a *Ahead) File(ctx context.Context, name, path string) error {
	f, err := os.CreateTemp(a.dir, "fetching-")
	if err != nil {
		return fmt.Errorf("fetch %s: %w", name, err)
	}
	defer os.Remove(f.Name()) // it is gone where all went well
	_, err = a.archive.GetTo(ctx, a.lineage, name, f)
	if errClose := f.Close(); err == nil {
		err = errClose
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// Close gives up what is on its way, and throws away what was fetched and not asked for. Nobody may ask any more.
func (a *Ahead) Close() error {
	a.cancel()
	a.working.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	for name, this := range a.coming {
		if err := os.Remove(this.path); err != nil && !os.IsNotExist(err) {
			return err
		}
		delete(a.coming, name)
	}
	return nil
}
