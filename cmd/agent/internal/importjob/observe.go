package importjob

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// notOurs are databases of a provider, which nobody else can connect to.
var notOurs = []string{postgres.RoleSuperuser, "rdsadmin", "cloudsqladmin", "alloydbadmin", "azure_maintenance", "azure_sys"}

// inventory reads what the source has of what is to be imported. It reads catalogs only.
func (s *source) inventory(ctx context.Context, wanted []agentapi.ImportDatabase) (*Inventory, error) {
	inv := &Inventory{}
	err := s.with(ctx, s.at.Database, func(conn *pgx.Conn) error {
		for _, look := range []func(context.Context, *pgx.Conn) error{inv.readServer, inv.readRoles, inv.readMemberships, inv.readDatabases, inv.readSettings, inv.readReplication} {
			if err := look(ctx, conn); err != nil {
				return fmt.Errorf("look at the source: %w", local.Plain(err))
			}
		}
		return nil
	})
	if err != nil || inv.Major < oldestSource {
		return inv, err
	}
	inv.Databases = slices.DeleteFunc(inv.Databases, func(d Database) bool {
		if len(wanted) > 0 {
			return !slices.ContainsFunc(wanted, func(w agentapi.ImportDatabase) bool { return w.Name == d.Name })
		}
		return d.Template || slices.Contains(notOurs, d.Name)
	})
	for i := range inv.Databases {
		if !inv.Databases[i].Connectable {
			continue // which the preflight refuses
		}
		err := s.with(ctx, inv.Databases[i].Name, func(conn *pgx.Conn) (err error) {
			if inv.Databases[i].Sharing, err = sharing(ctx, conn, inv.Databases[i].Name); err != nil {
				return err
			}
			return inv.Databases[i].read(ctx, conn)
		})
		if err != nil {
			return nil, fmt.Errorf("look at database %s of the source: %w", inv.Databases[i].Name, local.Plain(err))
		}
	}
	return inv, nil
}

func (inv *Inventory) readServer(ctx context.Context, conn *pgx.Conn) error {
	var number int
	err := conn.QueryRow(ctx, `SELECT pg_catalog.current_setting('server_version_num')::int, r.rolsuper, pg_catalog.has_table_privilege('pg_catalog.pg_authid', 'SELECT')
		FROM pg_catalog.pg_roles r WHERE r.rolname = current_user`).Scan(&number, &inv.Superuser, &inv.Passwords)
	version := postgres.VersionFromNum(number)
	inv.Major, inv.Version = version.Major, version.String()
	return err
}

// readReplication is for online imports. A provider may have a role for who may replicate.
func (inv *Inventory) readReplication(ctx context.Context, conn *pgx.Conn) error {
	r := &inv.Replication
	return conn.QueryRow(ctx, `SELECT pg_catalog.current_setting('wal_level'), pg_catalog.pg_is_in_recovery(), r.rolsuper OR r.rolreplication OR EXISTS
			(SELECT FROM pg_catalog.pg_roles p WHERE p.rolname = 'rds_replication' AND pg_catalog.pg_has_role(p.oid, 'USAGE')),
		least(pg_catalog.current_setting('max_replication_slots')::int - (SELECT count(*) FROM pg_catalog.pg_replication_slots WHERE slot_name !~ $1),
			pg_catalog.current_setting('max_wal_senders')::int - (SELECT count(*) FROM pg_catalog.pg_stat_replication))::int
		FROM pg_catalog.pg_roles r WHERE r.rolname = current_user`, "^"+agentapi.OnlineImportPrefix).Scan(&r.WALLevel, &r.Standby, &r.Allowed, &r.FreeSlots)
}

func (inv *Inventory) readRoles(ctx context.Context, conn *pgx.Conn) error {
	password, from := "''", "pg_catalog.pg_roles"
	if inv.Passwords {
		password, from = "coalesce(rolpassword, '')", "pg_catalog.pg_authid"
	}
	rows, err := conn.Query(ctx, `SELECT rolname, rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication, rolbypassrls, rolconnlimit,
		coalesce(rolvaliduntil::text, ''), coalesce(pg_catalog.shobj_description(oid, 'pg_authid'), ''), `+password+`
		FROM `+from+` WHERE rolname !~ '^pg_' ORDER BY rolname`)
	if err != nil {
		return err
	}
	inv.Roles, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (r Role, err error) {
		return r, row.Scan(&r.Name, &r.Superuser, &r.Inherit, &r.CreateRole, &r.CreateDB, &r.Login, &r.Replication, &r.ByRLS, &r.Limit,
			&r.ValidUntil, &r.Comment, &r.Password)
	})
	return err
}

func (inv *Inventory) readMemberships(ctx context.Context, conn *pgx.Conn) error {
	options := "true, true"
	if inv.Major >= 16 {
		options = "bool_or(a.inherit_option), bool_or(a.set_option)"
	}
	rows, err := conn.Query(ctx, `SELECT g.rolname, m.rolname, bool_or(a.admin_option), `+options+` FROM pg_catalog.pg_auth_members a
		JOIN pg_catalog.pg_roles g ON g.oid = a.roleid JOIN pg_catalog.pg_roles m ON m.oid = a.member
		WHERE m.rolname !~ '^pg_' GROUP BY 1, 2 ORDER BY 1, 2`)
	if err != nil {
		return err
	}
	inv.Memberships, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (m Membership, err error) {
		return m, row.Scan(&m.Group, &m.Member, &m.Admin, &m.Inherit, &m.Set)
	})
	return err
}

// localeColumns are the provider, its locale and its rules, which every version has elsewhere.
func localeColumns(major int) string {
	switch {
	case major >= 17:
		return "datlocprovider::text, coalesce(datlocale, ''), coalesce(daticurules, '')"
	case major == 16:
		return "datlocprovider::text, coalesce(daticulocale, ''), coalesce(daticurules, '')"
	case major == 15:
		return "datlocprovider::text, coalesce(daticulocale, ''), ''"
	}
	return "'c', '', ''"
}

func (inv *Inventory) readDatabases(ctx context.Context, conn *pgx.Conn) error {
	rows, err := conn.Query(ctx, `SELECT datname, pg_catalog.pg_get_userbyid(datdba), pg_catalog.pg_encoding_to_char(encoding), datcollate, datctype, `+localeColumns(inv.Major)+`,
		coalesce(pg_catalog.shobj_description(oid, 'pg_database'), ''), datconnlimit, datistemplate, datallowconn AND pg_catalog.has_database_privilege(oid, 'CONNECT'), datacl IS NOT NULL
		FROM pg_catalog.pg_database ORDER BY datname`)
	if err != nil {
		return err
	}
	inv.Databases, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (d Database, err error) {
		return d, row.Scan(&d.Name, &d.Owner, &d.Encoding, &d.Collate, &d.Ctype, &d.Provider, &d.Locale, &d.Rules, &d.Comment, &d.Limit, &d.Template, &d.Connectable, &d.OwnACL)
	})
	if err != nil {
		return err
	}
	for i := range inv.Databases {
		rows, err := conn.Query(ctx, `SELECT coalesce(r.rolname, ''), a.privilege_type, a.is_grantable FROM pg_catalog.pg_database d
			CROSS JOIN LATERAL pg_catalog.aclexplode(d.datacl) a LEFT JOIN pg_catalog.pg_roles r ON r.oid = a.grantee WHERE d.datname = $1 ORDER BY 1, 2`, inv.Databases[i].Name)
		if err != nil {
			return err
		}
		if inv.Databases[i].ACL, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (g Grant, err error) {
			return g, row.Scan(&g.Role, &g.Right, &g.Option)
		}); err != nil {
			return err
		}
	}
	return nil
}

func (inv *Inventory) readSettings(ctx context.Context, conn *pgx.Conn) error {
	rows, err := conn.Query(ctx, `SELECT coalesce(d.datname, ''), coalesce(r.rolname, ''), s.setconfig FROM pg_catalog.pg_db_role_setting s
		LEFT JOIN pg_catalog.pg_database d ON d.oid = s.setdatabase LEFT JOIN pg_catalog.pg_roles r ON r.oid = s.setrole
		WHERE (d.oid IS NOT NULL) = (s.setdatabase <> 0) AND (r.oid IS NOT NULL) = (s.setrole <> 0) ORDER BY 1, 2`)
	if err != nil {
		return err
	}
	inv.Settings, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (s Setting, err error) {
		return s, row.Scan(&s.Database, &s.Role, &s.Values)
	})
	return err
}

// outside of PostgreSQL's own schemas
const outside = `n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_(toast|temp)'`

func (d *Database) read(ctx context.Context, conn *pgx.Conn) error {
	rows, err := conn.Query(ctx, `SELECT n.nspname, c.relname, c.relkind::text,
		CASE WHEN c.relkind = 'r' THEN pg_catalog.pg_table_size(c.oid) ELSE 0 END, CASE WHEN c.relkind IN ('r', 'm') THEN pg_catalog.pg_total_relation_size(c.oid) ELSE 0 END,
		pg_catalog.has_table_privilege(c.oid, 'SELECT') AND pg_catalog.has_schema_privilege(n.oid, 'USAGE'), c.relkind IN ('r', 'p') AND pg_catalog.row_security_active(c.oid),
		EXISTS (SELECT FROM pg_catalog.pg_depend e WHERE e.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND e.objid = c.oid AND e.deptype = 'e'),
		c.relreplident = 'f' OR EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid AND i.indimmediate AND i.indisvalid AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident ELSE false END),
		c.relpersistence = 'u', pg_catalog.pg_has_role(c.relowner, 'USAGE'),
		EXISTS (SELECT FROM pg_catalog.pg_trigger t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal AND t.tgenabled IN ('A', 'R'))
		FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind IN ('r', 'p', 'm', 'f', 'S') AND `+outside+` ORDER BY 1, 2`)
	if err != nil {
		return err
	}
	d.Tables, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (t Table, err error) {
		return t, row.Scan(&t.Schema, &t.Name, &t.Kind, &t.Bytes, &t.TotalBytes, &t.Readable, &t.RowSecurity, &t.OfExtension, &t.Key, &t.Unlogged, &t.Owned, &t.Fires)
	})
	if err != nil {
		return err
	}
	for query, names := range map[string]*[]string{
		"SELECT extname FROM pg_catalog.pg_extension WHERE extname <> 'plpgsql' ORDER BY 1":                                                                     &d.Extensions,
		"SELECT spcname FROM pg_catalog.pg_tablespace WHERE oid IN (SELECT reltablespace FROM pg_catalog.pg_class) AND spcname <> 'pg_global' ORDER BY 1":       &d.Tablespaces,
		"SELECT nspname FROM pg_catalog.pg_namespace n WHERE " + outside + " ORDER BY 1":                                                                        &d.schemas,
		"SELECT pubname FROM pg_catalog.pg_publication ORDER BY 1":                                                                                              &d.Publications,
		"SELECT subname FROM pg_catalog.pg_subscription WHERE subdbid = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database()) ORDER BY 1": &d.Subscriptions,
	} {
		rows, err := conn.Query(ctx, query)
		if err != nil {
			return err
		}
		if *names, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
			return err
		}
	}
	if err := d.readCollations(ctx, conn); err != nil {
		return err
	}
	return conn.QueryRow(ctx, `SELECT pg_catalog.pg_total_relation_size('pg_catalog.pg_largeobject'),
		(SELECT count(*) FROM pg_catalog.pg_largeobject_metadata WHERE NOT pg_catalog.pg_has_role(lomowner, 'USAGE') AND lomacl IS NULL), (SELECT count(*) FROM pg_catalog.pg_user_mappings),
		(SELECT count(*) FROM pg_catalog.pg_largeobject_metadata), pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE')`).
		Scan(&d.LargeObjectBytes, &d.HiddenLargeObjects, &d.UserMappings, &d.LargeObjects, &d.MayCreate)
}

// readCollations finds those of the C library: its locales are not on every system.
func (d *Database) readCollations(ctx context.Context, conn *pgx.Conn) error {
	rows, err := conn.Query(ctx, `SELECT c.collname, coalesce(c.collcollate, ''), coalesce(c.collctype, ''), n.nspname = 'pg_catalog' FROM pg_catalog.pg_collation c
		JOIN pg_catalog.pg_namespace n ON n.oid = c.collnamespace
		WHERE c.collprovider = 'c' AND c.collname NOT IN ('C', 'POSIX', 'ucs_basic') AND (n.nspname <> 'pg_catalog' OR c.oid IN (SELECT attcollation FROM pg_catalog.pg_attribute))
		ORDER BY 1`)
	if err != nil {
		return err
	}
	d.Collations, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (c Collation, err error) {
		return c, row.Scan(&c.Name, &c.Collate, &c.Ctype, &c.System)
	})
	return err
}
