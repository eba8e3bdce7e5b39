// Package maintain does what a server needs after its data came from elsewhere: extensions that fit the programs, the
// planner's statistics, indexes in the order of this machine's collations. It works in the background, beside clients.
package maintain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/local"
)

// Collations is the work on indexes whose collations changed. It is not asked for by a generation but found.
const Collations = "Collations"

// markerFile says what has been done on a generation. It lies beside generation.json, which never changes.
const markerFile = "maintenance.json"

// Maintainer works on the server of one generation.
type Maintainer struct {
	Server     local.Server
	Generation generation.Generation
	Dir        string // of the generation
	BinDir     string
	Log        *slog.Logger
	// MayBlock says whether clients' writes may wait for a while now; nil: always.
	MayBlock func() bool
	// Report is told what is still to be done and what could not be done, for the status.
	Report func(left, messages []string)

	rebuilt map[string]bool // indexes, by database and name
}

// ErrLater is work that waits for a time when clients' writes may wait, for errors.Is.
var ErrLater = errors.New("waiting for the maintenance window")

// marker is maintenance.json.
type marker struct {
	Done     []string `json:"done,omitempty"`
	Messages []string `json:"messages,omitempty"`
	// Problems are those of the messages that come of work which is tried again with the next start of a primary, by work.
	Problems map[string][]string `json:"problems,omitempty"`
}

// note what came of work. What it could not do is tried again with the next start of a primary, so that a message doesn't outlive its cause.
func (m *marker) note(work string, messages []string) {
	former := m.Problems[work]
	m.Messages = slices.DeleteFunc(m.Messages, func(message string) bool { return slices.Contains(former, message) })
	for _, message := range messages {
		if !slices.Contains(m.Messages, message) {
			m.Messages = append(m.Messages, message)
		}
	}
	delete(m.Problems, work)
	switch {
	case work == Collations:
	case len(messages) == 0:
		m.Done = append(m.Done, work)
	default:
		if m.Problems == nil {
			m.Problems = map[string][]string{}
		}
		m.Problems[work] = messages
	}
}

// Run does what is left to do. What ctx interrupts is done again the next time. An error means that a later try may
// help; what nobody can help is a message.
func (m *Maintainer) Run(ctx context.Context) error {
	done, err := m.read()
	if err != nil {
		return err
	}
	work := map[string]func(context.Context) ([]string, error){
		Collations:                    m.collations,
		generation.MaintainExtensions: m.extensions,
		generation.MaintainStatistics: m.statistics,
	}
	todo := m.left(done)
	stale, err := m.stale(ctx)
	if err != nil {
		return err
	}
	if stale {
		todo = append([]string{Collations}, todo...) // wrong indexes first
	}
	var later error
	for len(todo) > 0 {
		m.Report(todo, slices.Clone(done.Messages))
		m.Log.Info("maintenance begins", "work", todo[0])
		messages, err := work[todo[0]](ctx)
		if errors.Is(err, ErrLater) {
			later, todo = err, todo[1:]
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", todo[0], local.Plain(err))
		}
		m.Log.Info("maintenance is done", "work", todo[0], "problems", len(messages))
		done.note(todo[0], messages)
		if err := m.write(done); err != nil {
			return err
		}
		todo = todo[1:]
	}
	if later != nil {
		m.Report(nil, append(slices.Clone(done.Messages), later.Error()))
		return later
	}
	m.Report(nil, slices.Clone(done.Messages))
	return nil
}

// Pending is what the generation asks for and nobody has done yet.
func (m *Maintainer) Pending() (left, messages []string) {
	done, err := m.read()
	if err != nil {
		return m.left(marker{}), nil
	}
	return m.left(done), done.Messages
}

// Left is Pending for others, and whether it is known. A clone knows it only by the word of its primary, for only the generation that an upgrade has
// made asks for work: one that was not told must not say that nothing is left.
func (m *Maintainer) Left() (left []string, known bool) {
	left, _ = m.Pending()
	_, told := m.told()
	return left, told || m.Generation.Origin != generation.Clone
}

// works are in the order in which they are done.
var works = []string{generation.MaintainExtensions, generation.MaintainStatistics}

// left is what the generation asks for and nobody has done, in the order in which it is done.
func (m *Maintainer) left(done marker) []string {
	asked := m.Generation.Maintenance
	switch told, known := m.told(); {
	case known && len(asked) == 0: // it is a clone
		asked = told
	case known:
		asked = slices.DeleteFunc(slices.Clone(asked), func(work string) bool { return !slices.Contains(told, work) })
	}
	var left []string
	for _, work := range works {
		if slices.Contains(asked, work) && !slices.Contains(done.Done, work) {
			left = append(left, work)
		}
	}
	return left
}

// toldFile has what the last primary that was followed had yet to do.
const toldFile = "maintenance-left.json"

// Told notes what the primary of this data has yet to do. Whoever takes over continues with it. What is no longer left counts as done only where this
// copy has everything that the primary had by then: otherwise the work may be lost with the primary, though that has said that it was done.
func (m *Maintainer) Told(left []string, complete bool) error {
	before, known := m.Left()
	switch {
	case !complete && !known:
		return nil
	case !complete:
		left = append(slices.Clone(left), before...)
	}
	left = slices.DeleteFunc(slices.Clone(works), func(work string) bool { return !slices.Contains(left, work) })
	if err := m.undo(left); err != nil {
		return err
	}
	if told, is := m.told(); is && slices.Equal(told, left) {
		return nil
	}
	content, err := json.Marshal(left)
	if err != nil {
		return err
	}
	return generation.WriteFile(filepath.Join(m.Dir, toldFile), content, 0o600)
}

// undo forgets that work was done here which is left at the primary: it was lost, as by a failover or a rewind.
func (m *Maintainer) undo(left []string) error {
	done, err := m.read()
	if err != nil {
		return err
	}
	still := slices.DeleteFunc(slices.Clone(done.Done), func(work string) bool { return slices.Contains(left, work) })
	if len(still) == len(done.Done) {
		return nil
	}
	done.Done = still
	return m.write(done)
}

func (m *Maintainer) told() (left []string, known bool) {
	content, err := os.ReadFile(filepath.Join(m.Dir, toldFile))
	if err != nil || json.Unmarshal(content, &left) != nil {
		return nil, false
	}
	return left, true
}

func (m *Maintainer) read() (marker, error) {
	done := marker{}
	content, err := os.ReadFile(filepath.Join(m.Dir, markerFile))
	if errors.Is(err, os.ErrNotExist) {
		return done, nil
	}
	if err != nil {
		return done, err
	}
	if err := json.Unmarshal(content, &done); err != nil {
		return marker{}, nil // torn: it is done once more, which harms nothing
	}
	return done, nil
}

func (m *Maintainer) write(done marker) error {
	content, err := json.Marshal(done)
	if err != nil {
		return err
	}
	return generation.WriteFile(filepath.Join(m.Dir, markerFile), content, 0o600)
}

// databases are all that sessions may be opened in.
func (m *Maintainer) databases(ctx context.Context) ([]string, error) {
	return m.names(ctx, "postgres", "SELECT datname FROM pg_catalog.pg_database WHERE datallowconn ORDER BY datname")
}

// names asks for one column of text.
func (m *Maintainer) names(ctx context.Context, database, query string, args ...any) (names []string, err error) {
	err = m.Server.With(ctx, database, func(conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, query, args...)
		if err != nil {
			return err
		}
		names, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	return names, err
}

// inEach runs do in every database.
func (m *Maintainer) inEach(ctx context.Context, do func(context.Context, *pgx.Conn, string) ([]string, error)) ([]string, error) {
	databases, err := m.databases(ctx)
	if err != nil {
		return nil, err
	}
	var messages []string
	for _, database := range databases {
		err := m.Server.With(ctx, database, func(conn *pgx.Conn) error {
			found, err := do(ctx, conn, database)
			messages = append(messages, found...)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return messages, nil
}

// try runs a statement. What goes wrong is a message, unless the session is lost or ctx has ended.
func try(ctx context.Context, conn *pgx.Conn, statement, what string) (messages []string, err error) {
	_, err = conn.Exec(ctx, statement)
	switch {
	case err == nil:
		return nil, nil
	case ctx.Err() != nil || conn.IsClosed():
		return nil, err
	}
	return []string{said(what, err)}, nil
}

func said(what string, err error) string { return fmt.Sprintf("%s: %v", what, local.Plain(err)) }
