//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/authority"
	"howdah.dev/howdah/test/testkit/place"
)

// issue what cert-manager writes into a Secret for the cluster shop.
func (b *bed) issue(company *authority.Authority) map[string][]byte {
	b.Helper()
	domain, dir, data := "."+b.Namespace+".svc", b.TempDir(), map[string][]byte{}
	company.Fill(b, dir, "shop", "db.example.com", "shop-rw"+domain, "shop-ro"+domain, "shop-r"+domain, "shop-reports"+domain, "*.shop-pods"+domain)
	for _, name := range []string{"tls.crt", "tls.key", "ca.crt"} {
		content, err := os.ReadFile(filepath.Join(dir, name))
		b.Must(err)
		data[name] = content
	}
	return data
}

// TestACertificateOfOnesOwnIsRenewedWhileRowsAreWritten: clients that trust only its CA connect, replicas follow, and no row is lost in a
// switchover after it.
func TestACertificateOfOnesOwnIsRenewedWhileRowsAreWritten(t *testing.T) {
	onlyInFull(t, "the controller and the agent have tests of their own for it")
	t.Parallel()
	b := newBed(t, "minio")
	company := authority.New(t)
	secret := &corev1.Secret{ObjectMeta: b.Meta("company"), Type: corev1.SecretTypeTLS, Data: b.issue(company)}
	b.Must(b.Create(t.Context(), secret))
	cluster := b.NewCluster("shop", 17)
	cluster.Spec.Instances = 2
	cluster.Spec.TLS.ServerSecret = &v1alpha1.ServerSecret{Name: secret.Name}
	b.Must(b.Create(t.Context(), cluster))
	b.awaitInstances(cluster, 2)
	b.AwaitTrue(cluster, v1alpha1.ConditionCertificatesReady)
	b.ClientPod("client", "shop", "registry.local/postgresql:17", "sleep", "infinity")
	if out, err := b.Exec("client", "sh", "-c", `printf %s "$0" > /tmp/company.crt`, string(secret.Data["ca.crt"])); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	check := func() {
		t.Helper()
		out, err := b.Exec("client", "env", "PGSSLROOTCERT=/tmp/company.crt", "psql", "-XAtc", "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
		if err != nil || out != "t" {
			t.Errorf("a client that trusts only the company's CA: %v: %s", err, out)
		}
	}
	check()
	w := b.startWriter("shop")
	before := place.Condition(cluster, v1alpha1.ConditionCertificatesReady).Message
	renewed := b.issue(company)
	secret.Data = renewed
	b.Must(b.Update(t.Context(), secret))
	b.Await(cluster, "the renewed certificate to be shown", func() bool {
		c := place.Condition(cluster, v1alpha1.ConditionCertificatesReady)
		return c.Reason == v1alpha1.ReasonCurrent && c.Message != before && strings.Contains(c.Message, "Secret company")
	})
	check()
	b.switchOver(cluster, "once")
	check()
	w.judge()
}

// TestACompanysCAIssuesTheCertificatesOfClients: a role logs in with one through the Service, the replica accepts it, too, and none is a role of Howdah.
// When the CA is withdrawn, it is over.
func TestACompanysCAIssuesTheCertificatesOfClients(t *testing.T) {
	onlyInFull(t, "the controller and the agent have tests of their own for it")
	t.Parallel()
	b := newBed(t, "minio")
	company := authority.New(t)
	bundle := &corev1.ConfigMap{ObjectMeta: b.Meta("company"), Data: map[string]string{"ca.crt": string(b.issue(company)["ca.crt"])}}
	b.Must(b.Create(t.Context(), bundle))
	cluster := b.NewCluster("shop", 17)
	cluster.Spec.Instances = 2
	cluster.Spec.Roles = []v1alpha1.Role{{Name: "alice"}}
	cluster.Spec.PostgreSQL.HBA = []v1alpha1.HBARule{"hostssl all alice all cert"}
	cluster.Spec.TLS.ClientCABundle = &v1alpha1.CABundle{ConfigMap: &v1alpha1.BundleKey{Name: bundle.Name}}
	b.Must(b.Create(t.Context(), cluster))
	b.awaitInstances(cluster, 2)
	b.AwaitTrue(cluster, v1alpha1.ConditionCertificatesReady)
	b.AwaitTrue(cluster, v1alpha1.ConditionRolesAndDatabasesReady)
	b.ClientPod("client", "shop", "registry.local/postgresql:17", "sleep", "infinity")
	brings := func(name string) {
		t.Helper()
		dir := t.TempDir()
		company.Fill(t, dir, name)
		for _, file := range []string{"tls.crt", "tls.key"} {
			content, err := os.ReadFile(filepath.Join(dir, file))
			b.Must(err)
			if out, err := b.Exec("client", "sh", "-c", `umask 077; printf %s "$0" > /tmp/$1`, string(content), file); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
	}
	login := func(service, role, database string) (string, error) {
		return b.Exec("client", "env", "-u", "PGPASSWORD", "PGHOST=shop-"+service+"."+b.Namespace+".svc", "PGUSER="+role, "PGDATABASE="+database,
			"PGSSLCERT=/tmp/tls.crt", "PGSSLKEY=/tmp/tls.key", "psql", "-wXAtc", "SELECT session_user")
	}
	brings("alice")
	for _, service := range []string{"rw", "ro"} {
		if out, err := login(service, "alice", "postgres"); err != nil || out != "alice" {
			t.Errorf("alice, through -%s: %v: %s", service, err, out)
		}
	}
	brings("howdah_replication")
	if out, err := login("rw", "howdah_replication", "postgres"); err == nil {
		t.Errorf("the company's CA makes itself a certificate of howdah_replication: %s", out)
	}
	brings("alice")
	b.Merge(cluster, `{"spec":{"tls":{"clientCABundle":null}}}`)
	b.Await(cluster, "the CA to be withdrawn", func() bool { return place.Condition(cluster, v1alpha1.ConditionCertificatesReady) == nil })
	b.Await(cluster, "alice to be refused", func() bool { _, err := login("rw", "alice", "postgres"); return err != nil })
}
