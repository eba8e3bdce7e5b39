//go:build postgres

package pgbouncer

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/pkg/agentapi"
)

func TestAChangedConfigurationIsReadWithoutARestart(t *testing.T) {
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	b.lead(a, 1)
	b.run(nil)
	conn := b.connect()
	b.asked(conn)
	b.config.PoolSize = 3
	b.config.Parameters = map[string]string{"query_wait_timeout": "7"}
	b.write(b.pooler.ConfigFile)
	b.until("the pool has another size", func() bool {
		rows, err := b.pooler.bouncer.rows(t.Context(), "SHOW CONFIG")
		values := map[string]string{}
		for _, row := range rows {
			values[row["key"]] = row["value"]
		}
		return err == nil && values["default_pool_size"] == "3" && values["query_wait_timeout"] == "7" && values["server_login_retry"] == "0.1"
	})
	b.asked(conn)
}

func TestDatabasesAndUsersHaveLimitsOfTheirOwn(t *testing.T) {
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	a.SQL("CREATE DATABASE \"re-port.2\"")
	b.lead(a, 1)
	b.run(func(c *agentapi.PoolerConfig) {
		c.Databases = map[string]agentapi.PoolLimits{"shop": {PoolSize: 4, MaxConnections: 7}, "re-port.2": {PoolSize: 2, ReservePoolSize: 1, MaxClientConnections: 1}}
		c.Users = map[string]agentapi.PoolLimits{"app": {MaxConnections: 9, MaxClientConnections: 3}}
	})
	first := b.connect()
	b.asked(first) // who is named still logs in by the database
	if got := b.shown(t, "SHOW DATABASES", "shop", "pool_size", "max_connections"); got != "4 7" {
		t.Errorf("shop has %s", got)
	}
	report := strings.Replace(b.dsn("app", "secret"), "dbname=shop", "dbname=re-port.2", 1)
	b.asked(b.connectTo(report))
	if got := b.shown(t, "SHOW DATABASES", "re-port.2", "pool_size", "reserve_pool_size"); got != "2 1" {
		t.Errorf("re-port.2 has %s", got)
	}
	if got := b.shown(t, "SHOW USERS", "app", "max_user_connections", "max_user_client_connections"); got != "9 3" {
		t.Errorf("app has %s", got)
	}
	if _, err := pgx.Connect(t.Context(), report); err == nil || !strings.Contains(err.Error(), "max_db_client_connections") {
		t.Errorf("a second client of re-port.2: %v", err)
	}
	b.connect()
	if _, err := pgx.Connect(t.Context(), b.dsn("app", "secret")); err == nil || !strings.Contains(err.Error(), "max_user_client_connections") {
		t.Errorf("a fourth client of app: %v", err)
	}
}

// shown are columns of the row of a name in an answer of PgBouncer's console.
func (b *bed) shown(t *testing.T, command, name string, columns ...string) string {
	t.Helper()
	rows, err := b.pooler.bouncer.rows(t.Context(), command)
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	for _, row := range rows {
		for _, column := range columns {
			if row["name"] == name {
				values = append(values, row[column])
			}
		}
	}
	return strings.Join(values, " ")
}
