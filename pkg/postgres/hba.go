package postgres

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Roles that Howdah's own work connects as, each by a client certificate with the role as its
// common name, unless it says otherwise.
const (
	RoleSuperuser   = "postgres"
	RoleBackup      = "howdah_backup"
	RoleUpgrade     = "howdah_upgrade"
	RoleReplication = "howdah_replication"
	RolePooler      = "howdah_pooler"
	// RoleFailoverDrill exists while a failover drill writes rows, and owns a schema of its own name.
	RoleFailoverDrill = "howdah_failoverdrill"
	// RoleMonitor runs a person's own queries for metrics. It connects over the socket only, and has no certificate.
	RoleMonitor = "howdah_monitor"
)

// PoolerLookup is the function in database postgres that gives RolePooler the verifier of a role.
const PoolerLookup = RolePooler + ".lookup"

// certificateRoles may connect by certificate and in no other way, each to these databases. `all` is not `replication`.
var certificateRoles = []struct{ role, databases string }{
	{RoleBackup, "all"},
	{RoleUpgrade, "all"},
	{RoleReplication, "replication,postgres"}, // the second is for pg_rewind
	{RolePooler, "postgres"},                  // where it looks passwords up
	{RoleFailoverDrill, "postgres"},           // where its schema is, beside the data of nobody
}

// CertificateRoles are the roles that log in by a certificate with this common name, and nothing else, as its subject.
func CertificateRoles() (roles []string) {
	for _, c := range certificateRoles {
		roles = append(roles, c.role)
	}
	return roles
}

// HBA is what pg_hba.conf is made of.
type HBA struct {
	Rules           []string // a person's own, read before the last rule
	SuperuserAccess bool     // postgres may connect from outside the pod, with a password
	Closed          bool     // only Howdah's own roles may connect
	Ident           []string // a person's own lines of pg_ident.conf, whose maps the rules may name
	LDAPFile        string   // has the password with which rules with ldapbinddn search; empty: there is none
}

// ErrHBA is wrapped by every refusal of a rule.
var ErrHBA = errors.New("pg_hba rule refused")

// RenderHBA writes pg_hba.conf. The first rule that fits a connection decides; whatever a person's rules
// say, Howdah's roles connect by certificate only, and nobody over TCP without TLS.
func RenderHBA(h HBA) (string, error) {
	var file strings.Builder
	line := func(fields ...string) { fmt.Fprintln(&file, strings.Join(fields, " ")) }
	line("local", "all", RoleSuperuser, "peer")
	line("local", "all", RoleMonitor, "peer", "map="+identMap)
	roles := []string{RoleMonitor}
	for _, c := range certificateRoles {
		line("hostssl", c.databases, c.role, "all", "cert", "clientname=DN", "map="+identMap)
		roles = append(roles, c.role)
	}
	line("local", "all,replication", strings.Join(roles, ","), "reject")
	line("host", "all,replication", strings.Join(roles, ","), "all", "reject")
	line("hostnossl", "all,replication", "all", "all", "reject")
	if h.Closed {
		line("host", "all,replication", "all", "all", "reject")
	}
	if !h.SuperuserAccess {
		line("host", "all,replication", RoleSuperuser, "all", "reject")
	}
	for _, rule := range h.Rules {
		if err := CheckHBARule(rule); err != nil {
			return "", err
		}
		if err := checkMap(rule, h.Ident); err != nil {
			return "", err
		}
		line(strings.TrimSpace(rule) + ldapPassword(rule, h.LDAPFile))
	}
	line("hostssl", "all", "all", "all", "scram-sha-256")
	return file.String(), nil
}

// hbaMethods are the ways to log in that a rule may name, over TLS. gss needs a keytab, and radius a shared secret, which a server here has
// no way to get.
var hbaMethods = []string{"scram-sha-256", "cert", "reject", "ldap", "pam", "oauth", "md5", "password"}

// hbaRefused are options of methods that no rule may have, and why.
var hbaRefused = map[string]string{
	"ldapbindpasswd": "passwords must not be in rules, which a ConfigMap, the history of the spec and backups have as well: write it into a Secret, and name that in spec.postgresql.ldapPasswordSecret",
}

// CheckHBARule says in a sentence what is wrong with a person's rule.
func CheckHBARule(rule string) error {
	if strings.ContainsAny(rule, "\x00\n\r") || strings.HasSuffix(strings.TrimSpace(rule), `\`) {
		return fmt.Errorf("%w: %q continues on the next line: write one rule a line", ErrHBA, rule)
	}
	fields, err := hbaFields(rule)
	if err != nil {
		return fmt.Errorf("%w: %q: %w", ErrHBA, rule, err)
	}
	if len(fields) < 5 || fields[0] != "hostssl" {
		return fmt.Errorf("%w: %q: write hostssl DATABASE USER ADDRESS METHOD; connections are over TLS only", ErrHBA, rule)
	}
	for _, field := range fields[1:] {
		if fromFile(field) {
			return fmt.Errorf("%w: %q: %s would be read from a file: write the content here", ErrHBA, rule, field)
		}
	}
	method, err := hbaMethod(fields)
	if err != nil {
		return fmt.Errorf("%w: %q: %w", ErrHBA, rule, err)
	}
	if !slices.Contains(hbaMethods, method) {
		return fmt.Errorf("%w: %q: %s is not an allowed method: write one of %s", ErrHBA, rule, method, strings.Join(hbaMethods, ", "))
	}
	return nil
}

// fromFile says whether PostgreSQL would read this field, or a part of it, from another file.
func fromFile(field string) bool {
	return strings.HasPrefix(field, "@") || strings.Contains(field, ",@")
}

// hbaMethod finds the method after the address, which is two fields where a netmask stands apart.
func hbaMethod(fields []string) (string, error) {
	address := fields[3]
	if strings.Contains(address, "/") {
		if _, err := netip.ParsePrefix(address); err != nil {
			return "", fmt.Errorf("%s is not a network: write it like 10.0.0.0/8", address)
		}
	}
	if _, err := netip.ParseAddr(address); err == nil {
		return "", fmt.Errorf("%s is one address: write %s/32 or /128, or its network", address, address)
	}
	for _, option := range fields[5:] {
		if !strings.Contains(option, "=") {
			return "", fmt.Errorf("%s is not an option of a method: write NAME=VALUE", option)
		}
		if name, value, _ := strings.Cut(option, "="); strings.Contains(unquoted(option), ",") {
			return "", fmt.Errorf("%s has a comma, which ends a value: write %s=%q", option, name, strings.ReplaceAll(value, `"`, ""))
		}
	}
	for _, option := range fields[5:] {
		name, _, _ := strings.Cut(option, "=")
		if why, refused := hbaRefused[name]; refused {
			return "", errors.New(why)
		}
	}
	return fields[4], nil
}

// unquoted is what of a field is not within double quotes.
func unquoted(field string) string {
	var outside strings.Builder
	for i, part := range strings.Split(field, `"`) {
		if i%2 == 0 {
			outside.WriteString(part)
		}
	}
	return outside.String()
}

// hbaFields splits a rule at spaces that are not within double quotes.
func hbaFields(rule string) ([]string, error) {
	if strings.Contains(rule, "#") {
		return nil, errors.New("leave comments out")
	}
	quoted := false
	fields := strings.FieldsFunc(rule, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return !quoted && (r == ' ' || r == '\t')
	})
	if quoted {
		return nil, errors.New("a quote is not closed")
	}
	for _, field := range fields {
		if strings.HasPrefix(field, ",") || strings.HasSuffix(field, ",") {
			return nil, errors.New("write lists without spaces")
		}
	}
	return fields, nil
}
