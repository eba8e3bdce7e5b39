package rowwriter

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// client writes one numbered row after the other. A number whose row was not acknowledged is not used again, since the row may exist.
type client struct {
	name    string
	keep    bool // the connection, until it breaks
	connect func(context.Context) (*pgx.Conn, error)
	now     func() time.Time

	conn *pgx.Conn

	mu           sync.Mutex
	acknowledged []int64
	last         time.Time // when a row was acknowledged last
	longest      time.Duration
}

// attemptTime is what a client gives a row, its connection included. One that hangs is an outage, and measured as one.
const attemptTime = 2 * time.Second

// run writes until the context ends.
func (c *client) run(ctx context.Context, pace time.Duration) {
	defer c.drop()
	for n := int64(1); ctx.Err() == nil; n++ {
		if c.write(ctx, n) == nil {
			c.acknowledge(n)
		} else {
			c.drop()
		}
		select {
		case <-ctx.Done():
		case <-time.After(pace):
		}
	}
}

func (c *client) write(ctx context.Context, n int64) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	if c.conn == nil {
		conn, err := c.connect(ctx)
		if err != nil {
			return err
		}
		c.conn = conn
	}
	if _, err := c.conn.Exec(ctx, "INSERT INTO "+table+" (client, n) VALUES ($1, $2)", c.name, n); err != nil {
		return err
	}
	if !c.keep {
		c.drop()
	}
	return nil
}

// drop closes the connection, and doesn't wait for a server that is gone.
func (c *client) drop() {
	if c.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_ = c.conn.Close(ctx) // it is given up either way
	c.conn = nil
}

func (c *client) acknowledge(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if !c.last.IsZero() {
		c.longest = max(c.longest, now.Sub(c.last))
	}
	c.last, c.acknowledged = now, append(c.acknowledged, n)
}

// measured is how many rows were acknowledged, and the longest time without one, the present one included.
func (c *client) measured() (rows int64, gap time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last.IsZero() {
		return 0, 0
	}
	return int64(len(c.acknowledged)), max(c.longest, c.now().Sub(c.last))
}

// lost is how many acknowledged rows are not among those that are present.
func (c *client) lost(present map[int64]bool) (rows int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.acknowledged {
		if !present[n] {
			rows++
		}
	}
	return rows
}
