//go:build integration

package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/certificate"
	"howdah.dev/howdah/cmd/db-controller/internal/component/secret"
	"howdah.dev/howdah/cmd/db-controller/internal/component/statefulset"
	"howdah.dev/howdah/cmd/db-controller/internal/secretcache"
	"howdah.dev/howdah/pkg/agentapi"
)

// password makes the Secret that a role's password stands in.
func (l *lab) password(name, value string) *corev1.Secret {
	l.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: name}, StringData: map[string]string{"password": value}}
	l.create(secret)
	return secret
}

func web(shop *v1alpha1.PostgresCluster) {
	shop.Spec.Roles = []v1alpha1.Role{{Name: "web", PasswordSecret: &v1alpha1.PasswordSecret{Name: "web-login"}}}
}

func TestTheFirstRoleAndEachPasswordReachThePodsAndRestartNothing(t *testing.T) {
	l := newLab(t)
	shop := l.shop(nil)
	l.awaitRunning(shop)
	before := &corev1.Pod{}
	l.there(before, "shop-0")

	l.change(shop, func() { web(shop) })
	if says := l.awaitCondition(shop, v1alpha1.ConditionRolesAndDatabasesReady, metav1.ConditionFalse, v1alpha1.ReasonSecretNotFound); !strings.Contains(says, "there is no Secret web-login") {
		t.Error(says)
	}
	login := l.password("web-login", "geheim-1\n")
	l.awaitCondition(shop, v1alpha1.ConditionRolesAndDatabasesReady, metav1.ConditionTrue, v1alpha1.ReasonCurrent)
	if told := l.told(); told.Declared == nil || len(told.Declared.Roles) != 1 || !told.Declared.Roles[0].Password {
		t.Errorf("the agent is told %+v", told.Declared)
	}
	revision := l.awaitCopied("geheim-1", "")

	l.change(login, func() { login.StringData = map[string]string{"password": "geheim-2"} })
	l.clock.forward(secretcache.BorrowedAge + time.Second)
	l.wake(shop)
	l.awaitCopied("geheim-2", revision)

	after := &corev1.Pod{}
	l.there(after, "shop-0")
	if after.UID != before.UID || len(l.restarted()) > 0 {
		t.Error("a role restarted PostgreSQL")
	}
	if strings.Contains(l.picture(), "geheim") {
		t.Error("a password is in the status")
	}
	l.change(shop, func() { shop.Spec.Roles = nil })
	copied := &corev1.Secret{}
	l.eventually("the password is taken back", func() bool { return l.there(copied, "shop-instance") && string(copied.Data["roles.json"]) == "{}" })

	l.change(shop, func() {
		shop.Spec.PostgreSQL.HBA = []v1alpha1.HBARule{"hostssl all all all ldap ldapserver=x ldapbasedn=dc=x ldapbinddn=cn=x"}
		shop.Spec.PostgreSQL.LDAPPasswordSecret = &v1alpha1.PasswordSecret{Name: "web-login"}
	})
	l.eventually("the password for LDAP is brought to the pod", func() bool {
		return l.there(copied, "shop-instance") && string(copied.Data["roles.json"]) == `{"/ldap":"Z2VoZWltLTI="}` && l.told().LDAPPassword
	})
	if strings.Contains(l.picture(), "geheim") || len(l.restarted()) > 0 {
		t.Error("the password for LDAP is in the status, or restarted PostgreSQL")
	}
	l.awaitRunning(shop)
}

func TestAPasswordOfTheApplicationReachesThePodsAndRestartsNothing(t *testing.T) {
	l := newLab(t)
	shop := l.shop(nil)
	l.awaitRunning(shop)
	app, copied, before, after := &corev1.Secret{}, &corev1.Secret{}, &corev1.Pod{}, &corev1.Pod{}
	l.there(app, "shop-app")
	l.there(before, "shop-0")
	if l.there(copied, "shop-instance"); len(app.Data["password"]) == 0 || !bytes.Equal(copied.Data["app.password"], app.Data["password"]) {
		t.Error("pods begin with another password than the one in the Secret of the application")
	}
	first := before.Annotations[statefulset.AnnotationPasswords]
	if first == "" || first != copied.Annotations[secret.AnnotationRevision] {
		t.Errorf("the pod begins with revision %q", first)
	}

	l.change(app, func() { app.StringData = map[string]string{"password": "geheim-1"} })
	l.clock.forward(secretcache.LoginAge + time.Second)
	l.wake(shop)
	l.eventually("the password is brought to the pod", func() bool {
		return l.there(copied, "shop-instance") && string(copied.Data["app.password"]) == "geheim-1" &&
			l.there(after, "shop-0") && after.Annotations[statefulset.AnnotationPasswords] == copied.Annotations[secret.AnnotationRevision]
	})
	l.eventually("the uri has it", func() bool {
		return l.there(app, "shop-app") && strings.Contains(string(app.Data["uri"]), ":geheim-1@")
	})
	l.settle()
	if l.there(after, "shop-0"); after.UID != before.UID || after.Annotations[statefulset.AnnotationPasswords] == first || len(l.restarted()) > 0 {
		t.Error("the password restarted PostgreSQL, or the pod is not told of it")
	}
	if strings.Contains(l.picture(), "geheim") {
		t.Error("a password is in the status")
	}
}

func TestARoleGetsItsCertificateWhichIsRenewedAndNeverAnothersSecret(t *testing.T) {
	l := newLab(t)
	l.password("taken", "mine")
	shop := l.shop(func(shop *v1alpha1.PostgresCluster) {
		shop.Spec.Roles = []v1alpha1.Role{
			{Name: "web", CertificateSecret: &v1alpha1.CertificateSecret{Name: "web-tls"}},
			{Name: "taken", CertificateSecret: &v1alpha1.CertificateSecret{Name: "taken"}},
			{Name: "own", CertificateSecret: &v1alpha1.CertificateSecret{Name: "shop-ca"}},
			{Name: "second", CertificateSecret: &v1alpha1.CertificateSecret{Name: "web-tls"}},
		}
	})
	says := l.awaitCondition(shop, v1alpha1.ConditionRolesAndDatabasesReady, metav1.ConditionFalse, v1alpha1.ReasonNameConflict)
	for _, want := range []string{"taken already exists and belongs to somebody else", "shop-ca is one of the cluster's own", "web-tls has the certificate of role web"} {
		if !strings.Contains(says, want) {
			t.Errorf("it doesn't say that %s: %s", want, says)
		}
	}
	l.awaitRunning(shop)
	made, taken := &corev1.Secret{}, &corev1.Secret{}
	if !l.there(made, "web-tls") || !metav1.IsControlledBy(made, shop) || commonName(t, made) != "web" {
		t.Errorf("web has %v", made.Annotations)
	}
	if !l.there(taken, "taken") || string(taken.Data["password"]) != "mine" || len(taken.OwnerReferences) > 0 {
		t.Error("somebody else's Secret was touched")
	}

	l.change(shop, func() { shop.Spec.Roles = shop.Spec.Roles[:1] })
	l.awaitCondition(shop, v1alpha1.ConditionRolesAndDatabasesReady, metav1.ConditionTrue, v1alpha1.ReasonCurrent)
	l.clock.forward(certificate.LeafLife - time.Hour)
	l.wake(shop)
	renewed := &corev1.Secret{}
	l.eventually("the certificate is renewed", func() bool {
		return l.there(renewed, "web-tls") && !bytes.Equal(renewed.Data[corev1.TLSCertKey], made.Data[corev1.TLSCertKey])
	})
	if commonName(t, renewed) != "web" {
		t.Error("the new one is somebody else's")
	}
}

// commonName of the certificate in a Secret.
func commonName(t *testing.T, secret *corev1.Secret) string {
	t.Helper()
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf.Subject.CommonName
}

// awaitCopied waits until the pods are brought a password, and returns its revision.
func (l *lab) awaitCopied(password, before string) (revision string) {
	l.Helper()
	copied, pod := &corev1.Secret{}, &corev1.Pod{}
	l.eventually("the password is brought to the pod", func() bool {
		revision = ""
		passwords := agentapi.Passwords{}
		if l.there(copied, "shop-instance") && l.there(pod, "shop-0") && json.Unmarshal(copied.Data["roles.json"], &passwords) == nil {
			revision = pod.Annotations[statefulset.AnnotationPasswords]
		}
		return string(passwords["web"]) == password && revision != "" && revision != before
	})
	return revision
}

// wake makes the controller look.
func (l *lab) wake(shop *v1alpha1.PostgresCluster) {
	l.Helper()
	l.change(shop, func() { metav1.SetMetaDataAnnotation(&shop.ObjectMeta, annotationSeen, time.Now().String()) })
}

func TestAClusterWithRolesCausesNoWritesWhenIdle(t *testing.T) {
	l := newLab(t)
	l.password("web-login", "x")
	shop := l.shop(web)
	l.awaitRunning(shop)
	l.awaitCondition(shop, v1alpha1.ConditionRolesAndDatabasesReady, metav1.ConditionTrue, v1alpha1.ReasonCurrent)
	l.awaitCopied("x", "")
	l.settle()
	mark := l.writes.mark()
	for range 3 {
		l.clock.forward(2 * secretcache.SecretAge)
		l.passes(shop, 1)
	}
	if wrote := l.writes.since(mark); len(wrote) > 0 {
		t.Errorf("wrote %v", wrote)
	}
}

func TestWhatTheAgentCouldNotDoIsInTheCondition(t *testing.T) {
	l := newLab(t)
	l.kube.set(func(s *standIn) {
		s.answer = func(status *agentapi.Status) {
			if status.Declared != nil {
				status.Declared.Problems = []string{"extension nowhere in database app: extension \"nowhere\" is not available (SQLSTATE 0A000)"}
			}
		}
	})
	shop := l.shop(func(shop *v1alpha1.PostgresCluster) {
		shop.Spec.Databases = []v1alpha1.Database{{Name: "app", Extensions: []v1alpha1.Extension{{Name: "nowhere"}}}}
	})
	if says := l.awaitCondition(shop, v1alpha1.ConditionRolesAndDatabasesReady, metav1.ConditionFalse, v1alpha1.ReasonNotAsDeclared); !strings.Contains(says, "nowhere") {
		t.Error(says)
	}
	l.awaitRunning(shop) // the rest of the cluster is well
}

func TestASecretOfPodsThatIsSomebodyElsesIsNotTouched(t *testing.T) {
	l := newLab(t)
	l.password("shop-instance", "mine")
	shop := l.shop(nil)
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionUpToDate} {
		if says := l.awaitCondition(shop, kind, metav1.ConditionFalse, v1alpha1.ReasonNameConflict); !strings.Contains(says, "Secret shop-instance") {
			t.Errorf("%s says: %s", kind, says)
		}
	}
	kept := &corev1.Secret{}
	if !l.there(kept, "shop-instance") || string(kept.Data["password"]) != "mine" || len(kept.OwnerReferences) > 0 {
		t.Error("it was touched")
	}
	if err := l.Delete(context.Background(), kept); err != nil {
		t.Fatal(err)
	}
	l.awaitRunning(shop)
}
