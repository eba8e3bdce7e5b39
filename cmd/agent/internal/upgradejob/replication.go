package upgradejob

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/pkg/agentapi"
)

// outputPluginsParameter lists the output plugins that clients may use. A minor release has brought it to every major version.
const outputPluginsParameter = "output_plugin_libraries"

// outputPlugins are those that the new version's server lets clients use with the parameters of the cluster; nil: all, as its release doesn't
// know the parameter. The data directory is one of the new version.
func (w Worker) outputPlugins(ctx context.Context, found programs, dataDir string, of map[string]string) ([]string, error) {
	args := []string{"-D", dataDir}
	value, set := of[outputPluginsParameter]
	if set {
		args = append(args, "-c", outputPluginsParameter+"="+value)
	}
	out, err := w.Run(ctx, filepath.Join(found.newBin, "postgres"), append(args, "-C", outputPluginsParameter)...)
	switch {
	case err != nil && ctx.Err() == nil && (set || strings.Contains(err.Error(), "unrecognized configuration parameter")):
		return nil, nil // a value that is refused is a finding of its own
	case err != nil:
		return nil, fmt.Errorf("ask the new version for the output plugins that it allows: %w", err)
	}
	plugins := strings.FieldsFunc(string(out), func(r rune) bool { return strings.ContainsRune(", \t\n\"", r) })
	return slices.Clip(plugins), nil
}

// Parameters that bound how many subscriptions a server can have, and their values where nobody sets them.
const (
	originsParameter = "max_active_replication_origins" // from 18 on; before that, max_replication_slots does
	usualOrigins     = 10
)

// originsOf is how many replication origins PostgreSQL 18 has room for with the parameters of the cluster.
func originsOf(parameters map[string]string) int {
	if n, err := strconv.Atoi(parameters[originsParameter]); err == nil {
		return n
	}
	return usualOrigins
}

// inspectReplication finds what is in the way of carrying logical slots and subscriptions over, as pg_upgrade does from 17 on.
func inspectReplication(ctx context.Context, conn *pgx.Conn, from int, to target) ([]agentapi.Finding, error) {
	if !carriesReplication(from, to.major) {
		return nil, nil
	}
	var findings []agentapi.Finding
	add := func(check, message string, args ...any) {
		findings = append(findings, agentapi.Finding{Severity: severityError, Check: check, Message: fmt.Sprintf(message, args...)})
	}
	used, err := column(ctx, conn, `SELECT DISTINCT plugin::text FROM pg_catalog.pg_replication_slots
		WHERE slot_type = 'logical' AND NOT temporary AND plugin IS NOT NULL ORDER BY 1`)
	if err != nil {
		return nil, err
	}
	for _, plugin := range used {
		switch {
		case !anyHas(append([]string{to.lib}, to.mounted...), plugin+".so"):
			add("LibraryMissing", "Logical replication slots use the output plugin %s, which is not in the image of PostgreSQL %d: drop them, or set spec.image to an image that has it.",
				plugin, to.major)
		case to.plugins != nil && !slices.Contains(to.plugins, plugin):
			add("OutputPlugin", "Logical replication slots use the output plugin %s, which PostgreSQL %d doesn't let clients use: drop them, or set "+
				"spec.postgresql.parameters.%s to '%s'.", plugin, to.major, outputPluginsParameter, strings.Join(append(slices.Clone(to.plugins), plugin), ", "))
		}
	}
	var subscriptions int
	if err := conn.QueryRow(ctx, "SELECT pg_catalog.count(*)::int FROM pg_catalog.pg_subscription").Scan(&subscriptions); err != nil {
		return nil, err
	}
	if to.major >= 18 && from < 18 && subscriptions > to.origins {
		add("ReplicationOrigins", "There are %d subscriptions, and PostgreSQL %d has room for the progress of %d (%s), so it would not start: drop some, and create them "+
			"again after the upgrade, once you have set spec.postgresql.parameters.%[4]s.", subscriptions, to.major, to.origins, originsParameter)
	}
	return findings, nil
}
