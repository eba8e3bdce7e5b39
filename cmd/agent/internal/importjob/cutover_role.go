package importjob

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/pkg/agentapi"
)

// calmLooks is for how many pauses between two looks nobody else must have had a session as the import's own role: what logs in now and then is seen
// only by chance.
const calmLooks = 6

// sharing are the sessions of others in a database as the role that the import logs in as, by their application.
func sharing(ctx context.Context, conn *pgx.Conn, database string) ([]string, error) {
	return texts(ctx, conn, `SELECT coalesce(nullif(application_name, ''), 'unnamed') || ' (' || count(*) || ')' FROM pg_catalog.pg_stat_activity
		WHERE datname = $1 AND usename = current_user AND application_name <> '`+applicationName+`' AND application_name !~ '^`+agentapi.OnlineImportPrefix+`'
		AND pid NOT IN (SELECT active_pid FROM pg_catalog.pg_replication_slots WHERE active_pid IS NOT NULL) GROUP BY application_name ORDER BY 1`, database)
}

// checkOwnRole finds others who log in as the import does. That role has to be able to connect until the end, so nothing would keep them from writing
// to the source after the cutover.
func (f *follower) checkOwnRole(ctx context.Context, conn *pgx.Conn, database string) error {
	others, err := sharing(ctx, conn, database)
	if err != nil {
		return err
	}
	calm := f.shared.Add(calmLooks * f.pause())
	switch now := time.Now(); {
	case len(others) > 0:
		f.shared = now
		f.problem("Database %s: others have sessions on the source as %s, the role of the import, which can't be kept out: %s. Stop them, give the role another password there, "+
			"and write that into the Secret of spec.bootstrap.import.source, too.", database, f.Task.Source.User, some(others))
	case now.Before(calm) && len(f.said.Problems) == 0:
		f.problem("Others had sessions on the source as %s, the role of the import, until %s: the cutover waits until %s in case they come back.",
			f.Task.Source.User, f.shared.UTC().Format(time.TimeOnly), calm.UTC().Format(time.TimeOnly))
	}
	return nil
}

// judgeOwnRole refuses an online import as a role that others use: its cutover could not keep them out.
func (v *verdict) judgeOwnRole(inv *Inventory, task agentapi.ImportJob) {
	const instead = "create a role for the import alone, and name it in spec.bootstrap.import.source.user of a new PostgresCluster"
	role := task.Source.User
	if role == task.Owner {
		v.refuse("The import logs in to the source as %s, like the application (spec.bootstrap.import.owner), so that the cutover can't keep the application out: %s.", role, instead)
		return
	}
	var others []string
	for _, d := range inv.Databases {
		if len(d.Sharing) > 0 {
			others = append(others, d.Name+": "+strings.Join(d.Sharing, ", "))
		}
	}
	if len(others) > 0 {
		v.refuse("Others have sessions on the source as %s, the role of the import, which the cutover can't keep out (%s): %s, or stop them and let nobody else log in as this role.", role, some(others), instead)
	}
}
