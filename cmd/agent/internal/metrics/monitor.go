package metrics

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/prometheus/client_golang/prometheus"

	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/pkg/customqueries"
)

const (
	customTargets = 20  // databases of one query
	labelLength   = 128 // in characters; what is longer is cut off

	pgLSN = 3220 // the OID of the type
)

// monitorSessions are sessions of a round, one for each database. They may only read.
type monitorSessions struct {
	server local.Server
	each   time.Duration
	open   map[string]*pgx.Conn
}

func (m *monitorSessions) close(ctx context.Context) {
	for _, conn := range m.open {
		_ = conn.Close(context.WithoutCancel(ctx))
	}
}

// in is the session in a database. There are at most two at a time, as queries come one after the other.
func (m *monitorSessions) in(ctx context.Context, database string) (*pgx.Conn, error) {
	if conn := m.open[database]; conn != nil && !conn.IsClosed() {
		return conn, nil
	}
	if len(m.open) > 1 {
		m.close(ctx)
		clear(m.open)
	}
	conn, err := m.server.ConnectMonitor(ctx, database, m.each)
	if err == nil {
		m.open[database] = conn
	}
	return conn, err
}

// databases that a query is for.
func (m *monitorSessions) databases(ctx context.Context, query customqueries.Query) ([]string, error) {
	if !slices.ContainsFunc(query.Databases, func(name string) bool { return strings.ContainsAny(name, `*?[\`) }) {
		return query.Databases, nil
	}
	conn, err := m.in(ctx, "postgres")
	if err != nil {
		return nil, err
	}
	rows, err := conn.Query(ctx, "SELECT datname::text FROM pg_database WHERE datallowconn AND NOT datistemplate ORDER BY 1")
	if err != nil {
		return nil, err
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	found := slices.DeleteFunc(all, func(name string) bool {
		return !slices.ContainsFunc(query.Databases, func(pattern string) bool {
			matches, _ := path.Match(pattern, name) // it was checked
			return matches
		})
	})
	if len(found) > customTargets {
		return nil, fmt.Errorf("target_databases has more than %d databases", customTargets)
	}
	return found, nil
}

// run adds what a query returns in a database. seen are the series that it has returned so far.
func (m *monitorSessions) run(ctx context.Context, database string, query customqueries.Query, seen map[string]bool, into *[]prometheus.Metric) error {
	ctx, cancel := context.WithTimeout(ctx, m.each+time.Second) // the server says better why it has ended
	defer cancel()
	conn, err := m.in(ctx, database)
	if err != nil {
		return err
	}
	if version := major(conn); version > 0 && !query.Versions.Has(version) {
		return errOtherVersion
	}
	err = inReadOnly(ctx, conn, func() error {
		wanted, err := wants(ctx, conn, query.Predicate)
		if err != nil || !wanted {
			return err
		}
		sql, err := wrap(ctx, conn, query)
		if err != nil {
			return err
		}
		return collectRows(ctx, conn, sql, query, seen, into)
	})
	return m.plainly(err)
}

// inReadOnly runs do in a transaction that can't write, whatever is set in it.
func inReadOnly(ctx context.Context, conn *pgx.Conn, do func() error) error {
	if _, err := conn.Exec(ctx, "BEGIN READ ONLY"); err != nil {
		return err
	}
	err := do()
	if _, errEnd := conn.Exec(ctx, "ROLLBACK"); err == nil {
		err = errEnd
	}
	return err
}

// wants says whether the predicate, if there is one, is true.
func wants(ctx context.Context, conn *pgx.Conn, predicate string) (bool, error) {
	if predicate == "" {
		return true, nil
	}
	yes := false
	err := conn.QueryRow(ctx, "SELECT coalesce((SELECT * FROM (\n"+predicate+"\n) AS predicate LIMIT 1)::text::bool, false)").Scan(&yes)
	return yes, err
}

// wrap selects the columns of a query that are asked for, labels as text and values as numbers, and as many rows as it may have.
func wrap(ctx context.Context, conn *pgx.Conn, query customqueries.Query) (string, error) {
	described, err := conn.PgConn().Prepare(ctx, "", query.SQL, nil)
	if err != nil {
		return "", err
	}
	if len(described.ParamOIDs) > 0 {
		return "", errors.New("it has parameters, such as $1")
	}
	types := map[string]uint32{}
	for _, field := range described.Fields {
		types[field.Name] = field.DataTypeOID
	}
	selected := make([]string, len(query.Columns))
	for i, column := range query.Columns {
		oid, found := types[column.Column]
		if !found {
			return "", fmt.Errorf("it returns no column %s", column.Column)
		}
		selected[i] = "(" + expression("q."+pgx.Identifier{column.Column}.Sanitize(), column.Kind, oid) + ")"
	}
	return fmt.Sprintf("SELECT %s FROM (\n%s\n) AS q LIMIT %d", strings.Join(selected, ", "), query.SQL, customRows+1), nil
}

// expression makes a column what a metric can have, as postgres_exporter does.
func expression(column string, kind customqueries.Kind, oid uint32) string {
	if kind == customqueries.Label {
		return fmt.Sprintf("left(coalesce(%s::text, ''), %d)", column, labelLength)
	}
	switch oid {
	case pgtype.BoolOID:
		return column + "::int::float8"
	case pgtype.DateOID, pgtype.TimestampOID, pgtype.TimestamptzOID, pgtype.IntervalOID:
		return "extract(epoch FROM " + column + ")::float8"
	case pgLSN:
		return "(" + column + " - '0/0'::pg_lsn)::float8"
	}
	return column + "::text::float8"
}

func collectRows(ctx context.Context, conn *pgx.Conn, sql string, query customqueries.Query, seen map[string]bool, into *[]prometheus.Metric) error {
	var names, labels []string
	for _, column := range query.Columns {
		if column.Kind == customqueries.Label {
			names = append(names, column.Name)
		}
	}
	labels = make([]string, len(names))
	values := make([]*float64, len(query.Columns)-len(names))
	var targets []any
	label, value := 0, 0
	for _, column := range query.Columns {
		if column.Kind == customqueries.Label {
			targets, label = append(targets, &labels[label]), label+1
		} else {
			targets, value = append(targets, &values[value]), value+1
		}
	}
	rows, err := conn.Query(ctx, sql)
	if err != nil {
		return err
	}
	count := 0
	_, err = pgx.ForEachRow(rows, targets, func() error {
		if count++; count > customRows {
			return fmt.Errorf("it returns more than %d rows: add a LIMIT", customRows)
		}
		series := fmt.Sprintf("%q", labels)
		if seen[series] {
			return errors.New("two of its rows have the same labels: select what tells them apart, such as current_database(), as a LABEL")
		}
		seen[series] = true
		return addRow(query, names, labels, values, into)
	})
	return err
}

// addRow makes metrics of a row. A value that is NULL is none.
func addRow(query customqueries.Query, names, labels []string, values []*float64, into *[]prometheus.Metric) error {
	value := 0
	for _, column := range query.Columns {
		if column.Kind == customqueries.Label {
			continue
		}
		number := values[value]
		if value++; number == nil {
			continue
		}
		kind := prometheus.GaugeValue
		if column.Kind == customqueries.Counter {
			kind = prometheus.CounterValue
		}
		metric, err := prometheus.NewConstMetric(prometheus.NewDesc(column.Name, column.Help, names, nil), kind, *number, labels...)
		if err != nil {
			return err
		}
		*into = append(*into, metric)
	}
	return nil
}

// plainly is an error of a query in words. What the server says of values may quote them, and is left out.
func (m *monitorSessions) plainly(err error) error {
	fault := &pgconn.PgError{}
	switch {
	case err == nil, errors.Is(err, errOtherVersion):
		return err
	case errors.As(err, &fault) && fault.Code == "57014", errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("it took longer than %s", m.each)
	case errors.As(err, &fault) && strings.HasPrefix(fault.Code, "22"):
		return fmt.Errorf("a value is not what it should be, such as a GAUGE that is not a number (SQLSTATE %s)", fault.Code)
	}
	return local.Plain(err)
}
