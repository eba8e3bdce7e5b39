package drilljob

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// Server is how assertions connect, but for the role and its password, which they get from the superuser.
func Server(host string) string {
	return fmt.Sprintf("host=%s port=%d sslmode=verify-full sslrootcert=%s/ca.crt",
		postgres.QuoteConnInfo(host), agentapi.PostgresPort, agentapi.ClientTLSDir)
}

func superuserOptions(major int) string {
	return "options=" + postgres.QuoteConnInfo(postgres.SessionOptions(postgres.SessionSettings(major)))
}

// Superuser is how pg_amcheck connects, with the password in a file of the scratch folder.
func Superuser(task agentapi.DrillJob, scratch string) (string, error) {
	password, err := os.ReadFile(filepath.Join(agentapi.SecretsDir, task.SuperuserSecret, "password"))
	if err != nil {
		return "", fmt.Errorf("password of the superuser: %w", err)
	}
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		return "", err
	}
	file := filepath.Join(scratch, "pgpass")
	line := "*:*:*:" + postgres.RoleSuperuser + ":" + strings.NewReplacer(`\`, `\\`, ":", `\:`).Replace(string(password)) + "\n"
	if err := os.WriteFile(file, []byte(line), 0o600); err != nil {
		return "", err
	}
	return fmt.Sprintf("host=%s port=%d user=%s sslmode=verify-full sslrootcert=%s/ca.crt passfile=%s %s",
		postgres.QuoteConnInfo(task.Host), agentapi.PostgresPort, postgres.RoleSuperuser, agentapi.ClientTLSDir, postgres.QuoteConnInfo(file),
		superuserOptions(task.MajorVersion)), nil
}
