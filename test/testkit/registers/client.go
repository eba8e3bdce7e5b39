package registers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"howdah.dev/howdah/test/testkit/writes"
)

// Table of the registers.
const Table = "registers"

// Prepare makes the registers from first on, with the value 0. Those of another history are others: a write of it may still come.
func Prepare(ctx context.Context, target writes.Target, first int64) error {
	conn, err := target.Connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "CREATE TABLE IF NOT EXISTS "+Table+" (register bigint PRIMARY KEY, value bigint NOT NULL)"); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, fmt.Sprintf("INSERT INTO %s SELECT n, 0 FROM generate_series(%d, %d) AS n ON CONFLICT DO NOTHING", Table, first, first+count-1))
	return err
}

const (
	// count of registers that a group of clients works on.
	count = 8
	// pace is from one operation of a client to the next.
	pace = 40 * time.Millisecond
	// patience with an operation, after which its outcome isn't known.
	patience = 2 * time.Second
)

// Clients read and write registers.
type Clients struct {
	began time.Time
	stop  context.CancelFunc
	done  sync.WaitGroup

	mutex   sync.Mutex
	history []Operation
}

// Start has this many clients work on the registers from first on.
func Start(ctx context.Context, target writes.Target, first int64, clients int) *Clients {
	c := &Clients{began: time.Now()}
	ctx, c.stop = context.WithCancel(ctx)
	for number := range clients {
		c.done.Go(func() { (&client{Clients: c, number: number, target: target, first: first}).run(ctx) })
	}
	return c
}

// Stop ends the clients, and returns what they did.
func (c *Clients) Stop() []Operation {
	c.stop()
	c.done.Wait()
	return c.history
}

type client struct {
	*Clients
	number   int
	target   writes.Target
	first    int64
	conn     *pgx.Conn
	warned   bool  // the server has said something about the present operation
	written  int64 // how many values
	replaced int   // how often the client was replaced by another one, as one that doesn't know what it did
}

func (c *client) run(ctx context.Context) {
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for {
		if err := c.operate(ctx); err != nil {
			c.hangUp()
		}
		select {
		case <-ctx.Done():
			c.hangUp()
			return
		case <-ticker.C:
		}
	}
}

// operate does one operation, and notes it unless it certainly had no effect.
func (c *client) operate(ctx context.Context) (err error) {
	if c.conn == nil {
		if c.conn, err = c.target.Connect(ctx, c.listen); err != nil {
			return err
		}
	}
	o := Operation{Client: c.number + 1000*c.replaced, Register: c.first + rand.Int64N(count), Write: rand.IntN(2) == 0, Call: time.Since(c.began)}
	if o.Write {
		c.written++
		o.Value = int64(c.number+1)<<32 | c.written
	}
	c.warned = false
	err = c.do(ctx, &o)
	o.Answer = time.Since(c.began)
	switch {
	case err == nil && !c.warned:
	case !o.Write || writes.ReadOnly(err): // nothing came of it
		return err
	default:
		o.Answer = Open
		c.replaced++ // the checker wants one operation of a client at a time
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.history = append(c.history, o)
	return err
}

func (c *client) do(ctx context.Context, o *Operation) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if !o.Write {
		return c.conn.QueryRow(ctx, "SELECT value FROM "+Table+" WHERE register = $1", o.Register).Scan(&o.Value)
	}
	tag, err := c.conn.Exec(ctx, "UPDATE "+Table+" SET value = $2 WHERE register = $1", o.Register, o.Value)
	if err == nil && tag.RowsAffected() != 1 {
		err = fmt.Errorf("register %d is not there", o.Register)
	}
	return err
}

// listen to what the server says beside its answers: that a commit was acknowledged without waiting for a replica, as somebody
// cancelled it.
func (c *client) listen(*pgconn.PgConn, *pgconn.Notice) { c.warned = true }

func (c *client) hangUp() {
	writes.HangUp(c.conn)
	c.conn = nil
}
