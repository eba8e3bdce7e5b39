// Package roles makes the roles and the database that every cluster has, and keeps their rights and passwords.
package roles

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/pkg/postgres"
)

// Wanted is what there should be.
type Wanted struct {
	Major int
	// Database of the application, and Owner, its role.
	Database, Owner string
	// Password of Owner; empty leaves the one that it has.
	Password string
	// SuperuserPassword; empty takes away any that postgres has.
	SuperuserPassword string
	// FailoverDrill: one writes rows.
	FailoverDrill bool
}

// Ensure makes what is missing and corrects what differs. It may be repeated.
func Ensure(ctx context.Context, server local.Server, wanted Wanted) error {
	err := server.With(ctx, "postgres", func(conn *pgx.Conn) error {
		for _, step := range []func(context.Context, *pgx.Conn, Wanted) error{
			ensureInternal, ensureMonitor, ensureReplication, ensureOwner, ensureSuperuserPassword, ensureDatabase, ensurePooler, ensureFailoverDrill,
		} {
			if err := step(ctx, conn, wanted); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("roles and database: %w", local.Plain(err))
	}
	return nil
}

// plain are the attributes of a role that may log in and nothing else.
const plain = "LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS INHERIT"

// backupFunctions are what a backup calls. Their names and arguments changed in 15.
func backupFunctions(major int) []string {
	common := []string{"pg_switch_wal()", "pg_create_restore_point(text)"}
	if major >= 15 {
		return append(common, "pg_backup_start(text, boolean)", "pg_backup_stop(boolean)")
	}
	return append(common, "pg_start_backup(text, boolean, boolean)", "pg_stop_backup(boolean, boolean)")
}

// replicating are the attributes of the role of replicas.
const replicating = "LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE REPLICATION NOBYPASSRLS INHERIT"

// rewindFunctions are what pg_rewind reads its source with. They read the data directory only.
var rewindFunctions = []string{
	"pg_ls_dir(text, boolean, boolean)", "pg_stat_file(text, boolean)",
	"pg_read_binary_file(text)", "pg_read_binary_file(text, bigint, bigint, boolean)",
}

// cloneFunctions bracket a clone that takes from the replica's own files what is the same in the source's. Before 15 there is none.
func cloneFunctions(major int) []string {
	if major < 15 {
		return nil
	}
	return []string{"pg_backup_start(text, boolean)", "pg_backup_stop(boolean)"}
}

// ensureReplication makes the role that replicas stream, clone and rewind with. It may read the whole data directory.
func ensureReplication(ctx context.Context, conn *pgx.Conn, wanted Wanted) error {
	const role = postgres.RoleReplication
	if err := ensureRole(ctx, conn, role); err != nil {
		return err
	}
	statements := []string{
		"ALTER ROLE " + role + " " + replicating + " PASSWORD NULL CONNECTION LIMIT -1",
		"GRANT pg_read_all_stats TO " + role, // the size of what is to be cloned
	}
	if wanted.Major >= 15 {
		statements = append(statements, "GRANT pg_checkpoint TO "+role) // before which a new primary is no source of a rewind
	}
	for _, function := range append(cloneFunctions(wanted.Major), rewindFunctions...) {
		statements = append(statements, "GRANT EXECUTE ON FUNCTION pg_catalog."+function+" TO "+role)
	}
	return execAll(ctx, conn, statements)
}

// ensureInternal makes the roles of Howdah's own Jobs. They have no password: they come with a certificate.
func ensureInternal(ctx context.Context, conn *pgx.Conn, wanted Wanted) error {
	for role, member := range map[string][]string{
		postgres.RoleBackup:  {"pg_monitor"}, // reads all settings too
		postgres.RoleUpgrade: {"pg_monitor", "pg_read_all_data"},
	} {
		if err := ensureRole(ctx, conn, role); err != nil {
			return err
		}
		statements := []string{"ALTER ROLE " + role + " " + plain + " PASSWORD NULL CONNECTION LIMIT -1"}
		if wanted.Major >= 16 {
			member = append(member, "pg_use_reserved_connections") // a full server can still be backed up and upgraded
		}
		for _, group := range member {
			statements = append(statements, "GRANT "+group+" TO "+role)
		}
		if err := execAll(ctx, conn, statements); err != nil {
			return err
		}
	}
	var grants []string
	for _, function := range backupFunctions(wanted.Major) {
		grants = append(grants, "GRANT EXECUTE ON FUNCTION pg_catalog."+function+" TO "+postgres.RoleBackup)
	}
	return execAll(ctx, conn, grants)
}

// ensureMonitor makes the role that runs a person's own queries for metrics: it sees statistics and settings, and what a person grants
// to it or to pg_monitor. It keeps few sessions, and not those that are reserved.
func ensureMonitor(ctx context.Context, conn *pgx.Conn, _ Wanted) error {
	if err := ensureRole(ctx, conn, postgres.RoleMonitor); err != nil {
		return err
	}
	return execAll(ctx, conn, []string{
		"ALTER ROLE " + postgres.RoleMonitor + " " + plain + " PASSWORD NULL CONNECTION LIMIT 4",
		"GRANT pg_monitor TO " + postgres.RoleMonitor,
	})
}

func execAll(ctx context.Context, conn *pgx.Conn, statements []string) error {
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// ensureRole makes a role that may log in, unless there is one of that name.
func ensureRole(ctx context.Context, conn *pgx.Conn, name string) error {
	found, err := exists(ctx, conn, "SELECT 1 FROM pg_catalog.pg_roles WHERE rolname = $1", name)
	if err != nil || found {
		return err
	}
	_, err = conn.Exec(ctx, "CREATE ROLE "+quote(name)+" "+plain)
	return err
}

func exists(ctx context.Context, conn *pgx.Conn, query, name string) (bool, error) {
	var one int
	err := conn.QueryRow(ctx, query, name).Scan(&one)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

// ensureOwner makes the application's role. Rights that a person gave it beyond that stay.
func ensureOwner(ctx context.Context, conn *pgx.Conn, wanted Wanted) error {
	if wanted.Owner == "" {
		return nil
	}
	if err := ensureRole(ctx, conn, wanted.Owner); err != nil {
		return err
	}
	if wanted.Password == "" {
		return nil
	}
	return ensurePassword(ctx, conn, wanted.Owner, wanted.Password)
}

// ensurePassword lets a role log in with a password.
func ensurePassword(ctx context.Context, conn *pgx.Conn, role, password string) error {
	return keepPassword(ctx, conn, role, password, "LOGIN ")
}

// keepPassword gives a role a password, and an attribute with it, unless it has that one. The server gets the verifier
// only: a password would be in its memory, and in its log if the statement failed.
func keepPassword(ctx context.Context, conn *pgx.Conn, role, password, attribute string) error {
	var stored, count *string // the second is a setting from 16 on
	if err := conn.QueryRow(ctx, "SELECT rolpassword, pg_catalog.current_setting('scram_iterations', true) FROM pg_catalog.pg_authid WHERE rolname = $1",
		role).Scan(&stored, &count); err != nil {
		return err
	}
	if stored != nil && verifies(*stored, password) {
		return nil
	}
	salt := make([]byte, saltSize)
	if _, err := rand.Read(salt); err != nil {
		return err
	}
	verifier, err := makeVerifier(password, salt, iterationsOf(count))
	if err != nil {
		return err
	}
	// A verifier has no quote in it: base64, digits, $ and colons.
	_, err = conn.Exec(ctx, "ALTER ROLE "+quote(role)+" "+attribute+"PASSWORD '"+verifier+"'")
	return err
}

func ensureSuperuserPassword(ctx context.Context, conn *pgx.Conn, wanted Wanted) error {
	if wanted.SuperuserPassword != "" {
		return ensurePassword(ctx, conn, postgres.RoleSuperuser, wanted.SuperuserPassword)
	}
	has, err := exists(ctx, conn, "SELECT 1 FROM pg_catalog.pg_authid WHERE rolname = $1 AND rolpassword IS NOT NULL", postgres.RoleSuperuser)
	if err != nil || !has {
		return err
	}
	_, err = conn.Exec(ctx, "ALTER ROLE "+postgres.RoleSuperuser+" PASSWORD NULL")
	return err
}

func ensureDatabase(ctx context.Context, conn *pgx.Conn, wanted Wanted) error {
	if wanted.Database == "" || wanted.Owner == "" {
		return nil
	}
	found, err := exists(ctx, conn, "SELECT 1 FROM pg_catalog.pg_database WHERE datname = $1", wanted.Database)
	if err != nil || found {
		return err
	}
	_, err = conn.Exec(ctx, "CREATE DATABASE "+quote(wanted.Database)+" OWNER "+quote(wanted.Owner))
	return err
}
