package deepcheck

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// result of one check. Without any of whole, gone and damage, the index could not be checked now.
type result struct {
	whole, gone bool
	damage      string // in PostgreSQL's words
	err         error
}

// checker has amcheck in a session.
type checker struct {
	conn       *pgx.Conn
	query      string
	savepoints bool
}

// ownSchema is where amcheck is while it is needed. Nobody can know its name and create it first.
func ownSchema() string { return "howdah_amcheck_" + strings.ToLower(rand.Text()) }

// amcheckQuery says where amcheck is, whether only superusers can put something else there, and whether it is available. We call it as a
// superuser: whoever owns its schema could drop the one while a turn is in progress, and give another function its name. Since PostgreSQL 15, public
// belongs to the owner of the database.
const amcheckQuery = `SELECT coalesce(max(quote_ident(n.nspname)), ''), coalesce(bool_and((o.rolsuper OR o.rolname = 'pg_database_owner' AND b.rolsuper)
		AND EXISTS (SELECT FROM pg_depend f WHERE f.classid = 'pg_proc'::regclass AND f.objid = to_regprocedure(format('%I.bt_index_check(regclass,boolean)', n.nspname))
			AND f.refclassid = 'pg_extension'::regclass AND f.refobjid = e.oid AND f.deptype = 'e')), false),
		EXISTS (SELECT FROM pg_available_extensions WHERE name = 'amcheck')
	FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace JOIN pg_roles o ON o.oid = n.nspowner
		JOIN pg_database d ON d.datname = current_database() JOIN pg_roles b ON b.oid = d.datdba
	WHERE e.extname = 'amcheck'`

// begin has amcheck ready in a session, to check each index for so long; nil: it is not available there. end leaves nothing of it.
func (w *Walker) begin(ctx context.Context, conn *pgx.Conn, each time.Duration) (c *checker, end func(), err error) {
	schema, trusted, available := "", false, false
	err = conn.QueryRow(ctx, amcheckQuery).Scan(&schema, &trusted, &available)
	if err != nil || !trusted && (!w.Primary || schema == "" && !available) {
		return nil, nil, err
	}
	settings := fmt.Sprintf("SET application_name = 'howdah check'; SET statement_timeout = %d", each.Milliseconds())
	if _, err := conn.Exec(ctx, settings); err != nil {
		return nil, nil, err
	}
	c = &checker{conn: conn, query: "SELECT %s.bt_index_check($1::oid::regclass, false)"}
	if trusted {
		c.query = fmt.Sprintf(c.query, schema)
		return c, func() {}, nil
	}
	own := ownSchema()
	bring := "CREATE EXTENSION amcheck SCHEMA " + own
	if schema != "" {
		bring = "ALTER EXTENSION amcheck SET SCHEMA " + own
	}
	c.query, c.savepoints = fmt.Sprintf(c.query, own), true
	// No event trigger of the database runs for it, and nobody else ever sees the schema.
	for _, statement := range []string{
		"BEGIN READ WRITE", "SET LOCAL session_replication_role = replica", "CREATE SCHEMA " + own, bring,
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return nil, nil, err
		}
	}
	return c, func() { _, _ = conn.Exec(context.WithoutCancel(ctx), "ROLLBACK") }, nil
}

// twice checks an index that seems damaged once more: what another session is just changing may seem so.
func (c *checker) twice(ctx context.Context, oid uint32) result {
	if found := c.check(ctx, oid); found.damage == "" {
		return found
	}
	return c.check(ctx, oid)
}

// check one index. In a transaction, the lock on it ends with the savepoint.
func (c *checker) check(ctx context.Context, oid uint32) result {
	there := false
	if err := c.conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_class WHERE oid = $1)", oid).Scan(&there); err != nil {
		return result{err: err}
	}
	if !there {
		return result{gone: true}
	}
	if c.savepoints {
		if _, err := c.conn.Exec(ctx, "SAVEPOINT one"); err != nil {
			return result{err: err}
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
	return result{err: err}
}
