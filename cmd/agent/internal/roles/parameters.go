package roles

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/pkg/agentapi"
)

// lists are the parameters whose values are lists of names. ALTER ROLE takes each name by itself.
var lists = []string{"local_preload_libraries", "search_path", "session_preload_libraries", "temp_tablespaces"}

// keepRoleParameters comes after all roles are there.
func (d *declaration) keepRoleParameters(ctx context.Context, conn *pgx.Conn) error {
	return d.eachRole(ctx, conn, false, func(role agentapi.Role) error {
		if len(role.Parameters) == 0 {
			return nil
		}
		have, err := roleParameters(ctx, conn, role.Name)
		if err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(role.Parameters)) {
			value, set := have[name]
			if set && sameValue(name, value, role.Parameters[name]) {
				continue
			}
			if _, err := conn.Exec(ctx, "ALTER ROLE "+quote(role.Name)+" SET "+parameter(name)+" TO "+setting(name, role.Parameters[name])); err != nil {
				return err
			}
		}
		for name := range have {
			if _, declared := role.Parameters[name]; declared {
				continue
			}
			if _, err := conn.Exec(ctx, "ALTER ROLE "+quote(role.Name)+" RESET "+parameter(name)); err != nil {
				return err
			}
		}
		return nil
	})
}

// roleParameters are what the role has for all databases, by name in lower case.
func roleParameters(ctx context.Context, conn *pgx.Conn, role string) (map[string]string, error) {
	rows, err := conn.Query(ctx, `SELECT pg_catalog.unnest(s.setconfig) FROM pg_catalog.pg_db_role_setting s
		JOIN pg_catalog.pg_roles r ON r.oid = s.setrole WHERE r.rolname = $1 AND s.setdatabase = 0`, role)
	if err != nil {
		return nil, err
	}
	settings, err := pgx.CollectRows(rows, pgx.RowTo[string])
	have := make(map[string]string, len(settings))
	for _, s := range settings {
		name, value, _ := strings.Cut(s, "=")
		have[strings.ToLower(name)] = value
	}
	return have, err
}

func sameValue(name, have, wanted string) bool {
	if slices.Contains(lists, name) {
		return slices.Equal(names(have), names(wanted))
	}
	return have == wanted
}

// parameter quotes a name, which may have a prefix.
func parameter(name string) string { return pgx.Identifier(strings.Split(name, ".")).Sanitize() }

// setting is a value as ALTER ROLE takes it.
func setting(name, value string) string {
	if !slices.Contains(lists, name) {
		return literal(value)
	}
	var quoted []string
	for _, one := range names(value) {
		quoted = append(quoted, literal(one))
	}
	return strings.Join(quoted, ", ")
}

// names of a list, without the quotes that some are written in.
func names(list string) []string {
	var all []string
	for one := range strings.SplitSeq(list, ",") {
		one = strings.TrimSpace(one)
		if len(one) >= 2 && one[0] == '"' && one[len(one)-1] == '"' {
			one = strings.ReplaceAll(one[1:len(one)-1], `""`, `"`)
		}
		all = append(all, one)
	}
	return all
}
