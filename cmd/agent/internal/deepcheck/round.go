package deepcheck

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"howdah.dev/howdah/cmd/agent/internal/local"
)

// Round through all databases.
type Round struct {
	// Checked and Skipped count its indexes. What takes longer than its limit is skipped, as is what somebody has locked.
	Checked int64 `json:"checked,omitempty"`
	Skipped int64 `json:"skipped,omitempty"`
	// TooLong counts those of the skipped ones that take longer than the limit that a person can set.
	TooLong int64 `json:"tooLong,omitempty"`
	// Databases that could not be checked at all.
	Databases int64 `json:"databases,omitempty"`
	// Missed has the first of what was skipped or could not be checked, databases before indexes.
	Missed []Missed `json:"missed,omitempty"`
	// Ended is when all databases had been gone through; zero: not yet.
	Ended time.Time `json:"ended,omitzero"`
}

// Missed is an index that a round has skipped, or a database that it could not check.
type Missed struct {
	Database string `json:"database"`
	Index    string `json:"index,omitempty"` // empty: all of the database
	Why      string `json:"why"`
	// TooLong: it takes longer than its limit.
	TooLong bool `json:"tooLong,omitempty"`
}

// String names it, as part of a sentence.
func (m Missed) String() string {
	if m.Index == "" {
		return fmt.Sprintf("database %s: %s", m.Database, m.Why)
	}
	return fmt.Sprintf("index %s in database %s: %s", m.Index, m.Database, m.Why)
}

const mostMissed = 4 // that a round names

// Whole says whether the round has ended and checked everything: only then does it say that nothing is damaged.
func (r Round) Whole() bool { return !r.Ended.IsZero() && r.Skipped == 0 && r.Databases == 0 }

// Unchecked is a sentence about what an ended round has missed; empty: nothing, or it has not ended.
func (r Round) Unchecked() string {
	if r.Ended.IsZero() || r.Whole() {
		return ""
	}
	var named []string
	for _, missed := range r.Missed {
		named = append(named, missed.String())
	}
	text := fmt.Sprintf("The round that ended at %s could not check databases: %d, and indexes of others: %d.", r.Ended.Format(time.RFC3339), r.Databases, r.Skipped)
	if len(named) == 0 {
		return text
	}
	return text + fmt.Sprintf(" The first: %s.", strings.Join(named, "; "))
}

func (r *Round) skip(m Missed) {
	r.Skipped++
	if m.TooLong {
		r.TooLong++
	}
	r.note(m)
}

func (r *Round) miss(m Missed) {
	r.Databases++
	r.note(m)
}

// note names databases first: more is missed with one.
func (r *Round) note(m Missed) {
	at := slices.IndexFunc(r.Missed, func(other Missed) bool { return m.Index == "" && other.Index != "" })
	if at < 0 {
		at = len(r.Missed)
	}
	r.Missed = slices.Insert(r.Missed, at, m)
	r.Missed = r.Missed[:min(len(r.Missed), mostMissed)]
}

// tooLong says whether the server has ended a statement that took longer than it may.
func tooLong(err error) bool {
	fault := &pgconn.PgError{}
	return errors.As(err, &fault) && fault.Code == "57014" // query_canceled
}

const longestWhy = 200

// why something could not be checked, as part of a sentence. Who owns a database can have part of PostgreSQL's message read what they like.
func why(err error, limit time.Duration) string {
	fault := &pgconn.PgError{}
	switch {
	case err == nil:
		return "the reason is unknown"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return "its turn ended before"
	case tooLong(err):
		return "it takes longer than " + limit.String()
	case errors.As(err, &fault) && fault.Code == "55P03": // lock_not_available
		return "somebody has locked it"
	}
	text := strings.Join(strings.Fields(local.Plain(err).Error()), " ")
	if len(text) > longestWhy {
		text = strings.ToValidUTF8(text[:longestWhy], "") + "…"
	}
	return strings.TrimSuffix(text, ".")
}
