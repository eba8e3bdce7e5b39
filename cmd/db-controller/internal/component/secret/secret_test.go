package secret

import (
	"bytes"
	"net/url"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func shop() *v1alpha1.PostgresCluster {
	return &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "shop"}}
}

func TestTheApplicationsSecretSaysAllThatItTakesToConnect(t *testing.T) {
	cluster := shop()
	cluster.Spec.Bootstrap = &v1alpha1.Bootstrap{Initdb: &v1alpha1.BootstrapInitdb{Database: "orders", Owner: "clerk"}}
	live := &corev1.Secret{Data: map[string][]byte{"password": []byte("s3cret")}}
	got := App(cluster, live, []byte("CA"))
	for key, want := range map[string]string{
		"username": "clerk", "password": "s3cret", "host": "shop-rw.demo.svc", "port": "5432", "dbname": "orders", "ca.crt": "CA",
		"uri":      "postgresql://clerk:s3cret@shop-rw.demo.svc:5432/orders?sslmode=require",
		"jdbc-uri": "jdbc:postgresql://shop-rw.demo.svc:5432/orders?password=s3cret&sslmode=require&user=clerk",
		"pgpass":   "shop-rw.demo.svc:5432:orders:clerk:s3cret\n",
		"type":     "postgresql", "provider": "howdah",

		"uri-verify-full":      "postgresql://clerk:s3cret@shop-rw.demo.svc:5432/orders?sslmode=verify-full&sslrootcert=%2Fbindings%2Fshop-app%2Fca.crt",
		"jdbc-uri-verify-full": "jdbc:postgresql://shop-rw.demo.svc:5432/orders?password=s3cret&sslmode=verify-full&sslrootcert=%2Fbindings%2Fshop-app%2Fca.crt&user=clerk",
	} {
		if string(got.Data[key]) != want {
			t.Errorf("%s is %q, want %q", key, got.Data[key], want)
		}
	}
	if len(got.Data) != 13 || got.Name != "shop-app" {
		t.Errorf("%s has %d keys", got.Name, len(got.Data))
	}
}

func TestAPasswordThatAPersonHasChosenIsQuotedWhereItMust(t *testing.T) {
	password := `a:b\c@d/e?&`
	got := Superuser(shop(), &corev1.Secret{Data: map[string][]byte{"password": []byte(password)}}, nil)
	parsed, err := url.Parse(string(got.Data["uri"]))
	if err != nil {
		t.Fatal(err)
	}
	if back, _ := parsed.User.Password(); back != password || parsed.User.Username() != "postgres" {
		t.Error("the uri gives another password")
	}
	if string(got.Data["pgpass"]) != `shop-rw.demo.svc:5432:postgres:postgres:a\:b\\c@d/e?&`+"\n" {
		t.Error("pgpass is not quoted")
	}
}

func TestEachPasswordIsItsOwn(t *testing.T) {
	a, b := App(shop(), nil, nil).Data["password"], App(shop(), nil, nil).Data["password"]
	if len(a) < 20 || bytes.Equal(a, b) {
		t.Error("a password is too short, or twice the same")
	}
}

func TestTheNamesOfADatabaseComeFromWhereItsDataComes(t *testing.T) {
	for name, c := range map[string]struct {
		bootstrap       *v1alpha1.Bootstrap
		database, owner string
	}{
		"nothing said":       {nil, "app", "app"},
		"a new database":     {&v1alpha1.Bootstrap{Initdb: &v1alpha1.BootstrapInitdb{Database: "x"}}, "x", "app"},
		"a restored one":     {&v1alpha1.Bootstrap{Restore: &v1alpha1.BootstrapRestore{Name: "r", Database: "y", Owner: "z"}}, "y", "z"},
		"a restored default": {&v1alpha1.Bootstrap{Restore: &v1alpha1.BootstrapRestore{Name: "r"}}, "app", "app"},
	} {
		cluster := shop()
		cluster.Spec.Bootstrap = c.bootstrap
		if database, owner := Application(cluster); database != c.database || owner != c.owner {
			t.Errorf("%s: %s of %s", name, database, owner)
		}
	}
}

func TestTheAuthorityAndItsCertificatesStayWhileTheyAreGood(t *testing.T) {
	cluster := shop()
	ca, authority, err := Authority(cluster, nil, nil, noon)
	if err != nil {
		t.Fatal(err)
	}
	again, _, err := Authority(cluster, ca, nil, noon.Add(time.Hour))
	if err != nil || !bytes.Equal(again.Data[KeyAuthorityKey], ca.Data[KeyAuthorityKey]) {
		t.Fatalf("another CA after an hour: %v", err)
	}
	certificate, err := ClientTLS(cluster, "shop-backup", "howdah_backup", nil, authority, noon)
	if err != nil {
		t.Fatal(err)
	}
	same, err := ClientTLS(cluster, "shop-backup", "howdah_backup", certificate, authority, noon.Add(time.Hour))
	if err != nil || !bytes.Equal(same.Data[KeyCertificate], certificate.Data[KeyCertificate]) {
		t.Errorf("another certificate after an hour: %v", err)
	}
}

func TestANewAuthorityTrustsWhatThePodsTrustWhenTheOldOneWasDeleted(t *testing.T) {
	cluster := shop()
	_, old, err := Authority(cluster, nil, nil, noon)
	if err != nil {
		t.Fatal(err)
	}
	pods, err := Instance(cluster, nil, old, Passwords{}, noon)
	if err != nil {
		t.Fatal(err)
	}
	owned := pods.DeepCopy()
	owned.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(cluster, v1alpha1.GroupVersion.WithKind("PostgresCluster"))}
	for name, c := range map[string]struct {
		ca, instance *corev1.Secret
		trusted      bool
	}{
		"deleted":                  {nil, owned, true},
		"emptied":                  {&corev1.Secret{}, owned, true},
		"the Secret is another's":  {nil, pods, false},
		"there is nothing to know": {nil, nil, false},
	} {
		_, renewed, err := Authority(cluster, c.ca, c.instance, noon)
		if err != nil {
			t.Fatal(err)
		}
		if got := bytes.Contains(renewed.Bundle, old.Bundle); got != c.trusted || bytes.HasPrefix(renewed.Bundle, old.Bundle) {
			t.Errorf("%s: the old CA is trusted: %t", name, got)
		}
		again, err := Instance(cluster, pods, renewed, Passwords{}, noon)
		if err != nil {
			t.Fatal(err)
		}
		if stays := bytes.Equal(again.Data[KeyServerCertificate], pods.Data[KeyServerCertificate]); stays != c.trusted {
			t.Errorf("%s: the server's certificate stays: %t", name, stays)
		}
	}
}

func TestTheServersCertificateIsForEveryNameOfTheCluster(t *testing.T) {
	names := ServerRequest(shop()).DNSNames
	for _, want := range []string{
		"shop-rw", "shop-rw.demo", "shop-rw.demo.svc", "shop-rw.demo.svc.cluster.local", "shop-ro.demo.svc", "shop-r.demo.svc",
		"*.shop-pods.demo.svc", "*.shop-pods.demo.svc.cluster.local",
		"*.shop-r.demo.svc", "*.shop-r.demo.svc.cluster.local", "localhost",
	} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is missing", want)
		}
	}
}

func TestTheServersCertificateIsForTheNamesThatSpecAdds(t *testing.T) {
	cluster := shop()
	usual := len(ServerRequest(cluster).DNSNames)
	cluster.Spec.TLS.DNSNames = []v1alpha1.DNSName{"db.example.com", "shop-rw"}
	if names := ServerRequest(cluster).DNSNames; len(names) != usual+1 || names[usual] != "db.example.com" {
		t.Errorf("%v", names)
	}
	cluster.Spec.Services.Additional = []v1alpha1.AdditionalService{{Name: "reports", Role: v1alpha1.ServiceReplica}}
	if names := ServerRequest(cluster).DNSNames; len(names) != usual+5 || !slices.Contains(names, "shop-reports.demo.svc") || !slices.Contains(ServedNames(cluster), "shop-reports.demo.svc") {
		t.Errorf("%v", names)
	}
}
