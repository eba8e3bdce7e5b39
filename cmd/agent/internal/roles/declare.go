package roles

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/cmd/agent/internal/logicalslot"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// Desired is what the cluster declares.
type Desired struct {
	agentapi.Declared
	Source
	Major int
	// Database and Owner of the application.
	Database, Owner string
	// Passwords that have arrived, by role, or of subscriptions by agentapi.PasswordKey.
	Passwords map[string]string
	// Told of the data; empty: nothing.
	Told logicalslot.Told
}

// declaration is one try to make everything as it is declared.
type declaration struct {
	Desired
	server   local.Server
	problems []string
	// later is the generation of a later spec that was applied before; 0: none was. Nothing is dropped then: the API server may have been restored from a
	// backup, or the configuration of this pod be an old one.
	later int64
	// marks of subscriptions, and why they are not known.
	marks    map[logicalslot.Subscription]logicalslot.Mark
	errMarks error
}

// Declare makes everything as it is declared and says, a sentence each, what could not be. An error means that the server
// was lost meanwhile. It may be repeated, and changes nothing that is right already.
func Declare(ctx context.Context, server local.Server, desired Desired) (problems []string, err error) {
	d := &declaration{Desired: desired, server: server}
	err = server.With(ctx, "postgres", func(conn *pgx.Conn) (err error) {
		if d.later, err = desired.Source.record(ctx, conn); err != nil {
			return err
		}
		for _, step := range []func(context.Context, *pgx.Conn) error{
			d.keepRoles, d.keepMemberships, d.keepRoleParameters, d.keepDatabases, d.dropDatabases, d.dropRoles, d.readMarks,
		} {
			if err := step(ctx, conn); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = d.keepContents(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("declared roles and databases: %w", local.Plain(err))
	}
	return d.problems, nil
}

// errRefused is something desired that is not granted, whatever the server would say.
var errRefused = errors.New("refused")

// note makes a problem of an error, and passes on one that ends everything.
func (d *declaration) note(ctx context.Context, conn *pgx.Conn, subject string, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil || conn.IsClosed():
		return err
	}
	text := local.Plain(err).Error()
	fault := &pgconn.PgError{}
	if errors.As(err, &fault) && fault.Code == "2BP01" { // dependent_objects_still_exist
		text += ": give them to another role with REASSIGN OWNED, or drop them with DROP OWNED"
	}
	d.problems = append(d.problems, subject+": "+strings.TrimPrefix(text, errRefused.Error()+": "))
	return nil
}

// reserved says that a name is not for people.
func reserved(role string) bool {
	return slices.Contains([]string{postgres.RoleSuperuser, "public", "none"}, role) ||
		strings.HasPrefix(role, "pg_") || strings.HasPrefix(role, "howdah_") || strings.HasPrefix(role, "howdah-")
}

// eachRole does something for the roles that are to be there, or for those that are not.
func (d *declaration) eachRole(ctx context.Context, conn *pgx.Conn, absent bool, do func(agentapi.Role) error) error {
	for _, role := range d.Roles {
		if role.Absent != absent {
			continue
		}
		err := fmt.Errorf("%w: the name is reserved by PostgreSQL or Howdah", errRefused)
		if !reserved(role.Name) {
			err = do(role)
		}
		if err := d.note(ctx, conn, "role "+role.Name, err); err != nil {
			return err
		}
	}
	return nil
}

func (d *declaration) keepRoles(ctx context.Context, conn *pgx.Conn) error {
	return d.eachRole(ctx, conn, false, func(role agentapi.Role) error { return d.keepRole(ctx, conn, role) })
}

// keepRole makes the role with its attributes and its password. Rights beyond those stay.
func (d *declaration) keepRole(ctx context.Context, conn *pgx.Conn, role agentapi.Role) error {
	super, same, err := look(ctx, conn, role)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		_, err = conn.Exec(ctx, "CREATE ROLE "+quote(role.Name)+" NOSUPERUSER "+attributes(role)) // and neither REPLICATION nor BYPASSRLS
	case err != nil:
	case super:
		return fmt.Errorf("%w: it is a superuser, which Howdah leaves alone", errRefused)
	case !same:
		_, err = conn.Exec(ctx, "ALTER ROLE "+quote(role.Name)+" "+attributes(role))
	}
	if err != nil || !role.Password {
		return err
	}
	password, arrived := d.Passwords[role.Name]
	if !arrived {
		return fmt.Errorf("%w: its password is not available from its Secret yet", errRefused)
	}
	return keepPassword(ctx, conn, role.Name, password, "")
}

// look says whether a role is a superuser, and whether its attributes are as declared.
func look(ctx context.Context, conn *pgx.Conn, role agentapi.Role) (super, same bool, err error) {
	err = conn.QueryRow(ctx, `SELECT rolsuper, rolcanlogin = $2 AND rolcreatedb = $3 AND rolcreaterole = $4 AND rolinherit = $5
		AND rolconnlimit = $6 AND coalesce(rolvaliduntil, 'infinity') = $7::text::timestamptz
		AND rolreplication = coalesce($8, rolreplication) AND rolbypassrls = coalesce($9, rolbypassrls) FROM pg_catalog.pg_roles WHERE rolname = $1`,
		role.Name, role.Login, role.CreateDB, role.CreateRole, role.Inherit, role.ConnectionLimit, validUntil(role), role.Replication, role.BypassRLS).Scan(&super, &same)
	return super, same, err
}

func validUntil(role agentapi.Role) string {
	if role.ValidUntil.IsZero() {
		return "infinity"
	}
	return role.ValidUntil.UTC().Format(time.RFC3339)
}

func attributes(role agentapi.Role) string {
	words := []string{}
	for _, attribute := range []struct {
		name string
		has  *bool // nil: it stays as it is
	}{
		{"LOGIN", &role.Login}, {"CREATEDB", &role.CreateDB}, {"CREATEROLE", &role.CreateRole}, {"INHERIT", &role.Inherit},
		{"REPLICATION", role.Replication}, {"BYPASSRLS", role.BypassRLS},
	} {
		switch {
		case attribute.has == nil:
		case *attribute.has:
			words = append(words, attribute.name)
		default:
			words = append(words, "NO"+attribute.name)
		}
	}
	return fmt.Sprintf("%s CONNECTION LIMIT %d VALID UNTIL '%s'", strings.Join(words, " "), role.ConnectionLimit, validUntil(role))
}

func (d *declaration) dropRoles(ctx context.Context, conn *pgx.Conn) error {
	return d.eachRole(ctx, conn, true, func(role agentapi.Role) error {
		super, _, err := look(ctx, conn, role)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return nil
		case err != nil:
			return err
		case super || role.Name == d.Owner:
			return fmt.Errorf("%w: it is a superuser or the application's role, which is not dropped", errRefused)
		}
		if err := d.mayDrop(); err != nil {
			return err
		}
		_, err = conn.Exec(ctx, "DROP ROLE "+quote(role.Name))
		return err
	})
}
