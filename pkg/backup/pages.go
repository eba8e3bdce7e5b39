package backup

import (
	"context"
	"io"
	"sync"
	"time"

	"howdah.dev/howdah/pkg/postgres"
)

const (
	rereads     = 5
	rereadPause = 10 * time.Millisecond
	maxDamaged  = 100
	// maxNoted bounds the pages that are known not to be counted twice.
	maxNoted = 1 << 16
)

// pageChecker finds damaged pages while they are read. A page that PostgreSQL writes at the same
// moment is seen torn: it is read again, and if it was changed since the backup started, replaying
// WAL replaces it anyway.
type pageChecker struct {
	start postgres.LSN
	wait  func(context.Context, time.Duration) error // before a page is read again

	mu     sync.Mutex
	damage Damage
	newer  []DamagedPage // torn, and changed since the start, if their LSN can be believed
	noted  map[pageID]bool
}

type pageID struct {
	file  string
	block uint32
}

// check verifies the whole pages in content, which was read from e at offset. It may replace pages
// by what a second read returns.
func (c *pageChecker) check(ctx context.Context, e *entry, file io.ReaderAt, content []byte, offset int64) error {
	var bad []int // where in content
	for at := 0; at+postgres.PageSize <= len(content); at += postgres.PageSize {
		block := e.first + uint32((offset+int64(at))/postgres.PageSize)
		if ok, _, _ := postgres.CheckPage(content[at:at+postgres.PageSize], block); !ok {
			bad = append(bad, at)
		}
	}
	if len(bad) == 0 {
		return nil
	}
	return c.again(ctx, e, file, content, offset, bad)
}

// again reads the pages that failed a few times more, and notes those that stay bad.
func (c *pageChecker) again(ctx context.Context, e *entry, file io.ReaderAt, content []byte, offset int64, bad []int) error {
	fresh := make([]byte, postgres.PageSize)
	for range rereads {
		if err := c.wait(ctx, rereadPause); err != nil {
			return err
		}
		still := bad[:0]
		for _, at := range bad {
			n, err := file.ReadAt(fresh, offset+int64(at))
			switch {
			case n < len(fresh) && err == io.EOF:
				continue // truncated meanwhile: WAL says so too
			case n < len(fresh):
				return err
			}
			copy(content[at:], fresh)
			if ok, _, _ := postgres.CheckPage(fresh, e.first+uint32((offset+int64(at))/postgres.PageSize)); !ok {
				still = append(still, at)
			}
		}
		if bad = still; len(bad) == 0 {
			return nil
		}
	}
	for _, at := range bad {
		block := e.first + uint32((offset+int64(at))/postgres.PageSize)
		_, lsn, _ := postgres.CheckPage(content[at:at+postgres.PageSize], block)
		c.note(DamagedPage{File: e.Path, Block: block, LSN: lsn})
	}
	return nil
}

func (c *pageChecker) note(page DamagedPage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := pageID{page.File, page.Block}
	if c.noted[id] {
		return // it was read once already, to find out whether it had changed
	}
	if c.noted == nil {
		c.noted = map[pageID]bool{}
	}
	if len(c.noted) < maxNoted {
		c.noted[id] = true
	}
	if page.LSN > c.start {
		c.newer = append(c.newer, page)
		return
	}
	c.add(page)
}

func (c *pageChecker) add(page DamagedPage) {
	c.damage.Count++
	if len(c.damage.Pages) < maxDamaged {
		c.damage.Pages = append(c.damage.Pages, page)
	}
}

// result is the damage that was found, nil if there is none. A torn page that claims to have been
// changed after the backup's end lies.
func (c *pageChecker) result(stop postgres.LSN) *Damage {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, page := range c.newer {
		if page.LSN > stop {
			c.add(page)
		}
	}
	c.newer = nil
	if c.damage.Count == 0 {
		return nil
	}
	return &c.damage
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
