//go:build e2e

package e2e

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/authority"
	"howdah.dev/howdah/test/testkit/place"
)

// startTimes of PostgreSQL, by instance.
func (b *bed) startTimes(instances ...string) map[string]string {
	b.Helper()
	started := map[string]string{}
	for _, name := range instances {
		out, err := b.SQLOn(name, "SELECT pg_postmaster_start_time()")
		if err != nil {
			b.Fatalf("%s: %v: %s", name, err, out)
		}
		started[name] = out
	}
	return started
}

// TestTheCAOfServersIsReplacedWhileRowsAreWritten: clients that follow the cluster's CA bundle connect with sslmode=verify-full before, during and
// after it, through the Services of the cluster and through an additional one, and PostgreSQL is not restarted.
func TestTheCAOfServersIsReplacedWhileRowsAreWritten(t *testing.T) {
	onlyInFull(t, "the controller and the agent have tests of their own for it")
	t.Parallel()
	b := newBed(t, "minio")
	cluster := b.NewCluster("shop", 18)
	cluster.Spec.Instances = 2
	cluster.Spec.Services.Additional = []v1alpha1.AdditionalService{{Name: "reports", Role: v1alpha1.ServiceReplica}}
	b.Must(b.Create(t.Context(), cluster))
	b.awaitInstances(cluster, 2)
	w := b.startWriter("shop") // it verifies the server by the bundle that the cluster publishes
	b.ClientPod("client", "shop", "registry.local/postgresql:18", "sleep", "infinity")
	reports := func(when string) {
		t.Helper()
		out, err := b.Exec("client", "env", "PGHOST=shop-reports."+b.Namespace+".svc", "psql", "-XAtc", "SELECT pg_is_in_recovery()")
		if err != nil || out != "t" {
			t.Errorf("%s, the additional Service: %v: %s", when, err, out)
		}
	}
	started := b.startTimes("shop-0", "shop-1")
	reports("before")

	secret := &corev1.Secret{ObjectMeta: b.Meta("company"), Type: corev1.SecretTypeTLS, Data: b.issue(authority.New(t))}
	b.Must(b.Create(t.Context(), secret))
	b.Merge(cluster, `{"spec":{"tls":{"serverSecret":{"name":"company"}}}}`)
	shown := func(what string) {
		t.Helper()
		began := time.Now()
		b.Await(cluster, what, func() bool {
			c := place.Condition(cluster, v1alpha1.ConditionCertificatesReady)
			return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == cluster.Generation
		})
		t.Logf("%s took %s", what, time.Since(began).Round(time.Second))
		reports(what)
	}
	shown("a certificate of one's own")
	secret.Data = b.issue(authority.New(t))
	b.Must(b.Update(t.Context(), secret))
	b.AwaitReason(cluster, v1alpha1.ConditionCertificatesReady, v1alpha1.ReasonApplying, "")
	shown("one of another CA")
	b.Merge(cluster, `{"spec":{"tls":{"serverSecret":null}}}`)
	b.Await(cluster, "Howdah's certificate again", func() bool { return place.Condition(cluster, v1alpha1.ConditionCertificatesReady) == nil })
	reports("after")

	for name, since := range b.startTimes("shop-0", "shop-1") {
		if since != started[name] {
			t.Errorf("%s was restarted at %s", name, since)
		}
	}
	if gap := w.judge(); gap > 10*time.Second {
		t.Errorf("a client that verifies the server could not write for %s", gap)
	}
}
