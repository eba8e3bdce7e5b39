// Package deepcheck looks at indexes a little at a time, so that damage is found before a query meets it. Each turn goes on where the last one
// ended, is bounded in time and bytes, and leaves nothing in the database.
package deepcheck

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"howdah.dev/howdah/cmd/agent/internal/local"
)

// Limits of one turn.
type Limits struct {
	Turn  time.Duration // that it takes at most
	Each  time.Duration // that one index takes at most
	Bytes int64         // of indexes, the last of which may exceed it
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

// Place is where the next turn goes on, and what was found so far.
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
	// Checked and Skipped count the indexes of this round. What takes longer than its limit is skipped, as is what somebody has locked.
	Checked int64 `json:"checked,omitempty"`
	Skipped int64 `json:"skipped,omitempty"`
	// RoundEnded is when all databases had been gone through; zero: not yet.
	RoundEnded time.Time `json:"roundEnded,omitzero"`
}

// Damage of one index.
type Damage struct {
	Database string `json:"database"`
	OID      uint32 `json:"oid"`
	Index    string `json:"index"`
	Message  string `json:"message"`
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
	Now     func() time.Time
	Log     *slog.Logger

	place *Place
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
		w.Log.Warn("where the check of indexes goes on can't be kept", "error", err)
	}
}

// database of a server.
type database struct {
	OID  uint32
	Name string
}

// databasesQuery leaves templates out: nobody can copy one while a session is in it.
const databasesQuery = "SELECT oid, datname::text FROM pg_database WHERE datallowconn AND NOT datistemplate AND datconnlimit <> -2 ORDER BY oid"

// Turn checks damaged indexes again, and then the next ones of the next database.
func (w *Walker) Turn(ctx context.Context) error {
	w.load()
	ctx, cancel := context.WithTimeout(ctx, w.Limits.Turn+w.Limits.Each)
	defer cancel()
	end := w.Now().Add(w.Limits.Turn)
	server := w.Server
	server.LockTimeout = lockTime
	var databases []database
	err := server.With(ctx, "postgres", func(conn *pgx.Conn) (err error) {
		rows, err := conn.Query(ctx, databasesQuery)
		if err != nil {
			return err
		}
		databases, err = pgx.CollectRows(rows, pgx.RowToStructByPos[database])
		return err
	})
	if err != nil {
		return local.Plain(err)
	}
	if err := w.again(ctx, server, databases); err != nil {
		return err
	}
	at := slices.IndexFunc(databases, func(d database) bool { return d.OID >= w.place.Database })
	if at < 0 {
		w.place.Database, w.place.Index, w.place.RoundEnded, w.place.Checked, w.place.Skipped = 0, 0, w.Now().UTC().Truncate(time.Second), 0, 0
		w.save()
		return nil
	}
	if databases[at].OID != w.place.Database { // the one where the last turn ended was dropped
		w.place.Database, w.place.Index = databases[at].OID, 0
	}
	before := w.place.Index
	err = server.With(ctx, databases[at].Name, func(conn *pgx.Conn) error { return w.next(ctx, conn, databases[at], end) })
	if err != nil && ctx.Err() == nil && w.place.Index == before { // one that lets nobody in must not end the round
		w.leave(databases[at])
	}
	return err
}

// again looks at damaged indexes: one that was rebuilt or dropped is damaged no more. A database that lets nobody in is no reason to check
// nothing else.
func (w *Walker) again(ctx context.Context, server local.Server, databases []database) error {
	for _, d := range slices.Clone(w.place.Damaged) {
		forget := func() {
			w.place.Damaged = slices.DeleteFunc(w.place.Damaged, func(other Damage) bool { return other.Database == d.Database && other.OID == d.OID })
			w.save()
		}
		if !slices.ContainsFunc(databases, func(db database) bool { return db.Name == d.Database }) {
			forget()
			continue
		}
		err := server.With(ctx, d.Database, func(conn *pgx.Conn) error {
			checker, end, err := w.begin(ctx, conn)
			if err != nil || checker == nil {
				return err
			}
			defer end()
			if found := checker.check(ctx, d.OID); found.whole || found.gone {
				forget()
			}
			return nil
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			w.Log.Warn("a damaged index can't be looked at again now", "database", d.Database, "index", d.Index, "error", local.Plain(err))
		}
	}
	return nil
}

// index of a database.
type index struct {
	OID   uint32
	Name  string
	Bytes int64
}

const indexes = `SELECT c.oid, format('%I.%I', n.nspname, c.relname), c.relpages::int8 * current_setting('block_size')::int8
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
	checker, finish, err := w.begin(ctx, conn)
	if err != nil {
		return local.Plain(err)
	}
	if checker == nil {
		w.leave(db)
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
		w.save()
		w.note(db, index, checker.twice(ctx, index.OID))
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

func (w *Walker) note(db database, index index, found result) {
	switch {
	case found.damage != "":
		w.Log.Error("an index is damaged", "database", db.Name, "index", index.Name, "error", found.damage)
		known := slices.ContainsFunc(w.place.Damaged, func(d Damage) bool { return d.Database == db.Name && d.OID == index.OID })
		if !known && len(w.place.Damaged) < mostDamaged {
			w.place.Damaged = append(w.place.Damaged, Damage{Database: db.Name, OID: index.OID, Index: index.Name, Message: found.damage})
		}
	case found.whole:
		w.place.Checked++
	case !found.gone:
		w.place.Skipped++
	}
	w.save()
}

// result of one check. Without any of these, the index could not be checked now.
type result struct {
	whole, gone bool
	damage      string // in PostgreSQL's words
}

// checker has amcheck in a session.
type checker struct {
	conn       *pgx.Conn
	query      string
	savepoints bool
}

// ownSchema is where amcheck is while it is needed.
const ownSchema = "howdah_amcheck"

// amcheckQuery says where amcheck is, whether only superusers can put something else there, and whether it is available. We call it as a
// superuser: whoever owns its schema could drop the one while a turn goes on, and give another function its name. Since PostgreSQL 15, public
// belongs to the owner of the database.
const amcheckQuery = `SELECT coalesce(max(quote_ident(n.nspname)), ''), coalesce(bool_and((o.rolsuper OR o.rolname = 'pg_database_owner' AND b.rolsuper)
		AND EXISTS (SELECT FROM pg_depend f WHERE f.classid = 'pg_proc'::regclass AND f.objid = to_regprocedure(format('%I.bt_index_check(regclass,boolean)', n.nspname))
			AND f.refclassid = 'pg_extension'::regclass AND f.refobjid = e.oid AND f.deptype = 'e')), false),
		EXISTS (SELECT FROM pg_available_extensions WHERE name = 'amcheck')
	FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace JOIN pg_roles o ON o.oid = n.nspowner
		JOIN pg_database d ON d.datname = current_database() JOIN pg_roles b ON b.oid = d.datdba
	WHERE e.extname = 'amcheck'`

// begin has amcheck ready in a session; nil: it is not available there. end leaves nothing of it.
func (w *Walker) begin(ctx context.Context, conn *pgx.Conn) (c *checker, end func(), err error) {
	schema, trusted, available := "", false, false
	err = conn.QueryRow(ctx, amcheckQuery).Scan(&schema, &trusted, &available)
	if err != nil || !trusted && (!w.Primary || schema == "" && !available) {
		return nil, nil, err
	}
	settings := fmt.Sprintf("SET application_name = 'howdah check'; SET statement_timeout = %d", w.Limits.Each.Milliseconds())
	if _, err := conn.Exec(ctx, settings); err != nil {
		return nil, nil, err
	}
	c = &checker{conn: conn, query: "SELECT %s.bt_index_check($1::oid::regclass, false)"}
	if trusted {
		c.query = fmt.Sprintf(c.query, schema)
		return c, func() {}, nil
	}
	bring := "CREATE EXTENSION amcheck SCHEMA " + ownSchema
	if schema != "" {
		bring = "ALTER EXTENSION amcheck SET SCHEMA " + ownSchema
	}
	c.query, c.savepoints = fmt.Sprintf(c.query, ownSchema), true
	// No event trigger of the database runs for it, and nobody else ever sees the schema.
	for _, statement := range []string{
		"BEGIN READ WRITE", "SET LOCAL session_replication_role = replica", "CREATE SCHEMA " + ownSchema, bring,
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return nil, nil, err
		}
	}
	return c, func() { _, _ = conn.Exec(context.WithoutCancel(ctx), "ROLLBACK") }, nil
}

// twice checks an index that seems damaged once more: what another session is just changing may seem so.
func (c *checker) twice(ctx context.Context, oid uint32) result {
	found := c.check(ctx, oid)
	if found.damage == "" {
		return found
	}
	if second := c.check(ctx, oid); second.whole || second.gone {
		return second
	}
	return found
}

// check one index. In a transaction, the lock on it ends with the savepoint.
func (c *checker) check(ctx context.Context, oid uint32) result {
	there := false
	if err := c.conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_class WHERE oid = $1)", oid).Scan(&there); err != nil {
		return result{}
	}
	if !there {
		return result{gone: true}
	}
	if c.savepoints {
		if _, err := c.conn.Exec(ctx, "SAVEPOINT one"); err != nil {
			return result{}
		}
	}
	_, err := c.conn.Exec(ctx, c.query, oid)
	if c.savepoints {
		_, _ = c.conn.Exec(ctx, "ROLLBACK TO one; RELEASE one")
	}
	return judge(err)
}

// judge says what an answer of amcheck means: only what PostgreSQL itself calls corrupted is damage.
func judge(err error) result {
	fault := &pgconn.PgError{}
	switch {
	case err == nil:
		return result{whole: true}
	case errors.As(err, &fault) && (fault.Code == "XX001" || fault.Code == "XX002"): // data_corrupted, index_corrupted
		return result{damage: fault.Message}
	}
	return result{}
}
