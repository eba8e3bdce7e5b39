package tablesjob

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/postgres"
)

// Side is a server that is logged in to.
type Side struct {
	Name         string // for sentences
	MajorVersion int
	// Connection is the connection string without a database and without a password in it. It is read again for each session, as a password
	// may be changed meanwhile.
	Connection func() (string, error)
	// Settling: the agent of the server is about to set the password of the role.
	Settling bool
}

const applicationName = "howdah-restore"

// open opens a session, and waits for a server that fails over.
func (w *Worker) open(ctx context.Context, side Side, database string) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, w.Patience)
	defer cancel()
	for {
		conn, err := w.connect(ctx, side, database)
		if err == nil {
			return conn, nil
		}
		if failure := (&job.Failure{}); errors.As(err, &failure) {
			return nil, err
		}
		if w.rest(ctx) != nil {
			return nil, fmt.Errorf("%s can't be reached: %w", side.Name, said(err))
		}
	}
}

func (w *Worker) connect(ctx context.Context, side Side, database string) (*pgx.Conn, error) {
	connection, err := side.Connection()
	if err != nil {
		return nil, err
	}
	config, err := pgx.ParseConfig(connection + " dbname=" + postgres.QuoteConnInfo(database))
	if err != nil {
		return nil, job.Final(job.ReasonBadJob, errors.New("the connection string can't be read")) // its error would repeat it
	}
	config.ConnectTimeout = 30 * time.Second
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	config.StatementCacheCapacity, config.DescriptionCacheCapacity = 0, 0
	settings := postgres.SessionSettings(side.MajorVersion)
	maps.Copy(settings, map[string]string{
		"application_name": applicationName, "client_encoding": "UTF8", "synchronous_commit": "on",
		"lock_timeout": strconv.FormatInt(w.LockTimeout.Milliseconds(), 10),
	})
	delete(config.RuntimeParams, "options") // they are the same settings
	maps.Copy(config.RuntimeParams, settings)
	conn, err := pgx.ConnectConfig(ctx, config)
	fault := &pgconn.PgError{}
	switch {
	case err == nil:
		return conn, nil
	case !errors.As(err, &fault):
		return nil, err
	case fault.Code == "3D000":
		return nil, job.Final(ReasonObjectMissing, fmt.Errorf("%s has no database %s: name another one in spec.destination.intoCluster, or declare it in spec.databases of the PostgresCluster",
			side.Name, database))
	case strings.HasPrefix(fault.Code, "28") && !side.Settling:
		return nil, job.Fail(ReasonRoleUnsuitable, fmt.Errorf("%s doesn't let the role log in: %s. Compare the Secret with the role, and look at spec.postgresql.hba of the PostgresCluster", side.Name, plain(fault)))
	case fault.Code == "42501":
		return nil, job.Final(ReasonRoleUnsuitable, fmt.Errorf("the role may not connect to database %s of %s", database, side.Name))
	}
	return nil, err
}

// errStandby is a server that is not the primary, or not any more.
var errStandby = errors.New("the server is a standby, as during a failover")

func awaitPrimary(ctx context.Context, conn *pgx.Conn) error {
	var standby bool
	if err := conn.QueryRow(ctx, "SELECT pg_is_in_recovery()").Scan(&standby); err != nil {
		return err
	}
	if standby {
		return errStandby
	}
	return nil
}
