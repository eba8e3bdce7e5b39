//go:build postgres

package supervise

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestTheBackupRoleBracketsABackupAndReadsNoTable(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	p.run()
	p.sql("CREATE TABLE public.t AS SELECT 1 AS i")
	conn, err := p.connect("howdah_backup", "", "postgres", "howdah_backup")
	if err != nil {
		t.Fatal(err, p.log)
	}
	allowed(t, conn, "SELECT pg_backup_start('b', true)", "SELECT * FROM pg_backup_stop(false)", "SELECT pg_switch_wal()",
		"SELECT pg_create_restore_point('here')", "SELECT setting FROM pg_settings WHERE name = 'data_directory'", "SELECT * FROM pg_stat_archiver",
		"SELECT system_identifier FROM pg_control_system()")
	refused(t, conn, "SELECT * FROM public.t", "INSERT INTO public.t VALUES (2)", "CREATE TABLE public.mine (i int)", "CREATE ROLE x",
		"ALTER ROLE howdah_backup SUPERUSER", "SELECT pg_read_file('PG_VERSION')", "SELECT rolpassword FROM pg_authid", "SELECT pg_reload_conf()")
}

func TestTheUpgradeRoleReadsEverythingAndWritesNothing(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	p.run()
	p.sql("CREATE TABLE public.t AS SELECT 1 AS i")
	conn, err := p.connect("howdah_upgrade", "", "postgres", "howdah_upgrade")
	if err != nil {
		t.Fatal(err, p.log)
	}
	allowed(t, conn, "SELECT * FROM public.t", "LOCK TABLE public.t IN ACCESS SHARE MODE")
	refused(t, conn, "INSERT INTO public.t VALUES (2)", "DROP TABLE public.t", "SELECT pg_backup_start('b')")
}

func TestInternalRolesComeByTheirOwnCertificateOnly(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	p.run()
	for name, certificate := range map[string]string{"without one": "", "with another's": "howdah_upgrade"} {
		if _, err := p.connect("howdah_backup", "first", "postgres", certificate); err == nil {
			t.Errorf("howdah_backup came in %s", name)
		}
	}
	if _, err := p.connect("postgres", "first", "postgres", "postgres"); err == nil {
		t.Error("a certificate let the superuser in")
	}
}

func TestTheSuperuserHasAPasswordOnlyWhereAskedFor(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	p.write(p.SuperuserDir+"/password", "super")
	config := p.config
	config.SuperuserAccess = true
	p.configure(config)
	p.run()
	if _, err := p.connect("postgres", "super", "postgres", ""); err != nil {
		t.Error(err)
	}
	config.SuperuserAccess = false
	p.configure(config)
	p.await("take the access back", func() bool {
		conn, err := p.connect("postgres", "super", "postgres", "")
		if err == nil {
			conn.Close(t.Context())
		}
		return err != nil && p.sql("SELECT (rolpassword IS NULL)::text FROM pg_authid WHERE rolname = 'postgres'") == "true"
	})
}

func allowed(t *testing.T, conn *pgx.Conn, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		tx := statement
		if statement[:4] == "LOCK" {
			tx = "BEGIN; " + statement + "; ROLLBACK"
		}
		if _, err := conn.PgConn().Exec(t.Context(), tx).ReadAll(); err != nil {
			t.Errorf("%s: %v", statement, err)
		}
	}
}

func refused(t *testing.T, conn *pgx.Conn, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := conn.PgConn().Exec(t.Context(), statement).ReadAll(); err == nil {
			t.Errorf("it may: %s", statement)
		}
	}
}
