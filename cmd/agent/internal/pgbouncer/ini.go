package pgbouncer

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// console is the user of PgBouncer's console. Its password is of this process alone.
const console = "howdah_console"

// unless ends a connection before a client gets it where this holds of the server. PgBouncer ignores an error of the query of a new connection, so the
// query has to end the session.
func unless(holds string) string {
	return "SELECT pg_catalog.pg_terminate_backend(pg_catalog.pg_backend_pid()) WHERE " + holds
}

// ofAnother holds of a server of another cluster, which may have got the address of one of ours. Its certificate may be of the same CA, if a person has
// issued them, and its roles may have the same passwords, if it was restored from a backup.
func ofAnother(config agentapi.PoolerConfig) string {
	return "pg_catalog.current_setting($$cluster_name$$) OPERATOR(pg_catalog.<>) $$" + config.Cluster + "$$"
}

// notReplica is for who writes.
func notReplica(config agentapi.PoolerConfig) string {
	return unless("pg_catalog.pg_is_in_recovery() OR " + ofAnother(config))
}

// readOnly is for readers. It ends no connection to a replica that was promoted since it was named: what is read there is newer than at any
// replica, and PgBouncer answers clients with an error if the last login has failed and a change of servers has left no connection.
func readOnly(config agentapi.PoolerConfig) string {
	return "SET default_transaction_read_only = on; " + unless(ofAnother(config))
}

// place is a server.
type place struct {
	Pod, Address string
	Port         int
}

// Defaults that a person may change. The first lets drivers set what they always set, the second tries a server again that has just become
// the primary; the last ones end connections to a node that is gone, where they are idle and where something was sent over them.
func defaults() map[string]string {
	return map[string]string{
		"ignore_startup_parameters": "extra_float_digits", "server_connect_timeout": "3",
		"log_connections": "0", "log_disconnections": "0", "server_lifetime": "3600",
		"tcp_keepidle": "5", "tcp_keepintvl": "2", "tcp_keepcnt": "3", "tcp_user_timeout": "10000",
	}
}

// route says where PgBouncer sends clients: to one of these servers in turn.
func route(config agentapi.PoolerConfig, servers []place) string {
	query := notReplica(config)
	if config.ReadOnly {
		query = readOnly(config)
	}
	var hosts []string
	for _, server := range servers {
		hosts = append(hosts, server.Address)
	}
	return fmt.Sprintf("host=%s port=%d load_balance_hosts=round-robin connect_query='%s'", strings.Join(hosts, ","), servers[0].Port, query)
}

// noTimeout is for whoever looks passwords up: PgBouncer takes the age of such a transaction for the time since 1970, and would end it, and the
// client's login, at once where spec.pgbouncer.parameters has a transaction_timeout.
const noTimeout = math.MaxInt32

// render is pgbouncer.ini with these as the servers of every database.
func render(config agentapi.PoolerConfig, paths Paths, servers []place) string {
	all := defaults()
	maps.Copy(all, config.Parameters)
	maps.Copy(all, map[string]string{
		"listen_addr": "*", "listen_port": strconv.Itoa(paths.Port), "unix_socket_dir": paths.RunDir,
		"pool_mode": config.Mode, "default_pool_size": strconv.Itoa(int(config.PoolSize)), "max_client_conn": strconv.Itoa(int(config.MaxClientConnections)),
		"auth_type": "scram-sha-256", "auth_file": filepath.Join(paths.RunDir, userFile), "auth_user": postgres.RolePooler, "auth_dbname": lookupDatabase,
		"auth_query":         lookupQuery,
		"admin_users":        console,
		"server_tls_sslmode": "verify-ca",
		"server_login_retry": "0.1",
	})
	maps.Copy(all, clientTLS(config.ClientTLS, paths))
	for side, tls := range map[string]string{"client": "client_tls_", "server": "server_tls_"} {
		all[tls+"cert_file"], all[tls+"key_file"] = filepath.Join(paths.TLSDir, settings.CertFile), filepath.Join(paths.TLSDir, settings.KeyFile)
		if side == "server" {
			all[tls+"ca_file"] = serverCA(paths)
		}
	}
	var file strings.Builder
	file.WriteString("[databases]\n")
	to := route(config, servers)
	for _, name := range slices.Sorted(maps.Keys(config.Databases)) {
		fmt.Fprintf(&file, "%s = %s%s\n", name, to, limits(config.Databases[name], "max_db_connections", "max_db_client_connections"))
	}
	fmt.Fprintf(&file, "%s = host=%s port=%d pool_size=%d\n", lookupDatabase, paths.RunDir, lookupPort, lookupPool)
	fmt.Fprintf(&file, "* = %s\n\n[users]\n%s = transaction_timeout=%d\n", to, postgres.RolePooler, noTimeout)
	for _, name := range slices.Sorted(maps.Keys(config.Users)) {
		fmt.Fprintf(&file, "%s =%s\n", name, limits(config.Users[name], "max_user_connections", "max_user_client_connections"))
	}
	file.WriteString("\n[pgbouncer]\n")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&file, "%s = %s\n", name, all[name])
	}
	return file.String()
}

// serverCA is what PgBouncer trusts in servers. The Secret of an earlier suite has one bundle for all.
func serverCA(paths Paths) string {
	file := filepath.Join(paths.TLSDir, serverCAFile)
	if _, err := os.Stat(file); err != nil {
		return filepath.Join(paths.TLSDir, settings.CAFile)
	}
	return file
}

// serverCAFile has the CAs of servers, as in the Secret.
const serverCAFile = "server-ca.crt"

// clientTLS is how clients connect. Without a list for a version of TLS, its ciphers are those of OpenSSL.
func clientTLS(tls agentapi.PoolerTLS, paths Paths) map[string]string {
	all := map[string]string{"client_tls_sslmode": "require"}
	switch tls.MinVersion {
	case "TLSv1.2":
		all["client_tls_protocols"] = "tlsv1.2,tlsv1.3"
	case "TLSv1.3":
		all["client_tls_protocols"] = "tlsv1.3"
	}
	of := map[string][]string{}
	for _, cipher := range tls.Ciphers {
		name := "client_tls_ciphers"
		if strings.HasPrefix(cipher, "TLS_") {
			name = "client_tls13_ciphers"
		}
		of[name] = append(of[name], cipher)
	}
	for name, ciphers := range of {
		all[name] = strings.Join(ciphers, ":")
	}
	if tls.Require {
		all["client_tls_sslmode"] = "verify-ca"
	}
	if tls.Verify {
		all["client_tls_ca_file"] = filepath.Join(paths.TLSDir, settings.CAFile)
	}
	if tls.Verify && tls.CA != "" {
		all["client_tls_ca_file"] = filepath.Join(paths.RunDir, clientCAFile)
	}
	return all
}

// limits of a database or user, after what else is said of it. What a person asks for all is PgBouncer's default for each.
func limits(of agentapi.PoolLimits, connections, clients string) string {
	text := ""
	for _, limit := range []struct {
		name  string
		value int32
	}{
		{"pool_size", of.PoolSize}, {"reserve_pool_size", of.ReservePoolSize}, {connections, of.MaxConnections}, {clients, of.MaxClientConnections},
	} {
		if limit.value > 0 {
			text += fmt.Sprintf(" %s=%d", limit.name, limit.value)
		}
	}
	return text
}
