package postgres

import (
	"errors"
	"strings"
	"testing"
)

func TestARuleMayNameAMapOfPgIdentConfThatIsThere(t *testing.T) {
	ident := []string{`staff /^(.*)@example\.com$ \1`, ` "other map" alice reporting `}
	got, err := RenderIdent(ident)
	ours := "howdah postgres howdah_monitor\nhowdah CN=howdah_backup howdah_backup\nhowdah CN=howdah_upgrade howdah_upgrade\n" +
		"howdah CN=howdah_replication howdah_replication\nhowdah CN=howdah_pooler howdah_pooler\nhowdah CN=howdah_failoverdrill howdah_failoverdrill\n"
	if want := ours + ident[0] + "\n" + strings.TrimSpace(ident[1]) + "\n"; err != nil || got != want {
		t.Errorf("%s, %v", got, err)
	}
	for rule, named := range map[string]bool{
		"hostssl all all all cert map=staff": true, `hostssl all all all cert map="other map"`: true, "hostssl all all all cert": true,
		"hostssl all all all cert map=missing": false, "hostssl all all all cert map=howdah": false, `hostssl all all all cert "map=howdah"`: false,
	} {
		if _, err := RenderHBA(HBA{Rules: []string{rule}, Ident: ident}); (err == nil) != named || err != nil && !errors.Is(err, ErrHBA) {
			t.Errorf("%s: %v", rule, err)
		}
	}
	for _, line := range []string{"", "staff alice", "staff alice reporting more", "include x y", "include_dir x y", "howdah alice howdah_monitor",
		`"howdah" alice howdah_monitor`, "staff @file reporting", "staff alice reporting # x", "staff alice reporting\nhowdah alice howdah_monitor", "staff alice reporting \\",
	} {
		if _, err := RenderIdent([]string{line}); !errors.Is(err, ErrIdent) {
			t.Errorf("%q: %v", line, err)
		}
	}
}

func TestThePasswordForLdapIsInAFileOfItsOwn(t *testing.T) {
	got, err := RenderHBA(HBA{LDAPFile: "/run/ldap", Rules: []string{
		`hostssl all a all ldap ldapserver=x ldapbinddn="cn=a, dc=b"`, `hostssl all b all ldap ldapserver=x "ldapbinddn=cn=a, dc=b"`,
		"hostssl all c all ldap ldapserver=x ldapprefix=cn=", "hostssl all d all cert",
	}})
	if err != nil || strings.Count(got, " @/run/ldap\n") != 2 || strings.Count(got, `dc=b" @/run/ldap`) != 2 {
		t.Errorf("%s, %v", got, err)
	}
	for password, want := range map[string]string{"": "", `s"e #c, ret@`: `"ldapbindpasswd=s""e #c, ret@"` + "\n"} {
		if got, err := RenderLDAPPassword(password); err != nil || got != want {
			t.Errorf("%q, %v", got, err)
		}
	}
	for _, password := range []string{"a\nb", "a\x00", strings.Repeat("x", 201)} {
		if got, err := RenderLDAPPassword(password); !errors.Is(err, ErrLDAPPassword) || got != "" {
			t.Errorf("%q, %v", got, err)
		}
	}
}
