package tablesjob

import (
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/postgres"
)

// passing are the SQLSTATEs of what another attempt may not meet: a server that goes or is a standby now, and locks of others.
var passing = []string{"25006", "40001", "40P01", "55P03", "57P01", "57P02", "57P03", "57P05", "53300"}

// passes says that another attempt may succeed: the connection is lost, the server goes, or somebody holds a lock.
func passes(err error) bool {
	failure, fault := &job.Failure{}, &pgconn.PgError{}
	switch {
	case errors.As(err, &failure):
		return false
	case errors.As(err, &fault):
		return fault.Code[:min(2, len(fault.Code))] == "08" || slices.Contains(passing, fault.Code)
	}
	return true
}

// explain says that nothing is known of the last COMMIT, where that is so.
func (w *Worker) explain(err error) error {
	if !w.unknown {
		return explain(err)
	}
	return job.Fail(ReasonNotCopied, fmt.Errorf("the connection was lost while the transaction was being committed, and the running cluster can't be asked: %w. "+
		"Look there: either all of it was restored, or nothing", said(err)))
}

// explain makes a sentence of an error, with the reason that it is of. What PostgreSQL says may quote rows, and is repeated without literals.
func explain(err error) error {
	failure, fault := &job.Failure{}, &pgconn.PgError{}
	switch {
	case errors.As(err, &failure):
		return err
	case errors.Is(err, errForeignCommit):
		return job.Final(ReasonNotCopied, err)
	case !errors.As(err, &fault):
		return err
	case passes(err):
		return job.Fail(ReasonNotCopied, fmt.Errorf("the running cluster ended the transaction each time, and nothing of it is there: %s", plain(fault)))
	}
	switch fault.Code {
	case "42P06", "42P07", "42710", "42723":
		return job.Final(ReasonObjectExists, fmt.Errorf("%s. Nothing was restored. %s", plain(fault), beside))
	case "42501":
		return job.Final(ReasonRoleUnsuitable, fmt.Errorf("the role may not do what the restore needs: %s. Nothing was restored. "+
			"Grant it, name other credentials, or leave owners and grants out with spec.destination.intoCluster.privileges: Omit in another Restore", plain(fault)))
	case "23503":
		return job.Final(ReasonNotCopied, fmt.Errorf("%s, because rows that it refers to were deleted or changed since. Nothing was restored. "+
			"Leave foreign keys out with spec.destination.intoCluster.foreignKeys: Omit in another Restore", plain(fault)))
	}
	return job.Final(ReasonNotCopied, fmt.Errorf("the running cluster refuses what was to be restored: %s. Nothing was restored", plain(fault)))
}

// beside says how to have both.
const beside = "To restore beside what exists, set spec.destination.intoCluster.intoSchema in another Restore, such as restored; or rename what exists"

// said is an error without what PostgreSQL may quote.
func said(err error) error {
	fault := &pgconn.PgError{}
	if errors.As(err, &fault) {
		return errors.New(plain(fault))
	}
	return err
}

func plain(fault *pgconn.PgError) string {
	return fmt.Sprintf("%s (SQLSTATE %s)", postgres.RedactSQL(fault.Message), fault.Code)
}
