package writes

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"howdah.dev/howdah/test/testkit/netns"
)

// Target is a database, and how to get to it.
type Target struct {
	Address  string // IP, of a Service or of a pod
	Port     uint16
	Database string
	User     string
	Password string
	TLS      *tls.Config
	Dial     netns.Dial
	// Patience with a connection that doesn't come about; 0 is a second.
	Patience time.Duration
}

// connectTime is what a client gives a connection to come about: one that hangs is an outage, and measured as one.
const connectTime = time.Second

// Connect opens a connection, for one question or for many. What the server says beside its answers goes to whoever listens.
func (t Target) Connect(ctx context.Context, listeners ...pgconn.NoticeHandler) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig("")
	if err != nil {
		return nil, err
	}
	config.Host, config.Port, config.Database, config.User, config.Password = t.Address, t.Port, t.Database, t.User, t.Password
	config.TLSConfig, config.Fallbacks = t.TLS, nil
	config.DefaultQueryExecMode = pgx.QueryExecModeExec // one round trip
	for _, listener := range listeners {
		config.OnNotice = listener
	}
	config.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	if t.Dial != nil {
		config.DialFunc = pgconn.DialFunc(t.Dial)
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(t.Patience, connectTime))
	defer cancel()
	return pgx.ConnectConfig(ctx, config)
}

// Table that all clients write to.
const Table = "acknowledged"

// Prepare makes the table where there is none.
func Prepare(ctx context.Context, target Target) error {
	return target.exec(ctx, "CREATE TABLE IF NOT EXISTS "+Table+" (client text, n bigint, PRIMARY KEY (client, n))")
}

// Clear takes all rows away.
func Clear(ctx context.Context, target Target) error { return target.exec(ctx, "TRUNCATE "+Table) }

func (t Target) exec(ctx context.Context, statement string) error {
	conn, err := t.Connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, statement)
	return err
}

// Present are the rows that are there.
func Present(ctx context.Context, target Target) (map[Row]bool, error) {
	conn, err := target.Connect(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	rows, err := conn.Query(ctx, "SELECT client, n FROM "+Table)
	if err != nil {
		return nil, err
	}
	present, row := map[Row]bool{}, Row{}
	_, err = pgx.ForEachRow(rows, []any{&row.Client, &row.N}, func() error {
		present[row] = true
		return nil
	})
	return present, err
}

// Client writes one row after the other until it is stopped.
type Client struct {
	Name   string
	Target Target
	// Find says where the database is by now, before each connection; nil: it stays at Target.
	Find func(context.Context) (Target, error)
	// Looks only: it writes nothing, and notes when a server accepts writes.
	Looks bool
	// Keep the connection, and open another one only after an error. Else each row has its own.
	Keep bool
	// Patience with a statement; after that the connection is given up. 0 is two seconds.
	Patience time.Duration
	// Pace is from one row to the next; 0 is 50 milliseconds.
	Pace time.Duration
	// Open is for how long the transaction of a row stays open once the row is written; 0: the row is a statement without BEGIN and COMMIT.
	Open time.Duration

	conn   *pgx.Conn
	warned bool // the server has said something about the present statement
	mutex  sync.Mutex
	acks   []Ack
	failed []Failure
	last   error
	broken int // how many rows were acknowledged when a write failed last
	stop   context.CancelFunc
	done   chan struct{}
}

// pace is 20 rows a second.
const pace = 50 * time.Millisecond

// insert answers with the server that has the row and the timeline that it is on.
const insert = "INSERT INTO " + Table + ` VALUES ($1, $2)
RETURNING host(inet_server_addr()), left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)`

// Start begins to write.
func (c *Client) Start(ctx context.Context) {
	if c.Patience == 0 {
		c.Patience = 2 * time.Second
	}
	if c.Pace == 0 {
		c.Pace = pace
	}
	ctx, c.stop = context.WithCancel(ctx)
	c.done = make(chan struct{})
	go c.run(ctx)
}

// Stop ends it; what was under way is not acknowledged.
func (c *Client) Stop() {
	c.stop()
	<-c.done
}

func (c *Client) run(ctx context.Context) {
	defer close(c.done)
	ticker := time.NewTicker(c.Pace)
	defer ticker.Stop()
	for n := int64(1); ; n++ {
		ack, err := c.write(ctx, n)
		if ctx.Err() == nil || err == nil {
			c.note(ack, err)
		}
		if err != nil && !c.stays(err) || !c.Keep {
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

func (c *Client) write(ctx context.Context, n int64) (ack Ack, err error) {
	ack.Row, ack.Began, c.warned = Row{c.Name, n}, time.Now(), false
	ack.Sent = ack.Began
	if c.conn == nil {
		if err := c.connect(ctx); err != nil {
			return ack, fmt.Errorf("connect: %w", err)
		}
		ack.Sent = time.Now()
	}
	ctx, cancel := context.WithTimeout(ctx, c.Patience)
	defer cancel()
	switch {
	case c.Looks:
		err = c.conn.QueryRow(ctx, look).Scan(&ack.Server, &ack.Timeline)
	case c.Open > 0:
		err = c.transaction(ctx, &ack)
	default:
		err = c.conn.QueryRow(ctx, insert, c.Name, n).Scan(&ack.Server, &ack.Timeline)
	}
	ack.At = time.Now()
	if err == nil && c.warned {
		err = errWarned
	}
	return ack, err
}

// transaction writes a row in a transaction of several statements, which takes a while.
func (c *Client) transaction(ctx context.Context, ack *Ack) error {
	if _, err := c.conn.Exec(ctx, "BEGIN"); err != nil {
		return fmt.Errorf("BEGIN: %w", err)
	}
	if err := c.conn.QueryRow(ctx, insert, ack.Client, ack.N).Scan(&ack.Server, &ack.Timeline); err != nil {
		return fmt.Errorf("INSERT: %w", err)
	}
	select {
	case <-time.After(c.Open):
	case <-ctx.Done():
		return ctx.Err()
	}
	if _, err := c.conn.Exec(ctx, "COMMIT"); err != nil {
		return fmt.Errorf("COMMIT: %w", err)
	}
	return nil
}

// errWarned is how a commit ends that somebody cancelled while it waited for a replica: nothing is promised of it.
var errWarned = errors.New("the commit was acknowledged with a warning")

// ReadOnly says whether a server has refused to write, as replicas do.
func ReadOnly(err error) bool {
	var said *pgconn.PgError
	return errors.As(err, &said) && said.Code == "25006" // read_only_sql_transaction
}

// stays says whether a connection continues after an error. Past the Service, one to a replica does: the instance may become primary. Through
// it, the connection was led astray for a moment, and the next one finds the primary.
func (c *Client) stays(err error) bool {
	return ReadOnly(err) && c.Find != nil || errors.Is(err, pgx.ErrNoRows) || errors.Is(err, errWarned)
}

func (c *Client) connect(ctx context.Context) (err error) {
	if c.Find != nil {
		if c.Target, err = c.Find(ctx); err != nil {
			return err
		}
	}
	c.conn, err = c.Target.Connect(ctx, func(_ *pgconn.PgConn, notice *pgconn.Notice) {
		c.warned = c.warned || notice.Severity == "WARNING" // PgBouncer tells with a NOTICE that one waits
	})
	return err
}

func (c *Client) hangUp() {
	HangUp(c.conn)
	c.conn = nil
}

// HangUp closes a connection without waiting for an answer that may not come; nil: there is none.
func HangUp(conn *pgx.Conn) {
	if conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_ = conn.Close(ctx)
}

func (c *Client) note(ack Ack, err error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.last = err
	if err != nil {
		c.broken = len(c.acks)
		c.failed = append(c.failed, Failure{Row: ack.Row, Sent: ack.Sent, At: time.Now(), Err: err})
		return
	}
	c.acks = append(c.acks, ack)
}

// Unbroken is how many rows were acknowledged since a write failed.
func (c *Client) Unbroken() int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return len(c.acks) - c.broken
}

// Acks are the rows that were acknowledged so far.
func (c *Client) Acks() []Ack {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.acks[:len(c.acks):len(c.acks)]
}

// Failures are the writes that came to an error so far.
func (c *Client) Failures() []Failure {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.failed[:len(c.failed):len(c.failed)]
}

// LastError is what the last write came to.
func (c *Client) LastError() error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.last
}
