//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
)

// login opens a session through the Service of the primary, as an application would, and says what came of it.
func (b *bed) login(role, password, database string) (string, error) {
	return b.Exec(b.Primary("shop"), "env", "PGPASSWORD="+password, "psql", "-XAtc", "SELECT current_user",
		fmt.Sprintf("host=shop-rw port=5432 user=%s dbname=%s sslmode=require connect_timeout=5", role, database))
}

// loginWith opens a session with the certificate of a Secret and no password.
func (b *bed) loginWith(secret, role string) (string, error) {
	b.Helper()
	made := &corev1.Secret{ObjectMeta: b.Meta(secret)}
	b.Must(b.Get(b.Context(), client.ObjectKeyFromObject(made), made))
	return b.Exec(b.Primary("shop"), "env", "CERT="+string(made.Data["tls.crt"]), "KEY="+string(made.Data["tls.key"]), "CA="+string(made.Data["ca.crt"]),
		"bash", "-c", `umask 077; cd "$(mktemp -d -p /dev/shm)"; trap 'rm -r "$PWD"' EXIT; echo "$CERT" >crt; echo "$KEY" >key; echo "$CA" >ca
			psql -wXAtc 'SELECT current_user' "host=shop-rw dbname=app user=$0 sslmode=verify-full sslcert=crt sslkey=key sslrootcert=ca connect_timeout=5"`, role)
}

// awaitLogin waits until a password lets a role in.
func (b *bed) awaitLogin(cluster *v1alpha1.PostgresCluster, role, password, database string) {
	b.Helper()
	b.Await(cluster, role+" to log in to "+database, func() bool {
		out, err := b.login(role, password, database)
		return err == nil && strings.TrimSpace(out) == role
	})
}

// TestDeclaredRolesLogInWithThePasswordsOfTheirSecretsAndNothingRestarts goes through the life of a role and a database that
// are declared on a running cluster.
func TestDeclaredRolesLogInWithThePasswordsOfTheirSecretsAndNothingRestarts(t *testing.T) {
	onlyInFull(t, "the agent and the db-controller have tests of their own for declared roles")
	t.Parallel()
	b := newBed(t, "minio")
	cluster := b.Cluster("shop", 17)
	w, before := b.startWriter("shop"), b.Pod("shop-0")
	started := b.SQL("shop", "SELECT pg_postmaster_start_time()")

	b.Merge(cluster, `{"spec":{
		"roles":[{"name":"readers","login":false},{"name":"reporting","passwordSecret":{"name":"reporting"},"inRoles":["readers"],"connectionLimit":5}],
		"databases":[{"name":"reports","owner":"reporting","extensions":[{"name":"pg_trgm"}]}]}}`)
	b.AwaitReason(cluster, v1alpha1.ConditionRolesAndDatabasesReady, v1alpha1.ReasonSecretNotFound, "there is no Secret reporting")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: "reporting"}, StringData: map[string]string{"password": "first-of-two"}}
	b.Must(b.Create(t.Context(), secret))
	b.AwaitTrue(cluster, v1alpha1.ConditionRolesAndDatabasesReady)
	b.awaitLogin(cluster, "reporting", "first-of-two", "reports")
	if got, err := b.Exec("shop-0", "psql", "-XAt", "-U", "postgres", "-d", "reports", "-c", "SELECT similarity('word', 'words') > 0.5"); err != nil || strings.TrimSpace(got) != "t" {
		t.Errorf("pg_trgm says %q, %v", got, err)
	}

	b.Merge(secret, `{"stringData":{"password":"second-of-two"}}`)
	b.awaitLogin(cluster, "reporting", "second-of-two", "reports")
	if _, err := b.login("reporting", "first-of-two", "reports"); err == nil {
		t.Error("the old password still lets in")
	}

	b.Merge(cluster, `{"spec":{
		"roles":[{"name":"batch","certificateSecret":{"name":"batch-tls"}}],
		"postgresql":{"hba":["hostssl app batch all cert"]}}}`)
	b.AwaitTrue(cluster, v1alpha1.ConditionRolesAndDatabasesReady)
	b.Await(cluster, "batch to log in by its certificate", func() bool {
		out, err := b.loginWith("batch-tls", "batch")
		return err == nil && strings.TrimSpace(out) == "batch"
	})
	if out, err := b.loginWith("batch-tls", "app"); err == nil {
		t.Errorf("the certificate of batch lets in as %s", out)
	}

	b.Merge(cluster, `{"spec":{"postgresql":{"hba":["hostssl reports reporting all scram-sha-256","hostssl all reporting all reject"]}}}`)
	b.AwaitTrue(cluster, v1alpha1.ConditionUpToDate)
	if out, err := b.login("reporting", "second-of-two", "app"); err == nil {
		t.Errorf("a role that a rule rejects came in: %s", out)
	}
	b.awaitLogin(cluster, "reporting", "second-of-two", "reports")
	b.Merge(cluster, `{"spec":{"postgresql":{"hba":["hostssl all all all ldap"]}}}`)
	b.AwaitReason(cluster, v1alpha1.ConditionUpToDate, v1alpha1.ReasonConfigurationInvalid, "ldap")
	b.awaitLogin(cluster, "reporting", "second-of-two", "reports") // the previous rules stay

	if after := b.Pod("shop-0"); after.UID != before.UID || b.SQL("shop", "SELECT pg_postmaster_start_time()") != started {
		t.Error("something was restarted")
	}
	w.judge()
}

// TestDeclaredRolesAreThereAfterAFailover: the new primary has them by replication, and keeps them from then on.
func TestDeclaredRolesAreThereAfterAFailover(t *testing.T) {
	onlyInFull(t, "roles are data like any other")
	t.Parallel()
	b := newBed(t, "minio")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: "reporting"}, StringData: map[string]string{"password": "first-of-two"}}
	b.Must(b.Create(t.Context(), secret))
	cluster := b.NewCluster("shop", 17)
	cluster.Spec.Instances = 2
	cluster.Spec.Roles = []v1alpha1.Role{{Name: "reporting", ConnectionLimit: ptr.To[int32](5), PasswordSecret: &v1alpha1.PasswordSecret{Name: "reporting"}}}
	b.Must(b.Create(t.Context(), cluster))
	b.AwaitTrue(cluster, v1alpha1.ConditionReplicated)
	b.AwaitTrue(cluster, v1alpha1.ConditionRolesAndDatabasesReady)
	old := b.Primary("shop")

	b.Merge(cluster, `{"spec":{"switchover":{"token":"once"}}}`)
	b.Await(cluster, "to have another primary", func() bool { return cluster.Status.Primary != old })
	b.awaitLogin(cluster, "reporting", "first-of-two", "app")
	b.SQL("shop", "ALTER ROLE reporting CONNECTION LIMIT 1")
	b.Merge(secret, `{"stringData":{"password":"second-of-two"}}`)
	b.awaitLogin(cluster, "reporting", "second-of-two", "app")
	if got := b.SQL("shop", "SELECT rolconnlimit FROM pg_roles WHERE rolname = 'reporting'"); got != "5" {
		t.Errorf("the connection limit is %s", got)
	}
}
