package metrics

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/pkg/postgres"
)

const (
	askTime   = 5 * time.Second  // for all queries of a scrape
	queryTime = time.Second      // for one of them
	rareTime  = time.Minute      // for one that is asked rarely, while nobody waits for it
	answerAge = 15 * time.Second // an answer is given again for so long
)

// querier asks the server, and keeps the answers. A query that fails or takes too long takes no other along.
type querier struct {
	server local.Server

	mu    sync.Mutex // one scrape at a time
	often []query
	last  map[string]*answer
	asked time.Time
	rare  []*rarely
}

var errNull = errors.New("PostgreSQL doesn't say how much it is")

// answer is what a query gave the last time.
type answer struct {
	metrics []prometheus.Metric
	failed  bool
}

// rarely is a query that is asked in the background.
type rarely struct {
	query

	mu    sync.Mutex
	last  *answer // nil: there is none yet
	asked time.Time
	asks  bool
}

func newQuerier(server local.Server, queries []query) *querier {
	a := &querier{server: server, last: map[string]*answer{}}
	for _, q := range queries {
		if q.every > 0 {
			a.rare = append(a.rare, &rarely{query: q})
		} else {
			a.often = append(a.often, q)
		}
	}
	return a
}

// collect sends the answers, and for each query whether there is one.
func (a *querier) collect(out chan<- prometheus.Metric) {
	for _, q := range a.rare {
		q.begin(a.server)
		if last := q.answer(); last != nil {
			last.send(q.name, out)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Since(a.asked) >= answerAge {
		a.ask()
	}
	for _, q := range a.often {
		a.last[q.name].send(q.name, out)
	}
}

func (a *answer) send(name string, out chan<- prometheus.Metric) {
	for _, metric := range a.metrics {
		out <- metric
	}
	out <- prometheus.MustNewConstMetric(queryFailed, prometheus.GaugeValue, one(a.failed), name)
}

// ask asks what is asked often, in one session.
func (a *querier) ask() {
	for _, q := range a.often {
		a.last[q.name] = &answer{failed: true}
	}
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	_ = inSession(ctx, a.server, "postgres", queryTime, func(conn *pgx.Conn) error { // each answer says that it is none
		for _, q := range a.often {
			a.last[q.name] = q.ask(ctx, conn)
		}
		return nil
	})
	a.asked = time.Now()
}

// inSession runs do in a session that ends each query after the time given, and lives on.
func inSession(ctx context.Context, server local.Server, database string, each time.Duration, do func(*pgx.Conn) error) error {
	return server.With(ctx, database, func(conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, fmt.Sprintf("SET statement_timeout = %d", each.Milliseconds())); err != nil {
			return err
		}
		return do(conn)
	})
}

// begin asks in the background if it is time to.
func (r *rarely) begin(server local.Server) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asks || !r.asked.IsZero() && time.Since(r.asked) < r.every {
		return
	}
	r.asks = true
	go func() {
		last := &answer{failed: true}
		ctx, cancel := context.WithTimeout(context.Background(), rareTime+askTime)
		defer cancel()
		_ = inSession(ctx, server, "postgres", rareTime, func(conn *pgx.Conn) error { // the answer says that it is none
			switch {
			case r.extension != "":
				last = r.askWhereExtended(ctx, server, conn)
			case r.everywhere:
				last = r.askEverywhere(ctx, server, conn)
			default:
				last = r.ask(ctx, conn)
			}
			return nil
		})
		r.mu.Lock()
		defer r.mu.Unlock()
		r.asks, r.asked, r.last = false, time.Now(), last
	}()
}

func (r *rarely) answer() *answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

func (q query) ask(ctx context.Context, conn *pgx.Conn) *answer {
	metrics, err := q.rows(ctx, conn)
	if err != nil {
		return &answer{failed: true}
	}
	return &answer{metrics: metrics}
}

// busiest are the databases of users in which most is done.
const busiest = `SELECT d.datname::text FROM pg_database AS d JOIN pg_stat_database AS s ON s.datid = d.oid
	WHERE d.datallowconn AND NOT d.datistemplate AND d.datname <> 'postgres' ORDER BY s.xact_commit DESC LIMIT 20`

// askEverywhere asks in one database after the other. One that lets nobody in is left out, and the answer is none.
func (q query) askEverywhere(ctx context.Context, server local.Server, conn *pgx.Conn) *answer {
	rows, err := conn.Query(ctx, busiest)
	if err != nil {
		return &answer{failed: true}
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	all := &answer{failed: err != nil}
	for _, name := range names {
		err := inSession(ctx, server, name, queryTime, func(conn *pgx.Conn) error {
			metrics, err := q.rows(ctx, conn)
			all.metrics = append(all.metrics, metrics...)
			return err
		})
		all.failed = all.failed || err != nil
	}
	return all
}

// schemaOfFunction is where a function of an extension is, as long as it belongs to that.
const schemaOfFunction = `SELECT p.pronamespace::regnamespace::text FROM pg_extension AS e JOIN pg_depend AS d ON d.refclassid = 'pg_extension'::regclass
	AND d.refobjid = e.oid AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e' JOIN pg_proc AS p ON p.oid = d.objid WHERE e.extname = $1 AND p.proname = $2 LIMIT 1`

// askWhereExtended asks in the first database that has the extension. Where none has it, there is nothing to say.
func (q query) askWhereExtended(ctx context.Context, server local.Server, conn *pgx.Conn) *answer {
	rows, err := conn.Query(ctx, busiest)
	if err != nil {
		return &answer{failed: true}
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return &answer{failed: true}
	}
	for _, name := range append([]string{"postgres"}, names...) {
		schema, last := "", &answer{}
		err := inSession(ctx, server, name, queryTime, func(conn *pgx.Conn) error {
			err := conn.QueryRow(ctx, schemaOfFunction, q.extension, q.function).Scan(&schema)
			if err != nil {
				return err
			}
			there := q
			there.sql = strings.ReplaceAll(q.sql, "%s", schema)
			last = there.ask(ctx, conn)
			return nil
		})
		switch {
		case errors.Is(err, pgx.ErrNoRows):
		case err != nil:
			return &answer{failed: true}
		default:
			return last
		}
	}
	return &answer{}
}

func (q query) rows(ctx context.Context, conn *pgx.Conn) ([]prometheus.Metric, error) {
	sql := q.sql
	version, err := postgres.ParseVersion(conn.PgConn().ParameterStatus("server_version"))
	if err == nil && version.Major >= 17 && q.sql17 != "" {
		sql = q.sql17
	}
	rows, err := conn.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	var metrics []prometheus.Metric
	labels, values := make([]string, q.labels), make([]*float64, len(q.measures))
	var columns []any
	for i := range labels {
		columns = append(columns, &labels[i])
	}
	for i := range values {
		columns = append(columns, &values[i])
	}
	_, err = pgx.ForEachRow(rows, columns, func() error {
		for i, m := range q.measures {
			if values[i] == nil && q.nulls {
				continue
			}
			if values[i] == nil {
				return errNull
			}
			metric, err := prometheus.NewConstMetric(m.desc, m.kind, *values[i], labels...)
			if err != nil {
				return err
			}
			metrics = append(metrics, metric)
		}
		return nil
	})
	return metrics, err
}
