package postgres

import (
	"errors"
	"strings"
	"testing"
)

func TestTheRulesAreInTheOrderThatKeepsHowdahsRolesToCertificates(t *testing.T) {
	got, err := RenderHBA(HBA{Rules: []string{" hostssl shop app 10.0.0.0/8 cert "}})
	want := `local all postgres peer
local all howdah_monitor peer map=howdah
hostssl all howdah_backup all cert clientname=DN map=howdah
hostssl all howdah_upgrade all cert clientname=DN map=howdah
hostssl replication,postgres howdah_replication all cert clientname=DN map=howdah
hostssl postgres howdah_pooler all cert clientname=DN map=howdah
hostssl postgres howdah_failoverdrill all cert clientname=DN map=howdah
local all,replication howdah_monitor,howdah_backup,howdah_upgrade,howdah_replication,howdah_pooler,howdah_failoverdrill reject
host all,replication howdah_monitor,howdah_backup,howdah_upgrade,howdah_replication,howdah_pooler,howdah_failoverdrill all reject
hostnossl all,replication all all reject
host all,replication postgres all reject
hostssl shop app 10.0.0.0/8 cert
hostssl all all all scram-sha-256
`
	if err != nil || got != want {
		t.Errorf("%s, %v", got, err)
	}
	got, err = RenderHBA(HBA{SuperuserAccess: true})
	if err != nil || strings.Contains(got, "postgres all reject") {
		t.Errorf("with superuser access: %s, %v", got, err)
	}
	got, err = RenderHBA(HBA{Rules: []string{"hostssl shop app 10.0.0.0/8 cert"}, SuperuserAccess: true, Closed: true})
	roles, clients, closed := strings.Cut(got, "host all,replication all all reject\n")
	if err != nil || !closed || !strings.Contains(roles, "howdah_replication all cert") || strings.Contains(roles, "app") || !strings.Contains(clients, "app") {
		t.Errorf("closed: %s, %v", got, err)
	}
}

func TestAPersonsRuleOverTLSIsAccepted(t *testing.T) {
	for _, rule := range []string{
		"hostssl all all all scram-sha-256",
		"hostssl shop,other +readers fd00::/8 cert clientcert=verify-full",
		`hostssl "my db" app samenet ldap ldapserver=x ldapbinddn="cn=a@b, dc=c"`,
		`hostssl all app all ldap ldapserver=x ldapbasedn="ou=people,dc=example" ldapsearchattribute=uid`,
		"hostssl all app .example.com reject",
	} {
		if err := CheckHBARule(rule); err != nil {
			t.Error(err)
		}
	}
}

func TestARuleThatOpensMoreThanItSaysIsRefused(t *testing.T) {
	for _, rule := range []string{
		"", "all", "host all all all scram-sha-256", "hostnossl all all all md5", "local all all trust", "include x",
		"hostssl all all all trust", "hostssl all all all", "hostssl a, b c cert trust", "hostssl a b 10.0.0.1 cert trust",
		"hostssl a b 10.0.0.0/8 255.0.0.0 cert", "hostssl a b 10.0.0.0/99 cert", "hostssl @file all all cert", "hostssl a x,@f all cert",
		"hostssl a b all cert\nlocal all all trust", "hostssl a b all cert \\", `hostssl "a b all cert`, "hostssl a b all cert # x",
		"hostssl a b all cert trust", "hostssl a b all gss", "hostssl a b all radius radiusservers=x radiussecrets=s",
		"hostssl a b all ldap ldapserver=x ldapbinddn=y ldapbindpasswd=s", "hostssl a b all ldap @/run/x=y", "hostssl a b all ldap ldaptls=1,@/run/x",
		"hostssl a b all ldap ldapserver=x ldapbasedn=ou=people,dc=example", `hostssl a b all ldap ldapserver=x ldapbasedn="ou=people",dc=example`,
	} {
		if err := CheckHBARule(rule); !errors.Is(err, ErrHBA) {
			t.Errorf("%q: %v", rule, err)
		}
		if got, err := RenderHBA(HBA{Rules: []string{rule}}); err == nil || got != "" {
			t.Errorf("%q is rendered", rule)
		}
	}
}

func FuzzCheckHBARule(f *testing.F) {
	f.Add(`hostssl "my db" app samenet ldap ldapserver=x`)
	f.Fuzz(func(t *testing.T, rule string) {
		if CheckHBARule(rule) == nil && (strings.ContainsAny(rule, "\n\r\x00") || !strings.HasPrefix(strings.TrimSpace(rule), "hostssl")) {
			t.Errorf("%q", rule)
		}
	})
}
