// Package deepcheck looks at indexes a little at a time, so that damage is found before a query meets it. Each turn continues where the last one
// ended, is bounded in time and bytes, and leaves nothing in the database.
package deepcheck

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/local"
)

// Limits of one turn.
type Limits struct {
	Turn  time.Duration // that it takes at most
	Each  time.Duration // that one index takes at most
	Bytes int64         // of indexes, the last of which may exceed it
	Long  time.Duration // that an index takes at most which takes longer than Each, in a turn of its own; not more than Each: it is skipped
}

// PrimaryLimits and ReplicaLimits: who needs a table for itself waits for the check of an index, and everybody else behind it. On a replica, that
// is its replay.
var (
	PrimaryLimits = Limits{Turn: 30 * time.Second, Each: 10 * time.Second, Bytes: 512 << 20}
	ReplicaLimits = Limits{Turn: 30 * time.Second, Each: 3 * time.Second, Bytes: 512 << 20}
)

const (
	lockTime    = 200 * time.Millisecond // that a check waits for a table which somebody has locked
	mostDamaged = 5                      // indexes that are remembered
	mostListed  = 1000                   // indexes of one turn
)

// Place is where the next turn continues, and what was found so far.
type Place struct {
	// Copy of the data that it is about: another one is checked from the beginning.
	Copy string `json:"copy"`
	// Primary: the round was made by a primary, which gets amcheck everywhere. After a promotion, another one begins.
	Primary bool `json:"primary,omitempty"`
	// Database and Index are the OIDs of the first database that is left, and of the last index that was checked there.
	Database uint32 `json:"database,omitempty"`
	Index    uint32 `json:"index,omitempty"`
	// Damaged indexes. Each is looked at again in every turn, until it is whole or gone.
	Damaged []Damage `json:"damaged,omitempty"`
	// Large indexes are those of the present round that take longer than others may. Each is checked alone once the others are.
	Large []Large `json:"large,omitempty"`
	// Trying is the index that is being checked. After a crash of the server or the agent, it is one that the round has skipped.
	Trying *Missed `json:"trying,omitempty"`
	// Now is the present round, and Last the one that ended last.
	Now  Round `json:"now"`
	Last Round `json:"last"`
}

// Damage of one index.
type Damage struct {
	Database string `json:"database"`
	OID      uint32 `json:"oid"`
	Index    string `json:"index"`
	Message  string `json:"message"`
	// Certain: PostgreSQL's own code has said so.
	Certain bool `json:"certain,omitempty"`
}

// Walker goes through the indexes of one server. Only one goroutine uses it.
type Walker struct {
	Server local.Server
	// File that keeps the place, on the volume.
	File string
	// Copy of the data that the server runs on.
	Copy string
	// Primary: amcheck can be created where it is missing, in a transaction that is rolled back.
	Primary bool
	Limits  Limits
	// Rest is the time between the end of a round and the next one: each turn on the primary has amcheck created, which writes WAL. After a round
	// that missed something, it is a part of that.
	Rest time.Duration
	Now  func() time.Time
	// Disturbs says why the check of a large index by the session with this process ID must end; empty: it may go on. nil: it always may.
	Disturbs func(ctx context.Context, pid uint32) string
	Log      *slog.Logger

	place *Place
	// passed: the last turn found nothing left of the round but large indexes.
	passed bool
}

// Place is a copy of where the walker is.
func (w *Walker) Place() Place {
	w.load()
	place := *w.place
	place.Damaged = slices.Clone(place.Damaged)
	return place
}

// load reads the file once. One that can't be read is a round that begins anew.
func (w *Walker) load() {
	if w.place != nil {
		return
	}
	w.place = &Place{}
	if content, err := os.ReadFile(w.File); err == nil {
		_ = json.Unmarshal(content, w.place)
	}
	if w.place.Copy != w.Copy {
		w.place.Damaged = nil
	}
	if w.place.Copy != w.Copy || w.place.Primary != w.Primary {
		w.place = &Place{Copy: w.Copy, Primary: w.Primary, Damaged: w.place.Damaged}
	}
	if trying := w.place.Trying; trying != nil {
		w.place.Now.skip(*trying)
		w.place.Large = slices.DeleteFunc(w.place.Large, func(l Large) bool { return l.Database == trying.Database && l.Index == trying.Index })
		w.place.Trying = nil
	}
}

// save writes the file. It need not be durable: what is lost of it is checked twice.
func (w *Walker) save() {
	content, err := json.Marshal(w.place)
	if err == nil {
		err = os.WriteFile(w.File+".tmp", content, 0o600)
	}
	if err == nil {
		err = os.Rename(w.File+".tmp", w.File)
	}
	if err != nil {
		w.Log.Warn("where the check of indexes continues can't be kept", "error", err)
	}
}

// database of a server.
type database struct {
	OID   uint32
	Name  string
	Opens bool // to sessions
}

// databasesQuery leaves templates out: nobody can copy one while a session is in it. A database with the limit -2 is what an interrupted DROP left.
const databasesQuery = "SELECT oid, datname::text, datallowconn FROM pg_database WHERE NOT datistemplate AND datconnlimit <> -2 ORDER BY oid"

// Turn checks damaged indexes again, and then the next ones of the next database.
func (w *Walker) Turn(parent context.Context) error {
	w.load()
	ctx, cancel := context.WithTimeout(parent, w.Limits.Turn+w.Limits.Each)
	defer cancel()
	end := w.Now().Add(w.Limits.Turn)
	server := w.Server
	server.LockTimeout = lockTime
	databases, err := list(ctx, server)
	if err != nil {
		return local.Plain(err)
	}
	if w.again(ctx, server, databases); parent.Err() != nil {
		return parent.Err()
	}
	if w.rests() {
		return nil
	}
	w.passed = false
	at := slices.IndexFunc(databases, func(d database) bool { return d.OID >= w.place.Database })
	if at < 0 {
		w.passed = true
		if len(w.place.Large) == 0 {
			w.endRound()
		}
		return nil
	}
	db := databases[at]
	if db.OID != w.place.Database { // the one where the last turn ended was dropped
		w.place.Database, w.place.Index = db.OID, 0
	}
	if !db.Opens {
		w.miss(db, "it allows no connections")
		return nil
	}
	before := w.place.Index
	err = server.With(ctx, db.Name, func(conn *pgx.Conn) error { return w.next(ctx, conn, db, end) })
	if err != nil && parent.Err() == nil && w.place.Index == before { // one that lets nobody in must not end all rounds
		w.miss(db, why(err, w.Limits.Each))
	}
	return err
}

func list(ctx context.Context, server local.Server) (databases []database, err error) {
	err = server.With(ctx, "postgres", func(conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, databasesQuery)
		if err != nil {
			return err
		}
		databases, err = pgx.CollectRows(rows, pgx.RowToStructByPos[database])
		return err
	})
	return databases, err
}

const restPart = 8 // of a rest, after a round that missed something

// rests says whether the next round is not due yet. A clock that was put back makes nobody rest for long.
func (w *Walker) rests() bool {
	last, rest := w.place.Last, w.Rest
	if !last.Whole() {
		rest /= restPart
	}
	since := w.Now().Sub(last.Ended)
	return w.place.Database == 0 && !last.Ended.IsZero() && since >= 0 && since < rest
}

func (w *Walker) endRound() {
	w.place.Last, w.place.Now = w.place.Now, Round{}
	w.place.Last.Ended = w.Now().UTC().Truncate(time.Second)
	w.place.Database, w.place.Index, w.place.Large = 0, 0, nil
	w.save()
}

// again looks at damaged indexes: one that was rebuilt or dropped is damaged no more. They take half of a turn at most, and those that it does not
// reach are the first of the next one. A database that lets nobody in is no reason to check nothing else.
func (w *Walker) again(ctx context.Context, server local.Server, databases []database) {
	ctx, cancel := context.WithTimeout(ctx, w.Limits.Turn/2)
	defer cancel()
	for _, d := range slices.Clone(w.place.Damaged) {
		if ctx.Err() != nil {
			return
		}
		whole := !slices.ContainsFunc(databases, func(db database) bool { return db.Name == d.Database })
		if !whole {
			var err error
			if whole, err = w.whole(ctx, server, d); err != nil {
				w.Log.Warn("a damaged index can't be looked at again now", "database", d.Database, "index", d.Index, "error", local.Plain(err))
			}
		}
		w.place.Damaged = slices.DeleteFunc(w.place.Damaged, func(other Damage) bool { return other.Database == d.Database && other.OID == d.OID })
		if !whole {
			w.place.Damaged = append(w.place.Damaged, d)
		}
		w.save()
	}
}

// whole says whether a damaged index is whole again, or gone.
func (w *Walker) whole(ctx context.Context, server local.Server, d Damage) (whole bool, err error) {
	err = server.With(ctx, d.Database, func(conn *pgx.Conn) error {
		checker, end, err := w.begin(ctx, conn, w.Limits.Each)
		if err != nil || checker == nil {
			return err
		}
		defer end()
		found := checker.check(ctx, d.OID)
		whole = found.whole || found.gone
		return nil
	})
	return whole, err
}

// index of a database.
type index struct {
	OID   uint32
	Name  string
	Bytes int64
	// Certain: nothing that a user can define is run to check it, so only PostgreSQL itself can call it damaged.
	Certain bool
}

// indexes says of each whether it has columns only, of types and operator classes that come with PostgreSQL, or of enums, which it orders itself.
// A function of a user may raise any error, and may raise it on replicas only. Objects with OIDs from 16384 on were created by users.
const indexes = `SELECT c.oid, format('%I.%I', n.nspname, c.relname), c.relpages::int8 * current_setting('block_size')::int8,
		i.indexprs IS NULL AND i.indpred IS NULL AND NOT EXISTS (SELECT FROM unnest(i.indclass::oid[]) AS k(class) WHERE k.class >= 16384)
		AND NOT EXISTS (SELECT FROM pg_attribute t JOIN pg_type y ON y.oid = t.atttypid WHERE t.attrelid = c.oid AND y.oid >= 16384 AND y.typtype <> 'e')
	FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid JOIN pg_am a ON a.oid = c.relam JOIN pg_namespace n ON n.oid = c.relnamespace
	WHERE c.relkind = 'i' AND c.relpersistence = 'p' AND a.amname = 'btree' AND i.indisready AND i.indisvalid AND c.oid > $1 ORDER BY c.oid LIMIT $2`

func (w *Walker) next(ctx context.Context, conn *pgx.Conn, db database, end time.Time) error {
	rows, err := conn.Query(ctx, indexes, w.place.Index, mostListed)
	if err != nil {
		return local.Plain(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[index])
	if err != nil {
		return local.Plain(err)
	}
	checker, finish, err := w.begin(ctx, conn, w.Limits.Each)
	if err != nil {
		return local.Plain(err)
	}
	if checker == nil {
		w.miss(db, "it has no amcheck that can be trusted, and the image or the role of the instance allows none to be created")
		return nil
	}
	defer finish()
	bytes := int64(0)
	for i, index := range list {
		if i > 0 && (bytes+index.Bytes > w.Limits.Bytes || !w.Now().Before(end)) {
			return nil
		}
		bytes += index.Bytes
		w.place.Index = index.OID // before it is checked: an index that ends the server is not looked at again and again
		w.try(db.Name, index.Name)
		if found := checker.twice(ctx, index.OID); !w.postpone(db, index, found) {
			w.note(db, index, found)
		}
		if conn.IsClosed() {
			return errors.New("the session of the check ended")
		}
	}
	if len(list) < mostListed {
		w.leave(db)
	}
	return nil
}

// leave a database that has been gone through.
func (w *Walker) leave(db database) {
	w.place.Database, w.place.Index = db.OID+1, 0
	w.save()
}

// miss leaves a database that can't be checked.
func (w *Walker) miss(db database, why string) {
	w.place.Now.miss(Missed{Database: db.Name, Why: why})
	w.leave(db)
}

// try records which index is about to be checked.
func (w *Walker) try(database, index string) {
	w.place.Trying = &Missed{Database: database, Index: index, Why: "the server or the agent ended while it was checked"}
	w.save()
}

func (w *Walker) note(db database, index index, found result) {
	w.place.Trying = nil
	switch {
	case found.damage != "":
		w.Log.Error("an index is damaged", "database", db.Name, "index", index.Name, "error", found.damage)
		w.remember(Damage{Database: db.Name, OID: index.OID, Index: index.Name, Message: found.damage, Certain: index.Certain})
	case found.whole, found.gone:
		w.place.Damaged = slices.DeleteFunc(w.place.Damaged, func(d Damage) bool { return d.Database == db.Name && d.OID == index.OID })
		if found.whole {
			w.place.Now.Checked++
		}
	default:
		w.skip(db, index, why(found.err, w.Limits.Each), tooLong(found.err))
	}
	w.save()
}

func (w *Walker) skip(db database, index index, why string, tooLong bool) {
	w.place.Now.skip(Missed{Database: db.Name, Index: index.Name, Why: why, TooLong: tooLong})
}

// remember damage. Where there is too much of it, what a function of a user may have said makes room for what PostgreSQL itself says.
func (w *Walker) remember(damage Damage) {
	known := func(d Damage) bool { return d.Database == damage.Database && d.OID == damage.OID }
	at := slices.IndexFunc(w.place.Damaged, known)
	if at < 0 && len(w.place.Damaged) == mostDamaged {
		if at = slices.IndexFunc(w.place.Damaged, func(d Damage) bool { return !d.Certain }); at < 0 || !damage.Certain {
			w.place.Now.skip(Missed{Database: damage.Database, Index: damage.Index, Why: "it is damaged, as are more others than are remembered"})
			return
		}
		w.place.Now.skip(Missed{Database: w.place.Damaged[at].Database, Index: w.place.Damaged[at].Index, Why: "it seems damaged, as are more others than are remembered"})
	}
	if at < 0 {
		w.place.Damaged = append(w.place.Damaged, damage)
		return
	}
	w.place.Damaged[at] = damage
}
