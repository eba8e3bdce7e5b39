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
)

// pageChecker finds damaged pages while they are read. A page that PostgreSQL writes at the same
// moment is seen torn: it is read again, and if it was changed since the backup started, replaying
// WAL replaces it anyway.
type pageChecker struct {
	start postgres.LSN
	wait  func(context.Context, time.Duration) error // before a page is read again

	mu     sync.Mutex
	damage DamageError
	newer  []DamagedPage // torn, and changed since the start, if their LSN can be believed
}

// check verifies the whole pages in content, which was read from e at offset. It may replace pages
// by what a second read returns.
func (c *pageChecker) check(ctx context.Context, e *entry, file io.ReaderAt, content []byte, offset int64) error {
	for at := 0; at+postgres.PageSize <= len(content); at += postgres.PageSize {
		page := content[at : at+postgres.PageSize]
		position := offset + int64(at)
		block := e.first + uint32(position/postgres.PageSize)
		ok, _, _ := postgres.CheckPage(page, block)
		if ok {
			continue
		}
		if err := c.again(ctx, e, file, page, position, block); err != nil {
			return err
		}
	}
	return nil
}

// again reads a page that failed a few times more, and notes it if it stays bad.
func (c *pageChecker) again(ctx context.Context, e *entry, file io.ReaderAt, page []byte, position int64, block uint32) error {
	fresh := make([]byte, postgres.PageSize)
	lsn := postgres.LSN(0)
	for range rereads {
		if err := c.wait(ctx, rereadPause); err != nil {
			return err
		}
		n, err := file.ReadAt(fresh, position)
		if n < len(fresh) {
			if err == io.EOF {
				return nil // truncated meanwhile: WAL says so too
			}
			return err
		}
		copy(page, fresh)
		ok, at, _ := postgres.CheckPage(page, block)
		if ok {
			return nil
		}
		lsn = at
	}
	c.note(DamagedPage{File: e.Path, Block: block, LSN: lsn})
	return nil
}

func (c *pageChecker) note(page DamagedPage) {
	c.mu.Lock()
	defer c.mu.Unlock()
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
func (c *pageChecker) result(stop postgres.LSN) error {
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
