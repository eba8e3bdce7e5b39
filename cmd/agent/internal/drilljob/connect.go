package drilljob

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"howdah.dev/howdah/cmd/agent/internal/remote"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// Server is how assertions connect, but for the role and its password, which they get from the superuser.
func Server(host string) string {
	return fmt.Sprintf("host=%s port=%d sslmode=verify-full sslrootcert=%s/ca.crt",
		postgres.QuoteConnInfo(host), agentapi.PostgresPort, agentapi.ClientTLSDir)
}

// Superuser is how pg_amcheck connects, with the password in a file of the scratch folder.
func Superuser(task agentapi.DrillJob, scratch string) (string, error) {
	password, err := os.ReadFile(filepath.Join(agentapi.SecretsDir, task.SuperuserSecret, "password"))
	if err != nil {
		return "", fmt.Errorf("password of the superuser: %w", err)
	}
	return remote.Login{
		Host: task.Host, Port: strconv.Itoa(agentapi.PostgresPort), User: postgres.RoleSuperuser, Password: string(password),
		CA: filepath.Join(agentapi.ClientTLSDir, "ca.crt"),
	}.Connection(scratch, postgres.SessionSettings(task.MajorVersion))
}
