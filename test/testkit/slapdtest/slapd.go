// Package slapdtest runs a real LDAP directory for a test. It has alice, whose password is wonderland, and a reader who alone may search.
package slapdtest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"howdah.dev/howdah/test/testkit/pgtest"
)

// ReaderPassword is that of cn=reader,dc=example: one with what a rule of pg_hba.conf can't have.
const ReaderPassword = `rea"der, geheim`

// Everybody may try their own password.
const (
	configuration = `include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile %[1]s/pid
database mdb
suffix dc=example
directory %[1]s/data
%[2]s
access to attrs=userPassword by anonymous auth
access to * by dn.exact=cn=reader,dc=example read by * auth
`
	entries = `dn: dc=example
objectClass: domain
dc: example

dn: cn=reader,dc=example
objectClass: organizationalRole
objectClass: simpleSecurityObject
cn: reader
userPassword: ` + ReaderPassword + `

dn: uid=alice,dc=example
objectClass: inetOrgPerson
uid: alice
cn: Alice
sn: Example
userPassword: wonderland
`
)

// TLS are the settings by which the directory shows the certificate in a folder, with tls.crt, tls.key and ca.crt.
func TLS(folder string) string {
	return fmt.Sprintf("tlscertificatefile %[1]s/tls.crt\ntlscertificatekeyfile %[1]s/tls.key\ntlscacertificatefile %[1]s/ca.crt", folder)
}

// Start a directory with more settings for addresses of this scheme (ldap or ldaps), which listens on a port of the host. A wrapper is a
// command that runs the server.
func Start(t testing.TB, scheme, host, more string, wrapper ...string) (port int) {
	t.Helper()
	slapd, err := exec.LookPath("/usr/sbin/slapd")
	if err != nil {
		t.Fatalf("test/debian-packages slapd installs what this test needs: %v", err)
	}
	dir := t.TempDir()
	conf := filepath.Join(dir, "slapd.conf")
	if err := os.Mkdir(filepath.Join(dir, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(conf, fmt.Appendf(nil, configuration, dir, more), 0o600); err != nil {
		t.Fatal(err)
	}
	load := exec.CommandContext(t.Context(), slapd, "-Tadd", "-f", conf)
	load.Stdin = strings.NewReader(entries)
	if out, err := load.CombinedOutput(); err != nil {
		t.Fatalf("load the directory: %v: %s", err, out)
	}
	port = pgtest.Port(t)
	address := net.JoinHostPort(host, strconv.Itoa(port))
	command := append(slices.Clone(wrapper), slapd, "-d", "0", "-f", conf, "-h", scheme+"://"+address)
	server := exec.Command(command[0], command[1:]...)
	server.Stderr = os.Stderr
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	err = wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		}
		return err == nil, nil
	})
	if err != nil {
		t.Fatalf("reach the directory: %v", err)
	}
	return port
}
