package upgradejob

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/maintain"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// Checks of collations.
const (
	checkCollationVersion = "CollationVersion"
	checkPartitionOrder   = "PartitionOrder"
	checkLocaleMissing    = "LocaleMissing"
)

// locale is what a collation's order follows, in the catalogs' words: the provider is c, i or b.
type locale struct{ Provider, Name string }

// recorded is a collation of a database, with the version in whose order its indexes were built.
type recorded struct {
	OID     uint32
	Name    string
	Locale  locale
	Version string
}

// recordedIn asks for the collation of a database, and for all others in it that an index or a partition key follows.
func recordedIn(ctx context.Context, conn *pgx.Conn, from int) ([]recorded, error) {
	column := "daticulocale" // of pg_database
	if from >= 17 {
		column = "datlocale"
	}
	ofCollation := "coll" + strings.TrimPrefix(column, "dat")
	rows, err := conn.Query(ctx, fmt.Sprintf(`SELECT %[1]d::oid, 'the database', datlocprovider::text,
			coalesce(CASE datlocprovider WHEN 'c' THEN datcollate::text ELSE %[2]s::text END, ''), datcollversion
		FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database() AND datcollversion IS NOT NULL
		UNION ALL
		SELECT oid, pg_catalog.format('%%I.%%I', collnamespace::regnamespace::text, collname), collprovider::text,
			coalesce(CASE collprovider WHEN 'c' THEN collcollate::text ELSE %[3]s::text END, ''), collversion
		FROM pg_catalog.pg_collation c WHERE collversion IS NOT NULL AND (
			EXISTS (SELECT FROM pg_catalog.pg_index WHERE c.oid = ANY (indcollation::oid[]))
			OR EXISTS (SELECT FROM pg_catalog.pg_partitioned_table WHERE c.oid = ANY (partcollation::oid[]))
			OR EXISTS (SELECT FROM pg_catalog.pg_depend WHERE refclassid = 'pg_catalog.pg_collation'::regclass AND refobjid = c.oid
				AND classid = 'pg_catalog.pg_class'::regclass))
		ORDER BY 1`, maintain.DefaultCollation, column, ofCollation))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (recorded, error) {
		r := recorded{}
		return r, row.Scan(&r.OID, &r.Name, &r.Locale.Provider, &r.Locale.Name, &r.Version)
	})
}

// collations finds what the new image sorts in another order than the indexes were built in, by the versions that the running databases
// have recorded and those that the new version's own server says. newData is a data directory of it that is thrown away.
func (w Worker) collations(ctx context.Context, found programs, newData string, connect *pgx.ConnConfig) (findings []agentapi.Finding, err error) {
	inUse := map[string][]recorded{}
	var locales []locale
	err = inEach(ctx, connect, func(conn *pgx.Conn, database string, from int) error {
		if from < 15 { // which records no version of a database
			return nil
		}
		var err error
		inUse[database], err = recordedIn(ctx, conn, from)
		for _, r := range inUse[database] {
			locales = append(locales, r.Locale)
		}
		return err
	})
	if err != nil || len(locales) == 0 {
		return nil, err
	}
	versions, missing, err := w.versionsIn(ctx, found, newData, locales)
	if err != nil {
		return nil, fmt.Errorf("ask the new version for its collations: %w", err)
	}
	err = inEach(ctx, connect, func(conn *pgx.Conn, database string, _ int) error {
		changes, err := changesIn(ctx, conn, inUse[database], versions, missing)
		for i := range changes {
			changes[i].Database = database
		}
		findings = append(findings, changes...)
		return err
	})
	return findings, err
}

// inEach does something in each database, and says of which version the server is.
func inEach(ctx context.Context, connect *pgx.ConnConfig, do func(conn *pgx.Conn, database string, version int) error) error {
	databases, err := databasesOf(ctx, connect)
	if err != nil {
		return err
	}
	in := func(database string) error {
		config := connect.Copy()
		config.Database = database
		conn, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			return err
		}
		defer conn.Close(context.WithoutCancel(ctx))
		var version int
		if err := conn.QueryRow(ctx, "SELECT pg_catalog.current_setting('server_version_num')::int / 10000").Scan(&version); err != nil {
			return err
		}
		return do(conn, database, version)
	}
	for _, database := range databases {
		if err := in(database); err != nil {
			return fmt.Errorf("collations of database %s: %w", database, err)
		}
	}
	return nil
}

// versionsIn starts the new version's server, and has it create a collation for each locale, whose version it then records. What it
// can't create is missing.
func (w Worker) versionsIn(ctx context.Context, found programs, newData string, locales []locale) (versions, missing map[locale]string, err error) {
	stop, err := w.start(ctx, found.newBin, newData, "-c fsync=off -c archive_mode=off ")
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, stop(context.WithoutCancel(ctx))) }()
	session, err := w.scratchSession(ctx, "postgres")
	if err != nil {
		return nil, nil, err
	}
	defer session.Close(context.WithoutCancel(ctx))
	versions, missing = map[locale]string{}, map[locale]string{}
	for encoding, providers := range map[string]string{
		"SQL_ASCII": "c", // a locale of the C library is of one encoding, which only this one lets pass
		"UTF8":      "ib",
	} {
		of := slices.DeleteFunc(slices.Clone(locales), func(l locale) bool { return !strings.Contains(providers, l.Provider) })
		if len(of) == 0 {
			continue
		}
		name := "howdah_collations_" + strings.ToLower(encoding)
		create := "CREATE DATABASE " + name + " TEMPLATE template0 LOCALE_PROVIDER libc LOCALE 'C' ENCODING '" + encoding + "'"
		if _, err := session.Exec(ctx, create); err != nil {
			return nil, nil, err
		}
		if err := w.askVersions(ctx, name, of, versions, missing); err != nil {
			return nil, nil, err
		}
	}
	return versions, missing, nil
}

func (w Worker) scratchSession(ctx context.Context, database string) (*pgx.Conn, error) {
	return pgx.Connect(ctx, "host="+postgres.QuoteConnInfo(w.Scratch)+" port=5432 user=postgres sslmode=disable dbname="+database)
}

// askVersions of locales in a scratch database.
func (w Worker) askVersions(ctx context.Context, database string, locales []locale, versions, missing map[locale]string) error {
	conn, err := w.scratchSession(ctx, database)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	providers := map[string]string{"c": "libc", "i": "icu", "b": "builtin"}
	for i, l := range slices.Compact(slices.SortedFunc(slices.Values(locales), func(a, b locale) int { return strings.Compare(a.Provider+a.Name, b.Provider+b.Name) })) {
		_, err := conn.Exec(ctx, fmt.Sprintf("CREATE COLLATION public.c%d (provider = %s, locale = %s)", i, providers[l.Provider], postgres.QuoteLiteral(l.Name)))
		switch {
		case err != nil && (ctx.Err() != nil || conn.IsClosed()):
			return err
		case err != nil:
			missing[l] = err.Error()
			continue
		}
		var version string
		const ask = "SELECT coalesce(collversion, '') FROM pg_catalog.pg_collation WHERE collname = $1 AND collnamespace = 'public'::regnamespace"
		if err := conn.QueryRow(ctx, ask, fmt.Sprintf("c%d", i)).Scan(&version); err != nil {
			return err
		}
		versions[l] = version
	}
	return nil
}

// changesIn a database: what depends on collations of another version, and what the new image doesn't have.
func changesIn(ctx context.Context, conn *pgx.Conn, inUse []recorded, versions, missing map[locale]string) ([]agentapi.Finding, error) {
	var findings []agentapi.Finding
	var changed []uint32
	var changes []string
	for _, r := range inUse {
		if why, is := missing[r.Locale]; is {
			findings = append(findings, agentapi.Finding{Severity: severityError, Check: checkLocaleMissing, Message: fmt.Sprintf(
				"The collation of %s follows the locale %s, which the new image doesn't have (%s): set spec.image to an image that has it.", r.Name, r.Locale.Name, why)})
		} else if version := versions[r.Locale]; version != r.Version {
			changed = append(changed, r.OID)
			changes = append(changes, fmt.Sprintf("that of %s from %s to %s", r.Name, r.Version, version))
		}
	}
	if len(changed) == 0 {
		return findings, nil
	}
	versionsChange := "The version of a collation changes, " + strings.Join(changes, ", ")
	indexes, err := dependentIndexes(ctx, conn, changed)
	if err != nil {
		return nil, err
	}
	if len(indexes) > 0 {
		findings = append(findings, agentapi.Finding{Severity: severityWarning, Check: checkCollationVersion, Message: fmt.Sprintf(
			"%s, which may change the sort order of %d indexes: %s. They are rebuilt as soon as the new version serves, while clients work, "+
				"whose queries may miss rows until then.", versionsChange, len(indexes), some(indexes))})
	}
	tables, err := column(ctx, conn, `SELECT partrelid::regclass::text FROM pg_catalog.pg_partitioned_table
		WHERE partstrat = 'r' AND partcollation::oid[] && $1::oid[] ORDER BY 1`, changed)
	if err != nil {
		return nil, err
	}
	if len(tables) > 0 {
		findings = append(findings, agentapi.Finding{Severity: severityWarning, Check: checkPartitionOrder, Message: fmt.Sprintf(
			"%s, which may change the partition that a row belongs to, in %d tables that are partitioned by a range of text: %s. "+
				"Try it with spec.rehearsal, and afterwards move rows that are in the wrong partition.", versionsChange, len(tables), some(tables))})
	}
	return findings, nil
}

// dependentIndexes are those that the agent rebuilds after the upgrade, the largest first, with their sizes.
func dependentIndexes(ctx context.Context, conn *pgx.Conn, changed []uint32) ([]string, error) {
	return column(ctx, conn, `SELECT d.name || ' (' || pg_catalog.pg_size_pretty(size) || ')' FROM (`+maintain.DependentIndexes+`) AS d (oid, name),
		LATERAL (SELECT coalesce(pg_catalog.pg_relation_size(d.oid), 0) AS size) AS s ORDER BY size DESC, 1`, changed)
}

// some names the first few.
func some(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
