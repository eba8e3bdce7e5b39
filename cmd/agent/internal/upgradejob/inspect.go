package upgradejob

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// target is the new version, as far as the inspection needs it.
type target struct {
	major int
	share []string // its share folders, with extension/*.control
	lib   string   // its $libdir
	// mounted are the folders of libraries in images of extensions. The new server finds them there, and pg_upgrade does not.
	mounted []string
	// dropsSlots: a person consents to the loss of logical slots.
	dropsSlots bool
	// plugins are the output plugins that its server lets the clients of logical slots use; nil: all.
	plugins []string
	// origins are how many replication origins its server has room for.
	origins int
}

// inspect asks every question in every database.
func inspect(ctx context.Context, connect *pgx.ConnConfig, to target) ([]agentapi.Finding, error) {
	databases, err := databasesOf(ctx, connect)
	if err != nil {
		return nil, err
	}
	var findings []agentapi.Finding
	for i, database := range databases {
		config := connect.Copy()
		config.Database = database
		found, err := inspectDatabase(ctx, config, to, i == 0)
		if err != nil {
			return nil, fmt.Errorf("inspect database %s: %w", database, err)
		}
		findings = append(findings, found...)
	}
	return findings, nil
}

func inspectDatabase(ctx context.Context, connect *pgx.ConnConfig, to target, first bool) ([]agentapi.Finding, error) {
	conn, err := pgx.ConnectConfig(ctx, connect)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var from int
	if err := conn.QueryRow(ctx, "SELECT pg_catalog.current_setting('server_version_num')::int / 10000").Scan(&from); err != nil {
		return nil, err
	}
	var findings []agentapi.Finding
	for _, question := range inspections {
		if question.cluster && !first || !question.applies(from, to.major) {
			continue
		}
		texts, err := column(ctx, conn, question.query)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", question.check, err)
		}
		for _, text := range texts {
			finding := agentapi.Finding{Severity: question.severityFor(to), Check: question.check, Message: fmt.Sprintf(question.message, text)}
			if !question.cluster {
				finding.Database = connect.Database
			}
			findings = append(findings, finding)
		}
	}
	if first {
		overrides, err := alterSystem(ctx, conn)
		if err != nil {
			return nil, err
		}
		replication, err := inspectReplication(ctx, conn, from, to)
		if err != nil {
			return nil, err
		}
		findings = append(append(findings, overrides...), replication...)
	}
	missing, err := missingFiles(ctx, conn, connect.Database, to)
	if err != nil {
		return nil, err
	}
	others, err := otherVersions(ctx, conn, connect.Database, to)
	return slices.Concat(findings, missing, others), err
}

// alterSystem finds what ALTER SYSTEM has set: the new data directory begins without it, so that the new version would run with other
// settings than the old one. What belongs to Howdah has no effect there, and doesn't count; nor does what no server has read yet.
func alterSystem(ctx context.Context, conn *pgx.Conn) ([]agentapi.Finding, error) {
	names, err := column(ctx, conn, `SELECT pg_catalog.lower(name) FROM pg_catalog.pg_settings
		WHERE sourcefile LIKE '%/postgresql.auto.conf' ORDER BY 1`)
	if err != nil {
		return nil, fmt.Errorf("settings of ALTER SYSTEM: %w", err)
	}
	names = slices.DeleteFunc(names, func(name string) bool { _, fixed := postgres.Fixed(name); return fixed })
	if len(names) == 0 {
		return nil, nil
	}
	return []agentapi.Finding{{Severity: severityError, Check: "AlterSystem", Message: fmt.Sprintf(
		"ALTER SYSTEM has set %s, and the new version would start without that: write it to spec.postgresql.parameters of the PostgresCluster, "+
			"and run ALTER SYSTEM RESET for each.", strings.Join(names, ", "))}}, nil
}

// missingFiles finds extensions and libraries that the new image doesn't have.
func missingFiles(ctx context.Context, conn *pgx.Conn, database string, to target) ([]agentapi.Finding, error) {
	extensions, err := column(ctx, conn, "SELECT extname::text FROM pg_catalog.pg_extension ORDER BY 1")
	if err != nil {
		return nil, err
	}
	libraries, err := column(ctx, conn, `SELECT DISTINCT probin FROM pg_catalog.pg_proc
		WHERE probin LIKE '$libdir/%' AND oid >= 16384 ORDER BY 1`)
	if err != nil {
		return nil, err
	}
	var findings []agentapi.Finding
	for _, extension := range extensions {
		if !anyHas(to.share, filepath.Join("extension", extension+".control")) {
			findings = append(findings, agentapi.Finding{
				Severity: severityError, Check: "ExtensionMissing", Database: database,
				Message: fmt.Sprintf("Extension %s is not in the image of PostgreSQL %d: DROP EXTENSION it first, or set spec.image to an image that has it.", extension, to.major),
			})
		}
	}
	for _, library := range libraries {
		name := strings.TrimSuffix(strings.TrimPrefix(library, "$libdir/"), ".so")
		if !anyHas([]string{to.lib}, name+".so") {
			remedy := "set spec.image to an image that has it."
			if anyHas(to.mounted, name+".so") {
				remedy = "pg_upgrade doesn't look into spec.postgresql.extensionImages, so " + remedy + " After the upgrade it may come from there."
			}
			findings = append(findings, agentapi.Finding{
				Severity: severityError, Check: "LibraryMissing", Database: database,
				Message: fmt.Sprintf("Functions use the library %s, which is not in the image of PostgreSQL %d: %s", name, to.major, remedy),
			})
		}
	}
	return findings, nil
}

func anyHas(folders []string, path string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool {
		_, err := os.Stat(filepath.Join(folder, path))
		return err == nil
	})
}

func column(ctx context.Context, conn *pgx.Conn, query string, args ...any) ([]string, error) {
	rows, err := conn.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
