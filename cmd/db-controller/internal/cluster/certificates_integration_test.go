//go:build integration

package cluster

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/secretcache"
	"howdah.dev/howdah/cmd/db-controller/internal/servertls"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/apiserver"
	"howdah.dev/howdah/test/testkit/authority"
	"howdah.dev/howdah/test/testkit/subset"
)

// issued is what cert-manager writes into a Secret.
func issued(t *testing.T, by *authority.Authority, names ...string) map[string][]byte {
	t.Helper()
	dir, data := t.TempDir(), map[string][]byte{}
	by.Fill(t, dir, names[0], names...)
	for _, name := range []string{"tls.crt", "tls.key", "ca.crt"} {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		data[name] = content
	}
	return data
}

// TestACertificateOfOnesOwnIsShownWhenAllTrustItAndTheLastGoodOneStays, with no more rights than the chart gives.
func TestACertificateOfOnesOwnIsShownWhenAllTrustItAndTheLastGoodOneStays(t *testing.T) {
	subset.OneIn(t, 2)
	l := newLab(t)
	l.stop()
	l.account = apiserver.As(t, "db-controller")
	l.agent.Image = "registry.local/howdah/agent:1"
	l.startController()
	shop := l.shop(func(c *v1alpha1.PostgresCluster) { c.Spec.Instances = 2 })
	l.awaitRunning(shop)
	company := authority.New(t)
	hosts := []string{"db.example.com"}
	for _, service := range []string{"shop-rw", "shop-ro", "shop-r", "*.shop-pods"} {
		hosts = append(hosts, service+"."+l.ns+".svc")
	}
	const ready = v1alpha1.ConditionCertificatesReady
	forward := func() {
		l.clock.forward(secretcache.BorrowedAge + time.Second)
		l.wake(shop)
	}
	trusted := func(ca []byte) bool {
		app, backup, connection := &corev1.Secret{}, &corev1.Secret{}, &corev1.ConfigMap{}
		return l.there(app, "shop-app") && l.there(backup, "shop-backup") && l.there(connection, "shop-connection") &&
			bytes.Contains(app.Data["ca.crt"], ca) && bytes.Contains(backup.Data["ca.crt"], ca) && strings.Contains(connection.Data["ca.crt"], string(ca))
	}
	copied := &corev1.Secret{}
	has := func() agentapi.Passwords {
		all := agentapi.Passwords{}
		if l.there(copied, "shop-instance") && json.Unmarshal(copied.Data["roles.json"], &all) != nil {
			t.Fatal("roles.json can't be read")
		}
		return all
	}
	l.change(shop, func() { shop.Spec.TLS.ServerSecret = &v1alpha1.ServerSecret{Name: "company"} })
	l.awaitCondition(shop, ready, metav1.ConditionFalse, v1alpha1.ReasonSecretNotFound)

	first := issued(t, company, hosts...)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: "company"}, Type: corev1.SecretTypeTLS, Data: first}
	l.create(secret)
	forward()
	l.awaitCondition(shop, ready, metav1.ConditionFalse, v1alpha1.ReasonApplying)
	l.eventually("clients are told of the CA first", func() bool { return trusted(first["ca.crt"]) })
	if all := has(); !bytes.Equal(all[agentapi.ServerTrustKey], first["ca.crt"]) || len(all[agentapi.ServerCertificateKey]) > 0 {
		t.Error("pods have the certificate before clients had time to trust its CA")
	}
	if bytes.Contains(copied.Data["ca.crt"], first["ca.crt"]) {
		t.Error("servers let in who has a certificate of the other CA")
	}
	l.clock.forward(servertls.Settle)
	l.wake(shop)
	l.awaitCondition(shop, ready, metav1.ConditionTrue, v1alpha1.ReasonCurrent)
	if !bytes.Equal(has()[agentapi.ServerCertificateKey], first["tls.crt"]) {
		t.Error("pods have another certificate")
	}

	bad := maps.Clone(first)
	bad["tls.key"] = issued(t, company, hosts...)["tls.key"]
	l.change(secret, func() { secret.Data = bad })
	forward()
	l.awaitCondition(shop, ready, metav1.ConditionFalse, v1alpha1.ReasonCertificateRefused)
	if !bytes.Equal(has()[agentapi.ServerCertificateKey], first["tls.crt"]) {
		t.Error("the last good certificate did not stay")
	}
	renewed := issued(t, company, hosts...)
	l.change(secret, func() { secret.Data = renewed })
	forward()
	l.eventually("it is renewed at once", func() bool { return bytes.Equal(has()[agentapi.ServerCertificateKey], renewed["tls.crt"]) })
	l.awaitCondition(shop, ready, metav1.ConditionTrue, v1alpha1.ReasonCurrent)
	if len(l.restarted()) > 0 || strings.Contains(l.picture(), "PRIVATE KEY") {
		t.Error("PostgreSQL was restarted, or a key is in the status")
	}

	l.change(shop, func() { shop.Spec.TLS.ServerSecret = nil })
	l.eventually("Howdah's certificate is back, and the CA is no longer trusted", func() bool {
		l.get(shop)
		return len(has()) == 0 && !trusted(first["ca.crt"]) && meta.FindStatusCondition(shop.Status.Conditions, ready) == nil
	})
	l.change(shop, func() {
		shop.Spec.PostgreSQL.LDAPCA = &v1alpha1.CABundle{ConfigMap: &v1alpha1.BundleKey{Name: "company-ca"}}
		shop.Spec.TLS.ClientCABundle = &v1alpha1.CABundle{ConfigMap: &v1alpha1.BundleKey{Name: "company-ca"}}
	})
	l.awaitCondition(shop, ready, metav1.ConditionFalse, v1alpha1.ReasonConfigMapNotFound)
	l.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: "company-ca"}, Data: map[string]string{"ca.crt": string(first["ca.crt"])}})
	l.wake(shop)
	l.awaitCondition(shop, ready, metav1.ConditionTrue, v1alpha1.ReasonCurrent)
	if all := has(); !bytes.Equal(all[agentapi.LDAPTrustKey], first["ca.crt"]) || !bytes.Equal(all[agentapi.ClientTrustKey], first["ca.crt"]) || len(l.restarted()) > 0 {
		t.Error("servers don't get the CAs of directories and clients, or were restarted")
	}
	l.change(shop, func() { shop.Spec.TLS.ClientCABundle = nil })
	l.eventually("the CAs of clients are no longer trusted", func() bool { return len(has()[agentapi.ClientTrustKey]) == 0 })
	l.awaitCondition(shop, ready, metav1.ConditionTrue, v1alpha1.ReasonCurrent)
	if len(l.restarted()) > 0 {
		t.Error("servers were restarted")
	}
}

// A password is changed in the Secret of the application while the Secret that this process has read last is written for another reason.
func TestAPasswordThatIsChangedBesideTheCAStays(t *testing.T) {
	l := newLab(t)
	shop := l.shop(nil)
	l.awaitRunning(shop)
	hosts := []string{"shop-rw." + l.ns + ".svc", "shop-ro." + l.ns + ".svc", "shop-r." + l.ns + ".svc", "*.shop-pods." + l.ns + ".svc"}
	company := issued(t, authority.New(t), hosts...)
	l.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: "company"}, Type: corev1.SecretTypeTLS, Data: company})
	l.settle()
	app := &corev1.Secret{}
	l.there(app, "shop-app")
	l.change(app, func() { app.StringData = map[string]string{"password": "geheim-1"} })
	l.change(shop, func() { shop.Spec.TLS.ServerSecret = &v1alpha1.ServerSecret{Name: "company"} })
	l.eventually("clients are told of the CA", func() bool { return l.there(app, "shop-app") && bytes.Contains(app.Data["ca.crt"], company["ca.crt"]) })
	if password := string(app.Data["password"]); password != "geheim-1" {
		t.Errorf("the password is %q", password)
	}
}
