package importjob

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// ReasonSourceLost is that of a Job that can't follow its source any more, and has to begin again.
const ReasonSourceLost = "SourceLost"

// phaseSlot waits for the transactions that run on the source: the slot begins after them.
const phaseSlot = "CreatingSlot"

// oldestOnline is the oldest source that publishes TRUNCATE.
const oldestOnline = 11

// mostOnline is how many databases can follow: each has a worker and a replication origin on the new server.
const mostOnline = 60

const (
	usualPause  = 10 * time.Second
	releaseTime = 30 * time.Second
)

// Copied is what an online import that has copied all needs to know to follow its source and to end.
type Copied struct {
	// Major version of the source.
	Major     int                      `json:"major"`
	Databases []string                 `json:"databases"`
	Settings  []Setting                `json:"settings,omitempty"`
	Found     agentapi.ImportPreflight `json:"found"`
	// Attempt is another one for each copy. Looks are those since this copy, and the source knows no more of them than the volume.
	Attempt string `json:"attempt"`
	Looks   int64  `json:"looks,omitempty"`
	// CutOver: the source counts no more. It is recorded before anything is done that can't be undone.
	CutOver bool `json:"cutOver,omitempty"`
}

func copiedFrom(inv *Inventory, found agentapi.ImportPreflight, attempt string) Copied {
	return Copied{Major: inv.Major, Databases: databaseNames(inv), Settings: inv.Settings, Found: found, Attempt: attempt}
}

// mark is the comment on the publication of the first database.
func (c Copied) mark() string { return fmt.Sprintf("%s %d", c.Attempt, c.Looks) }

// reaches says whether the volume has all that it had when the source was marked so.
func (c Copied) reaches(mark string) bool {
	attempt, looks, _ := strings.Cut(mark, " ")
	number, err := strconv.ParseInt(looks, 10, 64)
	return err == nil && c.Attempt != "" && attempt == c.Attempt && number <= c.Looks
}

func commentOn(publication, mark string) string {
	return "COMMENT ON PUBLICATION " + quote(publication) + " IS " + literal(mark)
}

// mark of an import on the source; empty: there is none.
func (s *source) mark(ctx context.Context, database, name string) (mark string, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	err = s.with(ctx, database, func(conn *pgx.Conn) error {
		err := conn.QueryRow(ctx, "SELECT coalesce(pg_catalog.obj_description(oid, 'pg_publication'), '') FROM pg_catalog.pg_publication WHERE pubname = $1", name).Scan(&mark)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	return mark, err
}

// judgeOnline refuses what can't follow, before anything is created on the source.
func (v *verdict) judgeOnline(inv *Inventory) {
	const user = "the user of spec.bootstrap.import.source"
	r := inv.Replication
	if inv.Major < oldestOnline {
		v.refuse("The source runs PostgreSQL %s, and %d is the oldest that can be followed: create a PostgresCluster without spec.bootstrap.import.online.", inv.Version, oldestOnline)
	}
	if r.Standby {
		v.refuse("The source is a standby, which can't publish: set spec.bootstrap.import.source.host of a new PostgresCluster to its primary.")
	}
	if r.WALLevel != "logical" {
		v.refuse("The source has wal_level %s: set wal_level to logical there, and restart it.", r.WALLevel)
	}
	if !r.Allowed {
		v.refuse("On the source, %s may not replicate: give it REPLICATION with ALTER ROLE, or the role that the provider has for this, such as rds_replication.", user)
	}
	if r.FreeSlots < len(inv.Databases) {
		v.refuse("The source has %d free replication slots and WAL senders, and the import needs %d: raise max_replication_slots and max_wal_senders there.", max(r.FreeSlots, 0), len(inv.Databases))
	}
	if n := len(inv.Databases); n > mostOnline {
		v.refuse("%d databases are to be followed, and %d can be at a time: name fewer in spec.bootstrap.import.databases of a new PostgresCluster.", n, mostOnline)
	}
	for _, d := range inv.Databases {
		v.judgePublication(d, user)
	}
}

// judgePublication: a table without a key that is published refuses UPDATE and DELETE from then on, so the application would fail.
func (v *verdict) judgePublication(d Database, user string) {
	if !d.MayCreate && d.Connectable {
		v.refuse("Database %s: %s can't create a publication: GRANT CREATE ON DATABASE to it.", d.Name, user)
	}
	var keyless, unlogged, foreign, firing, computed []string
	for _, t := range d.published() {
		switch {
		case t.Unlogged:
			unlogged = append(unlogged, t.String())
		case !t.Key:
			keyless = append(keyless, t.String())
		}
		if t.Fires {
			firing = append(firing, t.String())
		}
		if !t.Owned {
			foreign = append(foreign, t.String())
		}
	}
	for _, t := range d.Tables {
		if t.Kind == kindMaterialized {
			computed = append(computed, t.String())
		}
	}
	for _, kind := range []struct {
		names  []string
		format string
	}{
		{keyless, "Database %s: these tables have no primary key that is not deferrable, so that changes of their rows can't be followed: %s; add one, or set REPLICA IDENTITY, or leave them out with excludeTables or excludeTableData."},
		{unlogged, "Database %s: these tables are unlogged, and can't be followed: %s; leave their data out with excludeTableData."},
		{firing, "Database %s: these tables have triggers that would fire here once more for each change that the source has already made: %s; set them to ENABLE TRIGGER on the source, instead of ENABLE ALWAYS or ENABLE REPLICA."},
		{foreign, "Database %s: " + user + " can't publish these tables: %s; make it a member of the role that owns them."},
	} {
		if len(kind.names) > 0 {
			v.refuse(kind.format, d.Name, some(kind.names))
		}
	}
	if d.LargeObjects > 0 {
		v.refuse("Database %s has %d large objects, which can't be followed: move them into columns of type bytea, or create a PostgresCluster without spec.bootstrap.import.online.", d.Name, d.LargeObjects)
	}
	if len(computed) > 0 {
		v.warn("Database %s: refresh these materialized views after the cutover: %s.", d.Name, some(computed))
	}
}

// snapshot that a database is copied from. Online, it is that of the slot, so that what comes from the slot continues where the copy ends.
func (w *Worker) snapshot(ctx context.Context, source *source, d Database) (id string, release func(), err error) {
	if w.Task.Online == nil {
		return source.snapshot(ctx, d.Name, "")
	}
	name := w.Task.Online.Name(d.Name)
	if err := source.releaseDatabase(ctx, d.Name, name); err != nil { // of a former attempt
		return "", nil, err
	}
	if err := source.publish(ctx, d, name, Copied{Attempt: w.attempt}.mark()); err != nil { // before the slot: changes are decoded with the publication as it was
		return "", nil, err
	}
	w.Report(job.Progress{Phase: phaseSlot, Message: fmt.Sprintf("Database %s: waiting until the transactions that run, or are prepared, on the source have ended.", d.Name)})
	conn, exported, err := source.createSlot(ctx, d.Name, name)
	if err != nil {
		return "", nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx)) // its snapshot is then held by the other session
	return source.snapshot(ctx, d.Name, exported)
}

// publish the tables by name: FOR ALL TABLES needs a superuser, and includes those that nobody has here.
func (s *source) publish(ctx context.Context, d Database, name, mark string) error {
	var tables []string
	for _, t := range d.published() {
		tables = append(tables, pgx.Identifier{t.Schema, t.Name}.Sanitize())
	}
	statement := "CREATE PUBLICATION " + quote(name)
	if len(tables) > 0 {
		statement += " FOR TABLE ONLY " + strings.Join(tables, ", ONLY ")
	}
	if err := s.write(ctx, d.Name, "SET LOCAL lock_timeout = '5min'", statement, commentOn(name, mark)); err != nil {
		return fmt.Errorf("publish the tables of database %s on the source: %w", d.Name, err)
	}
	return nil
}

// write runs statements on the source in one transaction.
func (s *source) write(ctx context.Context, database string, statements ...string) error {
	return s.with(ctx, database, func(conn *pgx.Conn) error {
		return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{AccessMode: pgx.ReadWrite}, func(tx pgx.Tx) error {
			for _, statement := range statements {
				if _, err := tx.Exec(ctx, statement); err != nil {
					return local.Plain(err)
				}
			}
			return nil
		})
	})
}

// createSlot returns the session in which the snapshot of the slot is exported, until something else is done in it.
func (s *source) createSlot(ctx context.Context, database, name string) (conn *pgconn.PgConn, snapshot string, err error) {
	config, err := s.config(database)
	if err != nil {
		return nil, "", err
	}
	config.RuntimeParams["replication"] = "database"
	if conn, err = pgconn.ConnectConfig(ctx, &config.Config); err != nil {
		return nil, "", s.unreachable(database, err)
	}
	results, err := conn.Exec(ctx, "CREATE_REPLICATION_SLOT "+quote(name)+" LOGICAL pgoutput EXPORT_SNAPSHOT").ReadAll()
	if err == nil && (len(results) != 1 || len(results[0].Rows) != 1 || len(results[0].Rows[0]) < 3) {
		err = errors.New("the answer can't be read")
	}
	if err != nil {
		return nil, "", errors.Join(fmt.Errorf("create a replication slot for database %s on the source: %w", database, local.Plain(err)), conn.Close(context.WithoutCancel(ctx)))
	}
	return conn, string(results[0].Rows[0][2]), nil
}

// subscribe has subscriptions that don't run yet. They know their tables as copied: one that is created without a connection knows none,
// and would skip what comes.
func (w *Worker) subscribe(ctx context.Context, source *source, inv *Inventory) error {
	for _, d := range inv.Databases {
		name := w.Task.Online.Name(d.Name)
		options := "enabled = false, create_slot = false, copy_data = false, streaming = off, slot_name = " + quote(name)
		if w.Major >= 16 {
			options += ", run_as_owner = true" // as everything is restored here
		}
		err := w.exec(ctx, d.Name, "CREATE SUBSCRIPTION "+quote(name)+" CONNECTION "+postgres.QuoteLiteral(source.connInfo(d.Name))+" PUBLICATION "+quote(name)+" WITH ("+options+")")
		if err != nil {
			return fmt.Errorf("subscribe to database %s of the source: %w", d.Name, err)
		}
	}
	return nil
}

// exec runs statements in a database of the new server, each in a transaction of its own.
func (w *Worker) exec(ctx context.Context, database string, statements ...string) error {
	return w.Target.With(ctx, database, func(conn *pgx.Conn) error {
		for _, statement := range statements {
			if _, err := conn.Exec(ctx, statement, pgx.QueryExecModeSimpleProtocol); err != nil {
				return fmt.Errorf("%s: %w", firstWords(statement), local.Plain(err))
			}
		}
		return nil
	})
}

// connInfo has the password in a file, so that no catalog has it.
func (s *source) connInfo(database string) string {
	var words []string
	for _, option := range []struct{ keyword, value string }{
		{"host", s.at.Host}, {"port", fmt.Sprint(s.at.Port)}, {"user", s.at.User}, {"dbname", database}, {"sslmode", s.at.SSLMode}, {"passfile", s.passfile},
		{"sslrootcert", s.ca}, {"sslcert", s.certificate}, {"sslkey", s.key}, {"connect_timeout", "30"}, {"gssencmode", "disable"},
	} {
		if option.value != "" {
			words = append(words, option.keyword+"="+postgres.QuoteConnInfo(option.value))
		}
	}
	return strings.Join(words, " ")
}

// Release drops what the import has created on the source. It may be repeated.
func (w *Worker) Release(ctx context.Context) error {
	source, err := openSource(w.Task.Source, w.Secrets, w.Scratch)
	if err != nil {
		return err
	}
	var open, closed []string
	err = source.with(ctx, w.Task.Source.Database, func(conn *pgx.Conn) (err error) {
		const query = `SELECT datname::text FROM pg_catalog.pg_database WHERE NOT datistemplate AND (datallowconn AND pg_catalog.has_database_privilege(oid, 'CONNECT')) = $1
			AND ($2::text[] IS NULL OR datname = ANY($2))`
		if open, err = texts(ctx, conn, query, true, w.wanted()); err == nil {
			closed, err = texts(ctx, conn, query, false, w.wanted())
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("look for what the import has created on the source: %w", local.Plain(err))
	}
	for _, database := range open {
		err = errors.Join(err, source.releaseDatabase(ctx, database, w.Task.Online.Name(database)))
	}
	return errors.Join(err, w.unreleased(ctx, source, closed))
}

// unreleased finds slots of databases that we can't connect to: what is there is not known to be dropped.
func (w *Worker) unreleased(ctx context.Context, source *source, closed []string) error {
	if len(closed) == 0 {
		return nil
	}
	var left []string
	err := source.with(ctx, w.Task.Source.Database, func(conn *pgx.Conn) (err error) {
		left, err = texts(ctx, conn, "SELECT database::text FROM pg_catalog.pg_replication_slots WHERE slot_name = ANY($1) ORDER BY 1", w.Names(closed))
		return err
	})
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("the user of spec.bootstrap.import.source can't connect to these databases of the source, in which a publication and a replication slot of the import are left: %s; grant it CONNECT", some(left))
	}
	return err
}

// Names of what an import creates on its source for these databases.
func (w *Worker) Names(databases []string) (names []string) {
	for _, database := range databases {
		names = append(names, w.Task.Online.Name(database))
	}
	return names
}

// wanted are the names of the databases to import; nil: all.
func (w *Worker) wanted() (names []string) {
	for _, d := range w.Task.Databases {
		names = append(names, d.Name)
	}
	return names
}

// releaseFailed drops what an attempt that has failed leaves: the next one has a copy of its own, and may never come.
func (w *Worker) releaseFailed(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
	defer cancel()
	if err := w.Release(ctx); err != nil {
		slog.Warn("what the import has created on the source is not dropped yet", "error", err)
	}
}

// releaseDatabase drops the slot first: it retains WAL, and needs the publication.
func (s *source) releaseDatabase(ctx context.Context, database, name string) error {
	err := s.with(ctx, database, func(conn *pgx.Conn) error { return dropSlot(ctx, conn, name) })
	if err == nil {
		err = s.write(ctx, database, "DROP PUBLICATION IF EXISTS "+quote(name))
	}
	if err != nil {
		return fmt.Errorf("drop replication slot and publication %s in database %s of the source: %w", name, database, local.Plain(err))
	}
	return nil
}

// dropSlot ends who reads it: that is us, or was.
func dropSlot(ctx context.Context, conn *pgx.Conn, name string) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		var active bool
		err := conn.QueryRow(ctx, `SELECT coalesce(pg_catalog.pg_terminate_backend(active_pid), false) FROM pg_catalog.pg_replication_slots WHERE slot_name = $1`, name).Scan(&active)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err == nil && !active {
			_, err = conn.Exec(ctx, "SELECT pg_catalog.pg_drop_replication_slot($1)", name)
			if fault := (*pgconn.PgError)(nil); errors.As(err, &fault) && fault.Code == "55006" { // object_in_use: it was taken up again
				err = nil
			}
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}
