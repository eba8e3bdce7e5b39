// Package cdc is a client of logical replication that counts how often it is told of each row: the judge of what a failover may neither
// leave out nor repeat.
package cdc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"howdah.dev/howdah/test/testkit/writes"
)

const (
	// confirmTime is from one confirmation to the next: with each, the server may forget what came before.
	confirmTime = 500 * time.Millisecond
	// pause is between two connections.
	pause = 200 * time.Millisecond
	// silence is after how long without a word a connection is given up. A server that runs says something every few seconds.
	silence = 15 * time.Second
)

// Client reads a slot until it is stopped, over as many connections as it takes. As a client should, it remembers with the rows up to
// where it has them, and asks for what comes after that.
type Client struct {
	Target writes.Target
	Slot   string
	// Publication of the table writes.Table.
	Publication string
	// From is where it begins.
	From pglogrepl.LSN

	stop context.CancelFunc
	done chan struct{}

	mutex       sync.Mutex
	position    pglogrepl.LSN
	rows        map[writes.Row]int
	connections int
	last        error
}

// Start begins to read.
func (c *Client) Start(ctx context.Context) {
	ctx, c.stop = context.WithCancel(ctx)
	c.done, c.position, c.rows = make(chan struct{}), c.From, map[writes.Row]int{}
	go c.run(ctx)
}

// Stop ends it.
func (c *Client) Stop() {
	c.stop()
	<-c.done
}

// Rows says how often it was told of each row.
func (c *Client) Rows() map[writes.Row]int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return maps.Clone(c.rows)
}

// State says how it goes, for whoever waits.
func (c *Client) State() string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return fmt.Sprintf("%d rows up to %s over %d connections, the last of which ended with: %v", len(c.rows), c.position, c.connections, c.last)
}

func (c *Client) run(ctx context.Context) {
	defer close(c.done)
	for ctx.Err() == nil {
		err := c.read(ctx)
		c.mutex.Lock()
		c.last = err
		c.mutex.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// read reads over one connection until that fails.
func (c *Client) read(ctx context.Context) error {
	conn, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	c.mutex.Lock()
	c.connections++
	position := c.position
	c.mutex.Unlock()
	err = pglogrepl.StartReplication(ctx, conn, c.Slot, position, pglogrepl.StartReplicationOptions{
		PluginArgs: []string{"proto_version '1'", "publication_names '" + c.Publication + "'"},
	})
	if err != nil {
		return err
	}
	stream := &stream{client: c, conn: conn, names: map[uint32]string{}}
	return stream.run(ctx)
}

func (c *Client) connect(ctx context.Context) (*pgconn.PgConn, error) {
	config, err := pgconn.ParseConfig("")
	if err != nil {
		return nil, err
	}
	t := c.Target
	config.Host, config.Port, config.Database, config.User, config.Password = t.Address, t.Port, t.Database, t.User, t.Password
	config.TLSConfig, config.Fallbacks = t.TLS, nil
	config.RuntimeParams["replication"] = "database"
	config.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	config.DialFunc = pgconn.DialFunc(t.Dial)
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return pgconn.ConnectConfig(ctx, config)
}

// commit takes in a transaction, and up to where everything is known, at once.
func (c *Client) commit(t *transaction, end pglogrepl.LSN) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if t.truncated {
		c.rows = map[writes.Row]int{}
	}
	for _, row := range t.rows {
		c.rows[row]++
	}
	c.position = end
}

func (c *Client) confirmed() pglogrepl.LSN {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.position
}

// transaction is what was told of one so far.
type transaction struct {
	truncated bool
	rows      []writes.Row
}

// stream is one connection.
type stream struct {
	client *Client
	conn   *pgconn.PgConn
	names  map[uint32]string // of tables
	open   *transaction
}

func (s *stream) run(ctx context.Context) error {
	heard := time.Now()
	for {
		position := s.client.confirmed()
		if err := pglogrepl.SendStandbyStatusUpdate(ctx, s.conn, pglogrepl.StandbyStatusUpdate{WALWritePosition: position}); err != nil {
			return err
		}
		for next := time.Now().Add(confirmTime); time.Now().Before(next); {
			limited, cancel := context.WithDeadline(ctx, next)
			message, err := s.conn.ReceiveMessage(limited)
			cancel()
			switch {
			case err != nil && pgconn.Timeout(err) && ctx.Err() == nil:
				continue
			case err != nil:
				return err
			}
			heard = time.Now()
			if err := s.take(message); err != nil {
				return err
			}
		}
		if time.Since(heard) > silence {
			return errors.New("the server says nothing any more")
		}
	}
}

func (s *stream) take(message pgproto3.BackendMessage) error {
	switch m := message.(type) {
	case *pgproto3.ErrorResponse:
		return pgconn.ErrorResponseToPgError(m)
	case *pgproto3.CopyDone:
		return errors.New("the server ends the stream")
	case *pgproto3.CopyData:
		if m.Data[0] != pglogrepl.XLogDataByteID {
			return nil
		}
		data, err := pglogrepl.ParseXLogData(m.Data[1:])
		if err != nil {
			return err
		}
		change, err := pglogrepl.Parse(data.WALData)
		if err != nil {
			return err
		}
		return s.note(change)
	}
	return nil
}

func (s *stream) note(change pglogrepl.Message) error {
	switch m := change.(type) {
	case *pglogrepl.RelationMessage:
		s.names[m.RelationID] = m.RelationName
	case *pglogrepl.BeginMessage:
		s.open = &transaction{}
	case *pglogrepl.TruncateMessage:
		s.open.truncated, s.open.rows = true, nil
	case *pglogrepl.InsertMessage:
		if s.names[m.RelationID] != writes.Table {
			return nil
		}
		n, err := strconv.ParseInt(string(m.Tuple.Columns[1].Data), 10, 64)
		if err != nil {
			return err
		}
		s.open.rows = append(s.open.rows, writes.Row{Client: string(m.Tuple.Columns[0].Data), N: n})
	case *pglogrepl.CommitMessage:
		s.client.commit(s.open, m.TransactionEndLSN)
		s.open = nil
	}
	return nil
}
