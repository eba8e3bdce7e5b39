package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// identMap lets the agent, which is the operating system's user postgres, connect as RoleMonitor, and whoever has a certificate of one of Howdah's
// roles connect as this role. It is the whole subject that has to match: CAs of a person's own may sign any other, such as O=x, CN=howdah_backup.
const identMap = "howdah"

// ErrIdent is wrapped by every refusal of a line of pg_ident.conf.
var ErrIdent = errors.New("pg_ident line refused")

// RenderIdent writes pg_ident.conf with a person's own lines.
func RenderIdent(lines []string) (string, error) {
	file := identMap + " " + RoleSuperuser + " " + RoleMonitor + "\n"
	for _, role := range CertificateRoles() {
		file += fmt.Sprintf("%s CN=%s %s\n", identMap, role, role)
	}
	for _, line := range lines {
		if _, err := identMapOf(line); err != nil {
			return "", err
		}
		file += strings.TrimSpace(line) + "\n"
	}
	return file, nil
}

// identMapOf is the map that a person's line belongs to.
func identMapOf(line string) (string, error) {
	if strings.ContainsAny(line, "\x00\n\r") || strings.HasSuffix(strings.TrimSpace(line), `\`) {
		return "", fmt.Errorf("%w: %q continues on the next line: write one mapping a line", ErrIdent, line)
	}
	fields, err := hbaFields(line)
	if err != nil {
		return "", fmt.Errorf("%w: %q: %w", ErrIdent, line, err)
	}
	if len(fields) != 3 || strings.HasPrefix(fields[0], "include") {
		return "", fmt.Errorf("%w: %q: write MAP NAME ROLE, such as staff alice@example.com reporting", ErrIdent, line)
	}
	for _, field := range fields {
		if fromFile(field) {
			return "", fmt.Errorf("%w: %q: %s would be read from a file: write the content here", ErrIdent, line, field)
		}
	}
	name := strings.ReplaceAll(fields[0], `"`, "")
	if name == identMap {
		return "", fmt.Errorf("%w: %q: the map %s belongs to Howdah: choose another name", ErrIdent, line, identMap)
	}
	return name, nil
}

// checkMap says whether the map that a rule names is one of a person's own.
func checkMap(rule string, ident []string) error {
	fields, err := hbaFields(rule)
	if err != nil {
		return err
	}
	var maps []string
	for _, line := range ident {
		name, err := identMapOf(line)
		if err != nil {
			return err
		}
		maps = append(maps, name)
	}
	for _, field := range fields[min(len(fields), 5):] {
		name, named := strings.CutPrefix(strings.ReplaceAll(field, `"`, ""), "map=")
		if named && !slices.Contains(maps, name) {
			return fmt.Errorf("%w: %q: there is no map %s: add its lines to spec.postgresql.ident", ErrHBA, rule, name)
		}
	}
	return nil
}

// maxLDAPPassword is what fits the longest field of pg_hba.conf in PostgreSQL 15.
const maxLDAPPassword = 200

// ErrLDAPPassword says what is wrong with a password for rules of method ldap, and never the password.
var ErrLDAPPassword = fmt.Errorf("a password of pg_hba.conf must be one line of at most %d bytes", maxLDAPPassword)

// RenderLDAPPassword writes the file that rules with ldapbinddn take their password from; it has none if password is empty.
func RenderLDAPPassword(password string) (string, error) {
	switch {
	case password == "":
		return "", nil
	case len(password) > maxLDAPPassword, strings.ContainsAny(password, "\x00\n\r"):
		return "", ErrLDAPPassword
	}
	return `"ldapbindpasswd=` + strings.ReplaceAll(password, `"`, `""`) + "\"\n", nil
}

// ldapPassword is what a rule that searches with a name of its own has in addition: PostgreSQL reads its password from the file. So
// neither pg_hba.conf nor what the server's log quotes of it has the password.
func ldapPassword(rule, file string) string {
	fields, err := hbaFields(rule)
	if file == "" || err != nil || len(fields) < 5 || fields[4] != "ldap" {
		return ""
	}
	if !slices.ContainsFunc(fields[5:], func(field string) bool {
		return strings.HasPrefix(strings.TrimPrefix(field, `"`), "ldapbinddn=")
	}) {
		return ""
	}
	return " @" + file
}
