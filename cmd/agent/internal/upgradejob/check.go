package upgradejob

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/extensions"
	"howdah.dev/howdah/cmd/agent/internal/initialize"
	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/cmd/agent/internal/replicate"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// Severities of findings.
const (
	severityError   = "Error"
	severityWarning = "Warning"
)

// Check lets pg_upgrade upgrade a copy of the schema that is made in the pod, and asks the running cluster what could be in the way: what
// pg_upgrade's own --check finds, and what only shows when the new version takes the schema. The cluster's volume is never mounted: pg_upgrade on a data directory whose server runs in another pod
// could not see that server and would start a second one.
func (w Worker) Check(ctx context.Context, task agentapi.UpgradeJob, connect *pgx.ConnConfig) (agentapi.UpgradeCheckResult, error) {
	none := agentapi.UpgradeCheckResult{}
	found, err := w.programs(ctx, task.FromVersion, task.ToVersion)
	if err != nil {
		return none, job.Final(ReasonBadImage, err)
	}
	w.Report(job.Progress{Phase: phaseChecking})
	rehearsed, err := w.rehearse(ctx, task, found, connect)
	if err != nil {
		return none, err
	}
	to, err := w.target(ctx, task, found)
	if err != nil {
		return none, err
	}
	w.Report(job.Progress{Phase: "Asking"}) // last: what comes and goes, such as prepared transactions, is to be true when the cluster is stopped
	findings, err := inspect(ctx, connect, to)
	if err != nil {
		return none, err
	}
	bytes, err := sizeOf(ctx, connect)
	if err != nil {
		return none, err
	}
	return agentapi.UpgradeCheckResult{Findings: fit(append(findings, rehearsed...)), CopyBytes: replicate.Room(bytes)}, nil
}

// target is what the new image and the settings of the cluster say of the new version, once it was rehearsed.
func (w Worker) target(ctx context.Context, task agentapi.UpgradeJob, found programs) (target, error) {
	images, err := extensions.Find(w.ExtensionsDir, task.ToVersion)
	if err != nil {
		return target{}, job.Final(ReasonBadImage, err)
	}
	plugins, err := w.outputPlugins(ctx, found, w.newScratch(), task.Parameters)
	if err != nil {
		return target{}, err
	}
	return target{
		major: task.ToVersion, share: append([]string{shareDir(found.newBin)}, filepath.SplitList(images.Share)...),
		lib: libDir(found.newBin), mounted: filepath.SplitList(images.Lib), dropsSlots: task.DropLogicalSlots,
		plugins: plugins, origins: originsOf(task.Parameters),
	}, nil
}

// newScratch is the data directory of the new version that a rehearsal writes.
func (w Worker) newScratch() string { return filepath.Join(w.Scratch, "to") }

func shareDir(binDir string) string {
	return filepath.Join(binDir, "../../../../share/postgresql", filepath.Base(filepath.Dir(binDir)))
}

func libDir(binDir string) string { return filepath.Join(filepath.Dir(binDir), "lib") }

// fit drops findings from the end, errors last, until they go into a termination message.
func fit(findings []agentapi.Finding) []agentapi.Finding {
	const limit = 3500
	slices.SortStableFunc(findings, func(a, b agentapi.Finding) int { return strings.Compare(a.Severity, b.Severity) })
	dropped := 0
	for {
		encoded, err := json.Marshal(findings)
		if err != nil || len(encoded) <= limit {
			break
		}
		findings = findings[:len(findings)-1]
		dropped++
	}
	if dropped > 0 {
		findings = append(findings, agentapi.Finding{
			Severity: severityWarning, Check: "More", Message: fmt.Sprintf("%d more findings are not shown. Fix these first, and check again.", dropped),
		})
	}
	return findings
}

// rehearse upgrades a copy of the schema, which is thrown away with the pod.
func (w Worker) rehearse(ctx context.Context, task agentapi.UpgradeJob, found programs, connect *pgx.ConnConfig) ([]agentapi.Finding, error) {
	oldData, newData := filepath.Join(w.Scratch, "from"), w.newScratch()
	if err := errors.Join(os.RemoveAll(oldData), os.RemoveAll(newData)); err != nil {
		return nil, err
	}
	if _, err := initialize.Initdb(ctx, w.Run, found.oldBin, task.FromVersion, scratchArguments(oldData)...); err != nil {
		return nil, fmt.Errorf("make a scratch database of the old version: %w", err)
	}
	findings, err := w.copySchema(ctx, task, found, oldData, connect)
	if err != nil {
		return nil, err
	}
	control, err := postgres.ReadControlData(ctx, w.Run, found.oldBin, oldData)
	if err != nil {
		return nil, err
	}
	if err := w.initdb(ctx, found, task.ToVersion, newData, "", control); err != nil {
		return nil, err
	}
	refused, err := w.parameters(ctx, found, newData, task.Parameters)
	if err != nil {
		return nil, err
	}
	findings = append(findings, refused...)
	var failure *job.Failure
	switch err := w.pgUpgrade(ctx, phaseChecking, found, oldData, newData, "--link", "--no-sync", "--retain"); {
	case errors.As(err, &failure):
		findings = append(findings, w.rehearsalFailed(ctx, found, failure))
	case err != nil:
		return nil, err
	default:
		changed, err := w.collations(ctx, found, newData, connect)
		if err != nil {
			return nil, err
		}
		findings = append(findings, changed...)
		affected, err := byUnicode(newData, task.ToVersion)
		if err != nil {
			return nil, err
		}
		findings = append(findings, affected...)
	}
	return findings, nil
}

// unknown is what a server says about an option in the catalogs that its release doesn't have.
var unknown = regexp.MustCompile(`unrecognized parameter "([^"]+)"`)

// rehearsalFailed says what to do where the running release keeps what the new image's is too old to know: a minor release
// can have a new option, and each major version gets it with its release of that day.
func (w Worker) rehearsalFailed(ctx context.Context, found programs, failure error) agentapi.Finding {
	finding := agentapi.Finding{Severity: severityError, Check: "PgUpgrade", Message: failure.Error()}
	option := unknown.FindStringSubmatch(failure.Error())
	if option == nil {
		return finding
	}
	from, errFrom := postgres.ProgramVersion(ctx, w.Run, filepath.Join(found.oldBin, "postgres"))
	to, errTo := postgres.ProgramVersion(ctx, w.Run, filepath.Join(found.newBin, "postgres"))
	if errors.Join(errFrom, errTo) == nil {
		finding.Check = "ReleaseTooOld"
		finding.Message = fmt.Sprintf("PostgreSQL %s keeps the option %s in its catalogs, which PostgreSQL %s doesn't know: "+
			"set spec.image to an image with a release that is as new as %[1]s.", from, option[1], to)
	}
	return finding
}

func scratchArguments(dataDir string) []string {
	return []string{"--pgdata=" + dataDir, "--username=postgres", "--encoding=UTF8", "--locale=C.UTF-8", "--auth=trust", "--no-sync"}
}

// copySchema dumps roles and schemas of the running cluster into the scratch server. What can't be copied can't be
// checked by pg_upgrade, which is worth a warning and no more: the upgrade itself checks again before it begins.
func (w Worker) copySchema(ctx context.Context, task agentapi.UpgradeJob, found programs, oldData string, connect *pgx.ConnConfig) (findings []agentapi.Finding, err error) {
	stop, err := w.start(ctx, found.oldBin, oldData, "-c fsync=off -c archive_mode=off ")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop(context.WithoutCancel(ctx))) }()
	databases, err := databasesOf(ctx, connect)
	if err != nil {
		return nil, err
	}
	source := ConnectionString(task)
	warn := func(database, what string, err error) {
		findings = append(findings, agentapi.Finding{
			Severity: severityWarning, Check: "SchemaCopy", Database: database,
			Message: fmt.Sprintf("%s could not be copied for the check: %.300s", what, err),
		})
	}
	if err := w.pipe(ctx, found, task.FromVersion, "pg_dumpall", "--globals-only", "--no-role-passwords", "--dbname="+source+" dbname=postgres"); err != nil {
		warn("", "Roles", err)
	}
	for _, database := range databases {
		if err := w.pipe(ctx, found, task.FromVersion, "pg_dump", schemaOf(source, database)...); err != nil {
			warn(database, "The schema", err)
		}
	}
	return findings, nil
}

// lockPatience is how long a dump waits for a table that somebody else has locked, in milliseconds.
const lockPatience = 5 * 60 * 1000

// schemaOf a database, with what is set for the database itself. That one of initdb's is there already doesn't matter.
func schemaOf(source, database string) []string {
	return []string{"--schema-only", "--create", fmt.Sprintf("--lock-wait-timeout=%d", lockPatience), "--dbname=" + source + " dbname=" + postgres.QuoteConnInfo(database)}
}

// pipe dumps with one program and loads it into the scratch server, of that major version, with psql. Statements that fail there, such as roles
// that exist already, don't matter. No setting of a role or a database that was loaded before has an effect: in one that is read-only, nothing
// would be created.
func (w Worker) pipe(ctx context.Context, found programs, major int, program string, args ...string) error {
	dump := filepath.Join(w.Scratch, "dump.sql")
	if _, err := w.Run(ctx, filepath.Join(found.newBin, program), append(args, "--file="+dump)...); err != nil {
		return err
	}
	defer os.Remove(dump)
	session := fmt.Sprintf("host=%s port=5432 user=postgres dbname=postgres options=%s", postgres.QuoteConnInfo(w.Scratch),
		postgres.QuoteConnInfo(postgres.SessionOptions(postgres.SessionSettings(major))))
	_, err := w.Run(ctx, filepath.Join(found.newBin, "psql"), "--no-psqlrc", "--quiet", "--dbname="+session, "--output=/dev/null", "--file="+dump)
	return err
}

// KeyFile is where the client certificate's key lies for libpq, readable by its owner only.
const KeyFile = "/tmp/upgrade/client.key"

// ConnectionString is how libpq connects to the running cluster, but for the database.
func ConnectionString(task agentapi.UpgradeJob) string {
	files := agentapi.ClientTLSDir
	return fmt.Sprintf("host=%s port=%d user=%s sslmode=verify-full sslrootcert=%s/ca.crt sslcert=%s/tls.crt sslkey=%s options=%s",
		postgres.QuoteConnInfo(task.Host), agentapi.PostgresPort, agentapi.UpgradeRole, files, files, KeyFile,
		postgres.QuoteConnInfo(postgres.SessionOptions(postgres.SessionSettings(task.FromVersion))))
}

// databasesOf a cluster that the role of the check can connect to. The others are findings: those that a DROP DATABASE has left, and those that
// only some may connect to.
func databasesOf(ctx context.Context, connect *pgx.ConnConfig) ([]string, error) {
	conn, err := pgx.ConnectConfig(ctx, connect)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", connect.Host, err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return column(ctx, conn, `SELECT datname::text FROM pg_catalog.pg_database
		WHERE datallowconn AND datconnlimit NOT IN (-2, 0) AND pg_catalog.has_database_privilege(oid, 'CONNECT') ORDER BY 1`)
}

// sizeOf all databases together, in bytes.
func sizeOf(ctx context.Context, connect *pgx.ConnConfig) (bytes int64, err error) {
	conn, err := pgx.ConnectConfig(ctx, connect)
	if err != nil {
		return 0, fmt.Errorf("connect to %s: %w", connect.Host, err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	err = conn.QueryRow(ctx, "SELECT pg_catalog.sum(pg_catalog.pg_database_size(oid))::int8 FROM pg_catalog.pg_database").Scan(&bytes)
	return bytes, err
}
