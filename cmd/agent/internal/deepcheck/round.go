package deepcheck

import (
	"context"
	"errors"
	"fmt"
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
	// Databases that could not be checked at all.
	Databases int64 `json:"databases,omitempty"`
	// First that was skipped or could not be checked.
	First *Missed `json:"first,omitempty"`
	// Ended is when all databases had been gone through; zero: not yet.
	Ended time.Time `json:"ended,omitzero"`
}

// Missed is an index that a round has skipped, or a database that it could not check.
type Missed struct {
	Database string `json:"database"`
	Index    string `json:"index,omitempty"` // empty: all of the database
	Why      string `json:"why"`
}

// Whole says whether the round has ended and checked everything: only then does it say that nothing is damaged.
func (r Round) Whole() bool { return !r.Ended.IsZero() && r.Skipped == 0 && r.Databases == 0 }

// Unchecked is a sentence about what an ended round has missed; empty: nothing, or it has not ended.
func (r Round) Unchecked() string {
	if r.Ended.IsZero() || r.Whole() {
		return ""
	}
	text := fmt.Sprintf("The round that ended at %s could not check databases: %d, and indexes of others: %d.", r.Ended.Format(time.RFC3339), r.Databases, r.Skipped)
	if first := r.First; first != nil && first.Index == "" {
		text += fmt.Sprintf(" The first is database %s: %s.", first.Database, first.Why)
	} else if first != nil {
		text += fmt.Sprintf(" The first is index %s in database %s: %s.", first.Index, first.Database, first.Why)
	}
	return text
}

func (r *Round) skip(m Missed) {
	r.Skipped++
	r.note(m)
}

func (r *Round) miss(m Missed) {
	r.Databases++
	r.note(m)
}

// note keeps the first database, or else the first index: more is missed with a database.
func (r *Round) note(m Missed) {
	if r.First == nil || r.First.Index != "" && m.Index == "" {
		r.First = &m
	}
}

const longestWhy = 200

// why something could not be checked, as part of a sentence. Who owns a database can have part of PostgreSQL's message read what they like.
func why(err error, limits Limits) string {
	fault := &pgconn.PgError{}
	switch {
	case err == nil:
		return "the reason is unknown"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return "its turn ended before"
	case errors.As(err, &fault) && fault.Code == "57014": // query_canceled
		return "it takes longer than " + limits.Each.String()
	case errors.As(err, &fault) && fault.Code == "55P03": // lock_not_available
		return "somebody has locked it"
	}
	text := strings.Join(strings.Fields(local.Plain(err).Error()), " ")
	if len(text) > longestWhy {
		text = strings.ToValidUTF8(text[:longestWhy], "") + "…"
	}
	return strings.TrimSuffix(text, ".")
}
