package secret

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"maps"
	"net/url"
	"path"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component"
	"howdah.dev/howdah/pkg/agentapi"
)

// Keys of a Secret with which somebody logs in.
const (
	KeyUsername = "username"
	KeyPassword = "password"
	KeyHost     = "host"
	KeyPort     = "port"
	KeyDatabase = "dbname"
	KeyURI      = "uri"
	KeyJDBC     = "jdbc-uri"
	KeyPgpass   = "pgpass"
	// URIs for clients that mount the Secret at bindingsDir.
	KeyVerifyURI  = "uri-verify-full"
	KeyVerifyJDBC = "jdbc-uri-verify-full"
	// What the Service Binding specification has in addition.
	KeyType     = "type"
	KeyProvider = "provider"
)

// Database and role of an application whose cluster names none.
const defaultName = "app"

// Application is the database and the role that owns it: of a new database, or of the one that a Restore, an import, a volume or a clone brings.
func Application(cluster *v1alpha1.PostgresCluster) (database, owner string) {
	bootstrap := cluster.Spec.Bootstrap
	switch {
	case cluster.Spec.Standby != nil:
		database, owner = cluster.Spec.Standby.Database, cluster.Spec.Standby.Owner
	case bootstrap == nil:
	case bootstrap.Initdb != nil:
		database, owner = bootstrap.Initdb.Database, bootstrap.Initdb.Owner
	case bootstrap.Restore != nil:
		database, owner = bootstrap.Restore.Database, bootstrap.Restore.Owner
	case bootstrap.Import != nil:
		database, owner = bootstrap.Import.Database, bootstrap.Import.Owner
	case bootstrap.Volumes != nil:
		database, owner = bootstrap.Volumes.Database, bootstrap.Volumes.Owner
	case bootstrap.Clone != nil:
		database, owner = bootstrap.Clone.Database, bootstrap.Clone.Owner
	}
	return cmp.Or(database, defaultName), cmp.Or(owner, defaultName)
}

// App is the Secret of the application. A password that is there is kept.
func App(cluster *v1alpha1.PostgresCluster, live *corev1.Secret, bundle []byte) *corev1.Secret {
	database, owner := Application(cluster)
	return login(cluster, component.NamesOf(cluster).App(), owner, database, live, bundle)
}

// Superuser is the Secret of the role postgres.
func Superuser(cluster *v1alpha1.PostgresCluster, live *corev1.Secret, bundle []byte) *corev1.Secret {
	return login(cluster, component.NamesOf(cluster).Superuser(), "postgres", "postgres", live, bundle)
}

func login(cluster *v1alpha1.PostgresCluster, name, user, database string, live *corev1.Secret, bundle []byte) *corev1.Secret {
	password := NewPassword()
	if live != nil && len(live.Data[KeyPassword]) > 0 {
		password = string(live.Data[KeyPassword])
	}
	host, port := component.Host(cluster, component.NamesOf(cluster).Primary()), strconv.Itoa(agentapi.PostgresPort)
	data := map[string]string{
		KeyUsername: user, KeyPassword: password, KeyHost: host, KeyPort: port, KeyDatabase: database,
		KeyURI:       uri(user, password, host, port, database, encrypt),
		KeyJDBC:      jdbc(user, password, host, port, database, encrypt),
		KeyPgpass:    pgpass(host, port, database, user, password),
		KeyAuthority: string(bundle),
		KeyType:      "postgresql", KeyProvider: "howdah",
		KeyVerifyURI:  uri(user, password, host, port, database, verify(name)),
		KeyVerifyJDBC: jdbc(user, password, host, port, database, verify(name)),
	}
	secret := &corev1.Secret{ObjectMeta: component.Meta(cluster, name, component.Access), Data: map[string][]byte{}}
	for key, value := range data {
		secret.Data[key] = []byte(value)
	}
	return secret
}

// NewPassword has at least 128 bits of randomness, in letters and digits that need no quoting anywhere.
func NewPassword() string { return rand.Text() }

// bindingsDir is where the Service Binding specification has Secrets mounted, a folder each.
const bindingsDir = "/bindings"

// encrypt works wherever a URI is pasted, and doesn't check who answers: that takes ca.crt as a file, and a client that doesn't find it
// refuses to connect. channel_binding=require would do without one, but is an error in many drivers.
var encrypt = url.Values{"sslmode": {"require"}}

// verify checks the server's name by the ca.crt of the mounted Secret.
func verify(secret string) url.Values {
	return url.Values{"sslmode": {"verify-full"}, "sslrootcert": {path.Join(bindingsDir, secret, KeyAuthority)}}
}

func uri(user, password, host, port, database string, tls url.Values) string {
	u := url.URL{
		Scheme: "postgresql", User: url.UserPassword(user, password), Host: host + ":" + port, Path: "/" + database,
		RawQuery: tls.Encode(),
	}
	return u.String()
}

func jdbc(user, password, host, port, database string, tls url.Values) string {
	query := url.Values{"user": {user}, "password": {password}}
	maps.Copy(query, tls)
	return fmt.Sprintf("jdbc:postgresql://%s:%s/%s?%s", host, port, url.PathEscape(database), query.Encode())
}

// pgpass is one line of a .pgpass file.
func pgpass(fields ...string) string {
	escape := strings.NewReplacer(`\`, `\\`, `:`, `\:`)
	for i := range fields {
		fields[i] = escape.Replace(fields[i])
	}
	return strings.Join(fields, ":") + "\n"
}
