package importjob

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// confirmTime is how long one pass waits until what the source has is here.
const confirmTime = time.Minute

// seesEmpty is the first version of a source that doesn't send transactions without changes.
const seesEmpty = 15

// checkCutover finds what stands against the cutover. With no problem left, everything that was ever committed on the source is here: nobody
// could write there from before the first position until after the second, and nothing came between them.
func (f *follower) checkCutover(ctx context.Context) error {
	first := postgres.LSN(0)
	for _, step := range []func(context.Context) error{
		f.checkClosed,
		func(ctx context.Context) (err error) { first, err = f.awaitAll(ctx); return err },
		f.compareAgain, f.carrySequences, f.compareRows,
		func(ctx context.Context) error { _, err := f.awaitAll(ctx); return err },
		func(ctx context.Context) error { return f.checkQuiet(ctx, first) },
		f.checkClosed,
	} {
		if err := step(ctx); err != nil || len(f.said.Problems) > 0 {
			return err
		}
	}
	return nil
}

// checkClosed finds who could write on the source.
func (f *follower) checkClosed(ctx context.Context) error {
	return f.source.with(ctx, f.source.at.Database, func(conn *pgx.Conn) error {
		for _, database := range f.copied.Databases {
			if err := f.checkClosedTo(ctx, conn, database); err != nil {
				return err
			}
		}
		return nil
	})
}

func (f *follower) checkClosedTo(ctx context.Context, conn *pgx.Conn, database string) error {
	roles, err := texts(ctx, conn, `SELECT rolname::text FROM pg_catalog.pg_roles WHERE rolcanlogin AND NOT rolsuper AND rolname <> current_user
		AND pg_catalog.has_database_privilege(oid, $1, 'CONNECT') ORDER BY 1`, database)
	if err != nil {
		return err
	}
	if len(roles) > 0 {
		f.problem("Database %s: these roles can still connect to it on the source: %s. Run there: REVOKE CONNECT ON DATABASE … FROM PUBLIC, and from them.", database, some(roles))
	}
	if err := f.checkOwnRole(ctx, conn, database); err != nil {
		return err
	}
	users, err := texts(ctx, conn, `SELECT usename || ' (' || count(*) || ')' FROM pg_catalog.pg_stat_activity WHERE datname = $1 AND usename <> current_user
		AND pid NOT IN (SELECT active_pid FROM pg_catalog.pg_replication_slots WHERE active_pid IS NOT NULL) GROUP BY usename ORDER BY 1`, database)
	if err != nil {
		return err
	}
	if len(users) > 0 {
		f.problem("Database %s: these users have sessions on the source: %s. Stop the application, or end them with pg_terminate_backend.", database, some(users))
	}
	prepared, err := texts(ctx, conn, "SELECT gid FROM pg_catalog.pg_prepared_xacts WHERE database = $1 ORDER BY 1", database)
	if len(prepared) > 0 {
		f.problem("Database %s: these prepared transactions are open on the source: %s. Commit them or roll them back.", database, some(prepared))
	}
	return err
}

func texts(ctx context.Context, conn *pgx.Conn, query string, args ...any) ([]string, error) {
	rows, err := conn.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// awaitAll waits until everything that is committed on the source now is here, and durable, and returns its position.
func (f *follower) awaitAll(ctx context.Context) (postgres.LSN, error) {
	position, err := f.source.position(ctx, f.copied.Databases[0])
	if err != nil {
		return 0, err
	}
	limited, cancel := context.WithTimeout(ctx, confirmTime)
	defer cancel()
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		slots, err := f.source.slots(limited, f.copied.Major)
		if err != nil {
			return 0, err
		}
		late := slices.DeleteFunc(slices.Clone(f.copied.Databases), func(database string) bool { return slots[f.name(database)].confirmed >= position })
		if len(late) == 0 {
			return position, nil
		}
		select {
		case <-limited.Done():
			f.problem("These databases have not applied yet what was committed on the source: %s.", some(late))
			return position, ctx.Err()
		case <-ticker.C:
		}
	}
}

// position after all that is committed. A commit of our own has WAL written that sessions have left for later.
func (s *source) position(ctx context.Context, database string) (position postgres.LSN, err error) {
	err = s.write(ctx, database, "SET LOCAL synchronous_commit = local", "SELECT pg_catalog.pg_logical_emit_message(true, '"+applicationName+"', '')")
	if err != nil {
		return 0, err
	}
	var text string
	err = s.with(ctx, database, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT pg_catalog.pg_current_wal_flush_lsn()::text").Scan(&text)
	})
	if err != nil {
		return 0, err
	}
	return postgres.ParseLSN(text)
}

// checkQuiet finds changes that came after a position: somebody has written who is not there any more.
func (f *follower) checkQuiet(ctx context.Context, first postgres.LSN) error {
	if f.copied.Major < seesEmpty {
		return nil // a transaction without changes, such as our own, would look like one with some
	}
	return f.Target.With(ctx, postgres.RoleSuperuser, func(conn *pgx.Conn) error {
		var text string
		err := conn.QueryRow(ctx, `SELECT coalesce(max(o.remote_lsn), '0/0')::text FROM pg_catalog.pg_replication_origin_status o
			JOIN pg_catalog.pg_subscription s ON o.external_id = 'pg_' || s.oid`).Scan(&text)
		if err != nil {
			return err
		}
		last, err := postgres.ParseLSN(text)
		if err == nil && last > first {
			f.problem("Somebody has written to the source while both sides were compared: it is done again.")
		}
		return err
	})
}

// relations that both sides must have, with what their columns are.
type relations map[string]string

// compareTables finds what was changed on the source since the copy: no change of a table comes over.
func (f *follower) compareTables(ctx context.Context) error {
	f.differences = nil
	for _, database := range f.copied.Databases {
		there, err := f.source.catalog(ctx, database, f.name(database))
		if err != nil {
			return f.away(ctx, err)
		}
		here := relations{}
		err = f.Target.With(ctx, database, func(conn *pgx.Conn) (err error) { here, err = readRelations(ctx, conn); return err })
		if err != nil {
			return err
		}
		for _, text := range differences(there.relations, here, there.published, f.excluded(database)) {
			f.differ("Database %s: %s", database, text)
		}
		if there.largeObjects > 0 {
			f.differ("Database %s: there are %d large objects on the source now, which can't be followed: delete them there.", database, there.largeObjects)
		}
	}
	return nil
}

// catalog is what is compared of a database of the source.
type catalog struct {
	relations    relations
	published    []string
	largeObjects int64
}

func (s *source) catalog(ctx context.Context, database, publication string) (found catalog, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	err = s.with(ctx, database, func(conn *pgx.Conn) (err error) {
		if found.relations, err = readRelations(ctx, conn); err != nil {
			return err
		}
		found.published, err = texts(ctx, conn, `SELECT n.nspname || '.' || c.relname FROM pg_catalog.pg_publication p JOIN pg_catalog.pg_publication_rel r ON r.prpubid = p.oid
			JOIN pg_catalog.pg_class c ON c.oid = r.prrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE p.pubname = $1`, publication)
		if err != nil {
			return err
		}
		return conn.QueryRow(ctx, "SELECT count(*) FROM pg_catalog.pg_largeobject_metadata").Scan(&found.largeObjects)
	})
	return found, err
}

// differ notes a difference, which is a problem until tables are compared again.
func (f *follower) differ(format string, args ...any) {
	f.differences = append(f.differences, fmt.Sprintf(format, args...))
}

// compareAgain finds what was changed since the last look.
func (f *follower) compareAgain(ctx context.Context) error {
	err := f.compareTables(ctx)
	for _, text := range f.differences {
		f.problem("%s", text)
	}
	return err
}

// notOfIdentity: the sequence of an identity column comes with its table, or stays with it.
const notOfIdentity = ` AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend i WHERE i.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND i.objid = c.oid AND i.deptype = 'i' AND c.relkind = 'S')`

// notOfExtension: what an extension has comes with it.
const notOfExtension = ` AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend e WHERE e.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND e.objid = c.oid AND e.deptype = 'e')`

func readRelations(ctx context.Context, conn *pgx.Conn) (relations, error) {
	rows, err := conn.Query(ctx, `SELECT c.relkind::text || ' ' || n.nspname || '.' || c.relname,
		coalesce(string_agg(pg_catalog.quote_ident(a.attname) || ' ' || pg_catalog.format_type(a.atttypid, a.atttypmod), ', ' ORDER BY a.attname), '')
		FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND c.relkind <> 'S'
		WHERE c.relkind IN ('r', 'p', 'S') AND `+outside+notOfExtension+notOfIdentity+` GROUP BY 1`)
	if err != nil {
		return nil, err
	}
	found := relations{}
	var name, columns string
	_, err = pgx.ForEachRow(rows, []any{&name, &columns}, func() error { found[name] = columns; return nil })
	return found, err
}

// excluded is what of a database stays behind.
func (f *follower) excluded(database string) agentapi.ImportDatabase {
	i := slices.IndexFunc(f.Task.Databases, func(d agentapi.ImportDatabase) bool { return d.Name == database })
	if i < 0 {
		return agentapi.ImportDatabase{}
	}
	return f.Task.Databases[i]
}

// differences are sentences about what the source has otherwise. Nobody can change what is here.
func differences(there, here relations, published []string, excluded agentapi.ImportDatabase) (texts []string) {
	const again = "begin again with a new PostgresCluster"
	for _, key := range slices.Sorted(maps.Keys(there)) {
		kind, name := key[:1], key[2:]
		columns, has := here[key]
		switch {
		case stays(name, excluded):
		case !has:
			texts = append(texts, fmt.Sprintf("%s %s exists on the source only: drop it there, or %s.", kinds[kind], name, again))
		case columns != there[key]:
			texts = append(texts, fmt.Sprintf("%s %s has other columns on the source: drop those that were added, or %s.", kinds[kind], name, again))
		case kind == kindTable && !slices.Contains(published, name) && !slices.Contains(excluded.ExcludeTableData, name):
			texts = append(texts, fmt.Sprintf("Table %s is not in the publication, so that its rows don't follow: drop it there, or %s.", name, again))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(here)) {
		if _, has := there[key]; !has {
			texts = append(texts, fmt.Sprintf("%s %s no longer exists on the source: %s.", kinds[key[:1]], key[2:], again))
		}
	}
	return texts
}

var kinds = map[string]string{kindTable: "Table", kindPartitioned: "Table", kindSequence: "Sequence"}

func stays(name string, excluded agentapi.ImportDatabase) bool {
	return slices.Contains(excluded.ExcludeTables, name) ||
		slices.ContainsFunc(excluded.ExcludeSchemas, func(schema string) bool { return len(name) > len(schema) && name[:len(schema)+1] == schema+"." })
}

// carrySequences gives sequences the values that they have on the source.
func (f *follower) carrySequences(ctx context.Context) error {
	for _, database := range f.copied.Databases {
		err := f.source.with(ctx, database, func(from *pgx.Conn) error {
			return f.Target.With(ctx, database, func(to *pgx.Conn) error { return f.carrySequencesOf(ctx, from, to) })
		})
		if err != nil {
			return fmt.Errorf("sequences of database %s: %w", database, local.Plain(err))
		}
	}
	return nil
}

func (f *follower) carrySequencesOf(ctx context.Context, from, to *pgx.Conn) error {
	names, err := texts(ctx, to, `SELECT pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(c.relname) FROM pg_catalog.pg_class c
		JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'S' AND `+outside+notOfExtension)
	if err != nil {
		return err
	}
	for _, name := range names {
		var last int64
		var called bool
		if err := from.QueryRow(ctx, "SELECT last_value, is_called FROM "+name).Scan(&last, &called); err != nil {
			return err
		}
		if _, err := to.Exec(ctx, "SELECT pg_catalog.setval($1::text::regclass, $2, $3)", name, last, called); err != nil {
			return err
		}
	}
	return nil
}

// compareRows counts the rows of each table that was published, on both sides.
func (f *follower) compareRows(ctx context.Context) error {
	f.Report(job.Progress{Phase: phaseComparing, Message: "The numbers of rows are being compared."})
	rows := atomic.Int64{}
	for _, database := range f.copied.Databases {
		tables, err := f.followed(ctx, database)
		if err != nil {
			return err
		}
		found := make([]string, len(tables))
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(max(f.Task.Connections, 1))
		for i, table := range tables {
			group.Go(func() (err error) {
				there, here, err := f.count(ctx, database, table)
				rows.Add(here)
				if err == nil && there != here {
					found[i] = fmt.Sprintf("Database %s: table %s has %d rows on the source and %d here.", database, table, there, here)
				}
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return fmt.Errorf("compare the rows of database %s: %w", database, local.Plain(err))
		}
		for _, text := range found {
			if text != "" {
				f.problem("%s", text)
			}
		}
	}
	f.said.ComparedRows = rows.Load()
	return nil
}

// followed are the tables of a subscription, as the new server knows them.
func (f *follower) followed(ctx context.Context, database string) (tables []string, err error) {
	err = f.Target.With(ctx, database, func(conn *pgx.Conn) (err error) {
		tables, err = texts(ctx, conn, `SELECT pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(c.relname) FROM pg_catalog.pg_subscription_rel r
			JOIN pg_catalog.pg_subscription s ON s.oid = r.srsubid JOIN pg_catalog.pg_class c ON c.oid = r.srrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
			WHERE s.subname = $1 ORDER BY 1`, f.name(database))
		return err
	})
	return tables, err
}

func (f *follower) count(ctx context.Context, database, table string) (there, here int64, err error) {
	query := "SELECT count(*) FROM ONLY " + table
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return f.source.with(ctx, database, func(conn *pgx.Conn) error { return conn.QueryRow(ctx, query).Scan(&there) })
	})
	group.Go(func() error {
		return f.Target.With(ctx, database, func(conn *pgx.Conn) error { return conn.QueryRow(ctx, query).Scan(&here) })
	})
	err = group.Wait()
	return there, here, err
}
