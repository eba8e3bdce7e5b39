package roles

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// powerful are the roles whose members can become superusers.
var powerful = []string{postgres.RoleSuperuser, "pg_execute_server_program", "pg_read_server_files", "pg_write_server_files"}

// membership of one role in another.
type membership struct {
	Group string
	// Ours: the superuser has granted it, and not so that it can be passed on. What others grant is theirs, and a role
	// that may make roles has to keep its say in those that it made.
	Ours bool
	// Inherits the group's rights, as the role itself does before version 16.
	Inherits bool
}

// keepMemberships comes after all roles are there: some are members of others.
func (d *declaration) keepMemberships(ctx context.Context, conn *pgx.Conn) error {
	return d.eachRole(ctx, conn, false, func(role agentapi.Role) error {
		have, err := d.memberships(ctx, conn, role)
		if err != nil {
			return err
		}
		for _, group := range role.InRoles {
			if err := d.join(ctx, conn, role, group, have); err != nil {
				return err
			}
		}
		for _, m := range have {
			if !m.Ours || slices.Contains(role.InRoles, m.Group) {
				continue
			}
			if _, err := conn.Exec(ctx, "REVOKE "+quote(m.Group)+" FROM "+quote(role.Name)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (d *declaration) memberships(ctx context.Context, conn *pgx.Conn, role agentapi.Role) ([]membership, error) {
	inherits := "m_role.rolinherit"
	if d.Major >= 16 {
		inherits = "m.inherit_option"
	}
	rows, err := conn.Query(ctx, `SELECT g.rolname, m.grantor = 10 AND NOT m.admin_option, `+inherits+` FROM pg_catalog.pg_auth_members m
		JOIN pg_catalog.pg_roles g ON g.oid = m.roleid JOIN pg_catalog.pg_roles m_role ON m_role.oid = m.member
		WHERE m_role.rolname = $1 ORDER BY 1`, role.Name)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[membership])
}

// join makes a role a member of another.
func (d *declaration) join(ctx context.Context, conn *pgx.Conn, role agentapi.Role, group string, have []membership) error {
	if slices.ContainsFunc(have, func(m membership) bool { return m.Group == group && m.Inherits == role.Inherit }) {
		return nil
	}
	super, err := exists(ctx, conn, "SELECT 1 FROM pg_catalog.pg_roles WHERE rolname = $1 AND rolsuper", group)
	if err != nil {
		return err
	}
	if super || slices.Contains(powerful, group) || strings.HasPrefix(group, "howdah_") {
		return fmt.Errorf("%w: role %s has the power of a superuser, or is Howdah's own; remove it from inRoles", errRefused, group)
	}
	statement := "GRANT " + quote(group) + " TO " + quote(role.Name)
	if d.Major >= 16 { // where a membership keeps what the role was when it was made
		statement += fmt.Sprintf(" WITH INHERIT %t", role.Inherit)
	}
	_, err = conn.Exec(ctx, statement)
	return err
}
