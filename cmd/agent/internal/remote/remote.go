// Package remote is how a Job logs in to a cluster over the network, with a password that it knows from a Secret. The password is in a
// file that only the Job can read, and in no argument, log or environment.
package remote

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"howdah.dev/howdah/pkg/postgres"
)

// Login is a role of a server.
type Login struct {
	Host, Port, User, Password string
	// CA is the file with the certificate of the authority that the server must be of.
	CA string
}

// Connection writes the password into a folder of its own, and returns the connection string for libpq and pgx, without a database. Options
// go before what is set for the role or the database.
func (l Login) Connection(dir string, settings map[string]string) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	file := filepath.Join(dir, "pgpass")
	line := "*:*:*:*:" + strings.NewReplacer(`\`, `\\`, ":", `\:`).Replace(l.Password) + "\n"
	if err := os.WriteFile(file, []byte(line), 0o600); err != nil {
		return "", err
	}
	return fmt.Sprintf("host=%s port=%s user=%s sslmode=verify-full sslrootcert=%s passfile=%s options=%s", postgres.QuoteConnInfo(l.Host), postgres.QuoteConnInfo(l.Port),
		postgres.QuoteConnInfo(l.User), postgres.QuoteConnInfo(l.CA), postgres.QuoteConnInfo(file), postgres.QuoteConnInfo(postgres.SessionOptions(settings))), nil
}
