//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/authority"
	"howdah.dev/howdah/test/testkit/place"
	"howdah.dev/howdah/test/testkit/slapdtest"
)

// directory listens on the control plane's node, over TLS and with a certificate of a company. It returns its address and port, and the CA.
func (b *bed) directory(company *authority.Authority) (host string, port int, ca string) {
	b.Helper()
	host = b.controlPlane()
	dir := b.TempDir()
	company.Fill(b, dir, "directory", host)
	bundle, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	b.Must(err)
	return host, slapdtest.Start(b, "ldaps", host, slapdtest.TLS(dir), "nsenter", "--net="+b.Kube("netns", "cp")), string(bundle)
}

// controlPlane is the address of the node of that name.
func (b *bed) controlPlane() string {
	b.Helper()
	node := &corev1.Node{}
	b.Must(b.Get(b.Context(), client.ObjectKey{Name: "cp"}, node))
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			return address.Address
		}
	}
	b.Fatal("the node has no address")
	return ""
}

// TestRolesLogInAtADirectoryWhoseCAAndPasswordCome from objects of the namespace, and change there: the server finds a role by a search, and
// nothing restarts.
func TestRolesLogInAtADirectoryWhoseCAAndPasswordComeFromTheNamespace(t *testing.T) {
	onlyInFull(t, "the agent has tests of its own with a directory, and the controller for what it takes from the namespace")
	t.Parallel()
	place.NeedKube(t)
	b := newBed(t, "minio")
	host, port, ca := b.directory(authority.New(t))
	_, _, another := b.directory(authority.New(t))
	cluster := b.NewCluster("shop", 17)
	cluster.Spec.Roles = []v1alpha1.Role{{Name: "alice", Login: ptr.To(true)}}
	cluster.Spec.PostgreSQL.HBA = []v1alpha1.HBARule{v1alpha1.HBARule(fmt.Sprintf(
		`hostssl app alice all ldap ldapserver=%s ldapport=%d ldapscheme=ldaps ldapbasedn=dc=example ldapbinddn="cn=reader,dc=example"`, host, port))}
	cluster.Spec.PostgreSQL.LDAPPasswordSecret = &v1alpha1.PasswordSecret{Name: "reader"}
	cluster.Spec.PostgreSQL.LDAPCA = &v1alpha1.CABundle{ConfigMap: &v1alpha1.BundleKey{Name: "company-ca"}}
	b.Must(b.Create(t.Context(), cluster))
	b.AwaitTrue(cluster, v1alpha1.ConditionReady)
	b.AwaitReason(cluster, v1alpha1.ConditionRolesAndDatabasesReady, v1alpha1.ReasonSecretNotFound, "reader")
	b.AwaitReason(cluster, v1alpha1.ConditionCertificatesReady, v1alpha1.ReasonConfigMapNotFound, "company-ca")
	started := b.SQL("shop", "SELECT pg_postmaster_start_time()")
	b.Must(b.Create(t.Context(), &corev1.Secret{ObjectMeta: b.Meta("reader"), StringData: map[string]string{"password": slapdtest.ReaderPassword}}))
	b.AwaitTrue(cluster, v1alpha1.ConditionRolesAndDatabasesReady)
	if _, err := b.login("alice", "wonderland", "app"); err == nil {
		t.Error("alice came in, although nobody knows the directory's CA")
	}
	bundle := &corev1.ConfigMap{ObjectMeta: b.Meta("company-ca"), Data: map[string]string{"ca.crt": ca}}
	b.Must(b.Create(t.Context(), bundle))
	b.AwaitTrue(cluster, v1alpha1.ConditionCertificatesReady)
	b.awaitLogin(cluster, "alice", "wonderland", "app")
	if _, err := b.login("alice", "looking-glass", "app"); err == nil {
		t.Error("alice came in with a wrong password")
	}
	bundle.Data["ca.crt"] = another
	b.Must(b.Update(t.Context(), bundle))
	b.Await(cluster, "the server to refuse the directory of another CA", func() bool {
		_, err := b.login("alice", "wonderland", "app")
		return err != nil
	})
	bundle.Data["ca.crt"] = another + ca
	b.Must(b.Update(t.Context(), bundle))
	b.awaitLogin(cluster, "alice", "wonderland", "app")
	if now := b.SQL("shop", "SELECT pg_postmaster_start_time()"); now != started {
		t.Errorf("the server restarted at %s", now)
	}
}
