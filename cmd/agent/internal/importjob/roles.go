package importjob

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/pkg/postgres"
)

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

// literal of SQL; standard_conforming_strings is always on in our sessions.
func literal(text string) string {
	if strings.Contains(text, `\`) {
		return " E'" + strings.NewReplacer(`\`, `\\`, "'", "''").Replace(text) + "'"
	}
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}

// createRole has a role as it was, but for what would make it a superuser.
func createRole(r Role) []string {
	if r.Name == postgres.RoleSuperuser {
		return nil
	}
	create := "CREATE ROLE " + quote(r.Name)
	if !carried(r.Name) {
		return []string{create} // of another cluster of ours: the agent gives it what it needs
	}
	for _, attribute := range []struct {
		has  bool
		name string
	}{{r.Inherit, "INHERIT"}, {r.CreateRole, "CREATEROLE"}, {r.CreateDB, "CREATEDB"}, {r.Login, "LOGIN"}, {r.Replication, "REPLICATION"}, {r.ByRLS, "BYPASSRLS"}} {
		if attribute.has {
			create += " " + attribute.name
		} else {
			create += " NO" + attribute.name
		}
	}
	create += fmt.Sprintf(" CONNECTION LIMIT %d", r.Limit)
	if strings.HasPrefix(r.Password, "SCRAM-SHA-256$") {
		create += " PASSWORD " + literal(r.Password)
	}
	if r.ValidUntil != "" {
		create += " VALID UNTIL " + literal(r.ValidUntil)
	}
	statements := []string{create}
	if r.Comment != "" {
		statements = append(statements, "COMMENT ON ROLE "+quote(r.Name)+" IS "+literal(r.Comment))
	}
	return statements
}

// grantMembership joins a role to another one, as it was.
func grantMembership(m Membership, source, target int) string {
	if !carried(m.Member) || slices.Contains(powerful, m.Group) || strings.HasPrefix(m.Group, "howdah_") {
		return ""
	}
	grant := "GRANT " + quote(m.Group) + " TO " + quote(m.Member)
	switch {
	case source >= 16 && target >= 16:
		grant += fmt.Sprintf(" WITH ADMIN %t, INHERIT %t, SET %t", m.Admin, m.Inherit, m.Set)
	case m.Admin:
		grant += " WITH ADMIN OPTION"
	}
	return grant
}

// createDatabase makes an empty one, with the locale that it had or that of the cluster.
func createDatabase(d Database, clusterLocales bool) []string {
	create := "CREATE DATABASE " + quote(d.Name) + " TEMPLATE template0 OWNER " + quote(d.Owner)
	if !clusterLocales {
		create += " ENCODING " + literal(d.Encoding) + " LC_COLLATE " + literal(d.Collate) + " LC_CTYPE " + literal(d.Ctype)
		switch d.Provider {
		case "i":
			create += " LOCALE_PROVIDER icu ICU_LOCALE " + literal(d.Locale)
			if d.Rules != "" {
				create += " ICU_RULES " + literal(d.Rules)
			}
		case "b":
			create += " LOCALE_PROVIDER builtin BUILTIN_LOCALE " + literal(d.Locale)
		default:
			create += " LOCALE_PROVIDER libc"
		}
	}
	statements := []string{create}
	if d.Comment != "" {
		statements = append(statements, "COMMENT ON DATABASE "+quote(d.Name)+" IS "+literal(d.Comment))
	}
	return statements
}

// openDatabase lets clients in as they were, once all is there.
func openDatabase(d Database) (statements []string) {
	name := quote(d.Name)
	if d.Limit != -1 {
		statements = append(statements, fmt.Sprintf("ALTER DATABASE %s CONNECTION LIMIT %d", name, d.Limit))
	}
	if !d.OwnACL {
		return statements
	}
	statements = append(statements, "REVOKE ALL ON DATABASE "+name+" FROM PUBLIC, "+quote(d.Owner))
	for _, g := range d.ACL {
		if !slices.Contains(rights, g.Right) {
			continue
		}
		role := "PUBLIC"
		if g.Role != "" {
			role = quote(g.Role)
		}
		grant := "GRANT " + g.Right + " ON DATABASE " + name + " TO " + role
		if g.Option {
			grant += " WITH GRANT OPTION"
		}
		statements = append(statements, grant)
	}
	return statements
}

// rights of a database. What the source says is no statement of ours.
var rights = []string{"CREATE", "TEMPORARY", "CONNECT"}

func (w *Worker) execAll(ctx context.Context, statements []string) error {
	return w.Target.With(ctx, postgres.RoleSuperuser, func(conn *pgx.Conn) error {
		for _, statement := range statements {
			if statement == "" {
				continue
			}
			if _, err := conn.Exec(ctx, statement); err != nil {
				return fmt.Errorf("%s: %w", firstWords(statement), local.Plain(err))
			}
		}
		return nil
	})
}

// firstWords say which statement it was, and none of its literals.
func firstWords(statement string) string {
	words := strings.Fields(statement)
	return strings.Join(words[:min(3, len(words))], " ")
}

// createRoles has all of them before any is a member of another.
func (w *Worker) createRoles(ctx context.Context, inv *Inventory) error {
	var statements []string
	for _, r := range inv.Roles {
		statements = append(statements, createRole(r)...)
	}
	for _, m := range inv.Memberships {
		statements = append(statements, grantMembership(m, inv.Major, w.Major))
	}
	return w.execAll(ctx, statements)
}

// applySettings gives roles and databases their settings, and returns a sentence for each that this server doesn't accept.
func (w *Worker) applySettings(ctx context.Context, imported []string, settings []Setting) (refused []string, err error) {
	err = w.Target.With(ctx, postgres.RoleSuperuser, func(conn *pgx.Conn) error {
		for _, s := range settings {
			if s.Database != "" && !slices.Contains(imported, s.Database) || s.Role != "" && !carried(s.Role) {
				continue
			}
			for _, value := range s.Values {
				if err := applySetting(ctx, conn, s, value); err != nil {
					name, _, _ := strings.Cut(value, "=")
					refused = append(refused, fmt.Sprintf("The setting %s of %s is not imported: %s.", name, s.whose(), strings.TrimSuffix(local.Plain(err).Error(), ".")))
				}
				if err := ctx.Err(); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return refused, err
}

func (s Setting) whose() string {
	switch {
	case s.Role == "" && s.Database == "":
		return "all roles"
	case s.Role == "":
		return "database " + s.Database
	case s.Database == "":
		return "role " + s.Role
	}
	return "role " + s.Role + " in database " + s.Database
}

// applySetting takes the value from a session that has it: so lists, and what needs quotes, stay as they are.
func applySetting(ctx context.Context, conn *pgx.Conn, s Setting, value string) (err error) {
	name, text, _ := strings.Cut(value, "=")
	alter := "ALTER DATABASE " + quote(s.Database)
	if s.Role != "" || s.Database == "" {
		alter = "ALTER ROLE ALL"
		if s.Role != "" {
			alter = "ALTER ROLE " + quote(s.Role)
		}
		if s.Database != "" {
			alter += " IN DATABASE " + quote(s.Database)
		}
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tx.Rollback(context.WithoutCancel(ctx)))
		}
	}()
	if _, err := tx.Exec(ctx, "SELECT pg_catalog.set_config($1, $2, true)", name, text); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, alter+" SET "+settingName(name)+" FROM CURRENT"); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// settingName quotes each part of a name such as app.user.
func settingName(name string) string {
	parts := strings.Split(name, ".")
	for i := range parts {
		parts[i] = quote(parts[i])
	}
	return strings.Join(parts, ".")
}
