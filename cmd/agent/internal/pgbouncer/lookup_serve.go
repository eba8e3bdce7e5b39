package pgbouncer

import (
	"context"
	"errors"
	"net"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"howdah.dev/howdah/pkg/postgres"
)

// mostAsked is the most that a message of PgBouncer may have: a question, and the name of a role.
const mostAsked = 16 << 10

// question is what PgBouncer asks over a connection.
type question struct {
	text   string
	simple bool     // one of its own, such as whether the connection is still there
	values [][]byte // of parameters
}

// serve answers over one connection until it is closed, or ctx ends.
func (l *lookups) serve(ctx context.Context, conn net.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	backend := pgproto3.NewBackend(conn, conn)
	backend.SetMaxBodyLen(mostAsked)
	if err := welcome(backend); err != nil {
		l.log.Warn("a connection of PgBouncer that looks up passwords was refused", "error", err)
		return
	}
	questions := make(chan question)
	go func() { // PgBouncer closes the connection when it gives a client up whose password is being looked up
		defer cancel()
		receive(ctx, backend, questions)
	}()
	a := &asker{of: l}
	defer a.close()
	for {
		servers, _, changed := l.aimed()
		a.leave(servers)
		select {
		case q := <-questions:
			if a.answer(ctx, backend, q) != nil {
				return
			}
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// errOther is for whoever comes by another name: the database is for PgBouncer itself, and its clients can't have it.
var errOther = errors.New("this database is for looking passwords up only: connect to another one")

// welcome lets PgBouncer in, and nobody that it would pass on.
func welcome(backend *pgproto3.Backend) error {
	message, err := backend.ReceiveStartupMessage()
	if err != nil {
		return err
	}
	startup, is := message.(*pgproto3.StartupMessage)
	if !is || startup.Parameters["user"] != postgres.RolePooler || startup.Parameters["database"] != lookupDatabase {
		backend.Send(&pgproto3.ErrorResponse{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: "28000", Message: errOther.Error()})
		return errors.Join(errOther, backend.Flush())
	}
	backend.Send(&pgproto3.AuthenticationOk{})
	backend.Send(&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"})
	backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	return backend.Flush()
}

// receive passes questions on, until the connection ends or ctx does.
func receive(ctx context.Context, backend *pgproto3.Backend, questions chan<- question) {
	var next question
	for {
		message, err := backend.Receive()
		if err != nil {
			return
		}
		switch m := message.(type) {
		case *pgproto3.Parse:
			next.text = m.Query
			continue
		case *pgproto3.Bind:
			next.values = nil
			for _, value := range m.Parameters {
				next.values = append(next.values, slices.Clone(value)) // the next message has the same memory
			}
			continue
		case *pgproto3.Query:
			next = question{text: m.String, simple: true}
		case *pgproto3.Sync:
		case *pgproto3.Terminate:
			return
		default: // they come with the others
			continue
		}
		select {
		case questions <- next:
		case <-ctx.Done():
			return
		}
		next = question{}
	}
}

// answer answers one question.
func (a *asker) answer(ctx context.Context, backend *pgproto3.Backend, q question) error {
	tag, err := a.rows(ctx, backend, q)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		refuse(backend, err)
	default:
		backend.Send(&pgproto3.CommandComplete{CommandTag: []byte(tag)})
	}
	backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	return backend.Flush()
}

// rows sends those that answer a question.
func (a *asker) rows(ctx context.Context, backend *pgproto3.Backend, q question) (tag string, err error) {
	if q.simple { // it changes nothing
		return "SELECT 0", nil
	}
	if q.text != lookupQuery || len(q.values) != 1 {
		return "", errOther
	}
	found, err := a.ask(ctx, q.values[0])
	if err != nil {
		return "", err
	}
	backend.Send(&pgproto3.ParseComplete{})
	backend.Send(&pgproto3.BindComplete{})
	backend.Send(&pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{textField("rolname"), textField("rolpassword")}})
	if found == nil {
		return "SELECT 0", nil
	}
	backend.Send(&pgproto3.DataRow{Values: found})
	return "SELECT 1", nil
}

func textField(name string) pgproto3.FieldDescription {
	const text = 25
	return pgproto3.FieldDescription{Name: []byte(name), DataTypeOID: text, DataTypeSize: -1, TypeModifier: -1}
}

// refuse has PgBouncer log why a password can't be looked up. The client learns only that.
func refuse(backend *pgproto3.Backend, why error) {
	code := "08006"
	var said *pgconn.PgError
	if errors.As(why, &said) {
		code = said.Code
	}
	backend.Send(&pgproto3.ErrorResponse{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: code, Message: why.Error()})
}
