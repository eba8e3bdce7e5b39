package servertls

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/certificate"
	"howdah.dev/howdah/cmd/db-controller/internal/condition"
	"howdah.dev/howdah/pkg/agentapi"
)

var (
	noon  = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	names = []string{"shop-rw.demo.svc", "*.shop-pods.demo.svc"}
)

// signer is a CA, or an intermediate one below another.
type signer struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

func sign(t *testing.T, template *x509.Certificate, by *signer) *signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return signKey(t, template, key, by)
}

func signKey(t *testing.T, template *x509.Certificate, key crypto.Signer, by *signer) *signer {
	t.Helper()
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	if template.NotAfter.IsZero() {
		template.NotBefore, template.NotAfter = noon.Add(-time.Hour), noon.Add(90*24*time.Hour)
	}
	parent, signing := template, key
	if by != nil {
		parent, signing = by.certificate, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signing)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &signer{certificate, key}
}

func newCA(t *testing.T, name string, by *signer) *signer {
	t.Helper()
	return sign(t, templateCA(name), by)
}

func templateCA(name string) *x509.Certificate {
	return &x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
}

func (s *signer) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.certificate.Raw})
}

func (s *signer) keyPEM(t *testing.T) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(s.key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// untilThen is a root that is valid until then.
func untilThen(t *testing.T, then time.Time) *signer {
	t.Helper()
	template := templateCA("ends early")
	template.NotBefore, template.NotAfter = noon.Add(-24*time.Hour), then
	return sign(t, template, nil)
}

// server is a certificate for the names of a cluster, in a Secret.
func server(t *testing.T, ca *signer, change func(*x509.Certificate)) *corev1.Secret {
	t.Helper()
	template := &x509.Certificate{DNSNames: append([]string{"db.example.com"}, names...), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	if change != nil {
		change(template)
	}
	return inSecret(t, sign(t, template, ca), ca)
}

func inSecret(t *testing.T, leaf, ca *signer) *corev1.Secret {
	t.Helper()
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "company"},
		Data:       map[string][]byte{"tls.crt": leaf.pem(), "tls.key": leaf.keyPEM(t), "ca.crt": ca.pem()},
	}
}

// input of a cluster of two instances that trust and show these.
func input(source *corev1.Secret, kept Kept, trust, shown []byte) *Input {
	agents := map[string]*agentapi.Status{}
	for _, name := range []string{"shop-0", "shop-1"} {
		told := &agentapi.ServerTLSStatus{}
		if len(trust) > 0 {
			told.Trust = agentapi.HashTLS(trust)
		}
		if len(shown) > 0 {
			told.Certificate = agentapi.HashTLS(shown)
		}
		agents[name] = &agentapi.Status{DataGeneration: "g1", ServerTLS: told}
	}
	return &Input{
		Cluster: &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "shop", UID: "u1"}},
		Name:    "company", Source: source, Names: names, Kept: kept, Pods: []string{"shop-0", "shop-1"}, Agents: agents, Now: noon,
	}
}

func pairIn(secret *corev1.Secret) certificate.Pair {
	return certificate.Pair{Certificate: secret.Data["tls.crt"], Key: secret.Data["tls.key"]}
}

func TestWhatIsWrongWithASecretIsSaidAndTheServersKeepWhatTheyHave(t *testing.T) {
	root := newCA(t, "root", nil)
	intermediate := newCA(t, "intermediate", root)
	last := server(t, root, nil)
	kept := Kept{Pair: pairIn(last), Trust: root.pem(), Since: noon.Add(-time.Hour)}
	with := func(key string, value []byte) *corev1.Secret {
		source := server(t, root, nil)
		source.Data[key] = value
		return source
	}
	longer := func(more []byte) *corev1.Secret {
		source := server(t, root, nil)
		source.Data["tls.crt"] = append(source.Data["tls.crt"], more...)
		return source
	}
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	garbage := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("garbage")})
	owned := server(t, root, nil)
	owned.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(&v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{UID: "u1"}}, v1alpha1.GroupVersion.WithKind("PostgresCluster"))}
	for name, c := range map[string]struct {
		source       *corev1.Secret
		reason, says string
	}{
		"there is none":           {nil, v1alpha1.ReasonSecretNotFound, "There is no Secret company; create it"},
		"it is Howdah's":          {owned, v1alpha1.ReasonSecretReserved, "one of the cluster's own"},
		"nothing under a key":     {with("tls.key", nil), v1alpha1.ReasonCertificateRefused, "nothing under the key tls.key"},
		"no CA":                   {with("ca.crt", nil), v1alpha1.ReasonCertificateRefused, "nothing under the key ca.crt"},
		"the key of another":      {with("tls.key", newCA(t, "x", nil).keyPEM(t)), v1alpha1.ReasonCertificateRefused, "can't be used together"},
		"garbage":                 {with("tls.crt", []byte("garbage")), v1alpha1.ReasonCertificateRefused, "can't be used together"},
		"another CA":              {with("ca.crt", newCA(t, "x", nil).pem()), v1alpha1.ReasonCertificateRefused, "is not signed by its ca.crt"},
		"it has expired":          {server(t, root, func(c *x509.Certificate) { c.NotBefore, c.NotAfter = noon.Add(-2*time.Hour), noon.Add(-time.Hour) }), v1alpha1.ReasonCertificateRefused, "has expired on 2026-03-01T11:00:00Z"},
		"it is of the future":     {server(t, root, func(c *x509.Certificate) { c.NotBefore, c.NotAfter = noon.Add(time.Hour), noon.Add(2*time.Hour) }), v1alpha1.ReasonCertificateRefused, "is not valid before"},
		"it is a client's":        {server(t, root, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }), v1alpha1.ReasonCertificateRefused, "is not for servers"},
		"names are missing":       {server(t, root, func(c *x509.Certificate) { c.DNSNames = []string{"db.example.com", "shop-rw.demo.svc"} }), v1alpha1.ReasonCertificateRefused, "use: *.shop-pods.demo.svc; add them"},
		"the root is not with it": {server(t, intermediate, nil), v1alpha1.ReasonCertificateRefused, "leads to an intermediate CA"},
		"its root has expired":    {server(t, untilThen(t, noon.Add(-time.Minute)), nil), v1alpha1.ReasonCertificateRefused, "leads to a CA that has expired; renew the CA"},
		"Ed25519":                 {server(t, signKey(t, templateCA("edwards"), edwards, nil), nil), v1alpha1.ReasonCertificateRefused, "is signed with Ed25519"},
		"a small key":             {inSecret(t, signKey(t, &x509.Certificate{DNSNames: names}, small, root), root), v1alpha1.ReasonCertificateRefused, "has an RSA key of 1024 bits"},
		"garbage in the chain":    {longer(garbage), v1alpha1.ReasonCertificateRefused, "has something that is not a certificate"},
		"it is large":             {longer(bytes.Repeat(root.pem(), 400)), v1alpha1.ReasonCertificateRefused, "are larger than 128 KiB"},
	} {
		next, found := input(c.source, kept, kept.Trust, kept.Pair.Certificate).Decide()
		if found.Status != "False" || found.Reason != c.reason || !strings.Contains(found.Message, c.says) || !strings.Contains(found.Message, "the servers present the previous certificate, which is valid until 2026-05-30T12:00:00Z.") {
			t.Errorf("%s: %+v", name, found)
		}
		if string(next.Pair.Certificate) != string(kept.Pair.Certificate) || string(next.Trust) != string(kept.Trust) {
			t.Errorf("%s: the servers get something else", name)
		}
		if next, found = input(c.source, Kept{}, nil, nil).Decide(); len(next.Pair.Certificate)+len(next.Trust) > 0 || !strings.HasSuffix(found.Message, "the servers present Howdah's certificate.") {
			t.Errorf("%s, with nothing before: %+v", name, found)
		}
		late := input(c.source, kept, kept.Trust, kept.Pair.Certificate)
		late.Now = noon.Add(91 * 24 * time.Hour)
		if next, found = late.Decide(); len(next.Pair.Certificate) > 0 || found.Status != "False" {
			t.Errorf("%s, when the last good one has expired: %+v", name, found)
		}
	}
}

// TestACertificateWhoseCAExpiresFirstIsShownUntilThen: replicas and clients refuse it afterwards, although it has not expired itself.
func TestACertificateWhoseCAExpiresFirstIsShownUntilThen(t *testing.T) {
	root := untilThen(t, noon.Add(time.Hour))
	source := server(t, root, nil)
	kept := Kept{Pair: pairIn(source), Trust: root.pem(), Since: noon.Add(-time.Hour)}
	in := input(source, kept, kept.Trust, kept.Pair.Certificate)
	if next, found := in.Decide(); len(next.Pair.Certificate) == 0 || found.Status != "True" || !strings.Contains(found.Message, "valid until 2026-03-01T13:00:00Z") {
		t.Errorf("%+v", found)
	}
	in.Now = noon.Add(2 * time.Hour)
	if next, found := in.Decide(); len(next.Pair.Certificate) > 0 || !strings.Contains(found.Message, "leads to a CA that has expired") || !strings.HasSuffix(found.Message, "the servers present Howdah's certificate.") {
		t.Errorf("%+v", found)
	}
}

// TestNobodyWaitsForAnInstanceWithoutAServer: cloning its data may take hours, and its pod is not to be deleted meanwhile.
func TestNobodyWaitsForAnInstanceWithoutAServer(t *testing.T) {
	root := newCA(t, "root", nil)
	source := server(t, root, nil)
	for name, cloning := range map[string]*agentapi.Status{
		"for the first time": {Rejoin: &agentapi.RejoinStatus{}},
		"anew":               {DataGeneration: "g1", Rejoin: &agentapi.RejoinStatus{}, ServerTLS: &agentapi.ServerTLSStatus{}},
		"it has just begun":  {},
	} {
		in := input(source, Kept{Trust: root.pem()}, root.pem(), nil)
		in.Agents["shop-1"] = cloning
		if next, found := in.Decide(); len(next.Pair.Certificate) == 0 || strings.Contains(found.Message, "shop-1") {
			t.Errorf("%s: %+v", name, found)
		}
		delete(in.Agents, "shop-0")
		if next, found := in.Decide(); len(next.Pair.Certificate) > 0 || found.Message != "No instance has answered yet." {
			t.Errorf("%s, and nobody else answers: %+v", name, found)
		}
	}
}

func TestACertificateBelowAnIntermediateCAIsGoodWithItsChain(t *testing.T) {
	root := newCA(t, "root", nil)
	intermediate := newCA(t, "intermediate", root)
	source := server(t, intermediate, nil)
	source.Data["tls.crt"] = append(source.Data["tls.crt"], intermediate.pem()...)
	source.Data["ca.crt"] = append(newCA(t, "another", nil).pem(), root.pem()...)
	next, found := input(source, Kept{}, nil, nil).Decide()
	if found.Reason != v1alpha1.ReasonApplying || string(next.Trust) != string(root.pem()) {
		t.Errorf("%+v; only the root that it leads to is trusted", found)
	}
}

// TestEverybodyTrustsACABeforeAServerShowsWhatItHasSigned walks the whole way there, to another CA, and back.
func TestEverybodyTrustsACABeforeAServerShowsWhatItHasSigned(t *testing.T) {
	root, other := newCA(t, "root", nil), newCA(t, "other", nil)
	first := server(t, root, nil)
	in := input(first, Kept{}, nil, nil)
	now := noon
	step := func(what string, says string, trusts, shows []byte) {
		t.Helper()
		in.Now = now
		next, found := in.Decide()
		if !strings.Contains(found.Message, says) || string(next.Trust) != string(trusts) || string(next.Pair.Certificate) != string(shows) {
			t.Fatalf("%s: %+v, trusts %d bytes, shows %d", what, found, len(next.Trust), len(next.Pair.Certificate))
		}
		in.Kept = next
	}
	tell := func(instance string, trust, shown []byte) {
		in.Agents[instance] = input(nil, Kept{}, trust, shown).Agents[instance]
	}
	step("the CA comes first", "receive the CA of Secret company first", root.pem(), nil)
	step("nobody has it", "not yet trust the CA of Secret company: shop-0, shop-1.", root.pem(), nil)
	tell("shop-0", root.pem(), nil)
	step("a replica lacks it", "not yet trust the CA of Secret company: shop-1.", root.pem(), nil)
	tell("shop-1", root.pem(), nil)
	step("clients need time", "Clients get the CA of Secret company until 2026-03-01T12:02:00Z", root.pem(), nil)
	now = noon.Add(Settle)
	step("all trust it", "These instances do not yet present the certificate of Secret company: shop-0, shop-1.", root.pem(), first.Data["tls.crt"])
	tell("shop-0", root.pem(), first.Data["tls.crt"])
	step("a replica doesn't show it", "not yet present the certificate of Secret company: shop-1.", root.pem(), first.Data["tls.crt"])
	tell("shop-1", root.pem(), first.Data["tls.crt"])
	step("done", "The servers present the certificate of Secret company, which is valid until", root.pem(), first.Data["tls.crt"])

	renewed := server(t, root, nil)
	in.Source = renewed
	step("a renewal of the same CA waits for nobody", "not yet present", root.pem(), renewed.Data["tls.crt"])
	for _, name := range []string{"shop-0", "shop-1"} {
		tell(name, root.pem(), renewed.Data["tls.crt"])
	}

	moved := server(t, other, nil)
	in.Source = moved
	both := append(append([]byte{}, root.pem()...), other.pem()...)
	step("another CA", "receive the CA", both, renewed.Data["tls.crt"])
	in.Source = nil
	step("the Secret is deleted meanwhile", "There is no Secret company", both, renewed.Data["tls.crt"])
	in.Source = moved
	for _, name := range []string{"shop-0", "shop-1"} {
		tell(name, both, renewed.Data["tls.crt"])
	}
	delete(in.Agents, "shop-1") // lost, and it has everything when it starts
	now = now.Add(Settle)
	step("a failover continues", "not yet present the certificate of Secret company: shop-0.", both, moved.Data["tls.crt"])
	tell("shop-0", both, moved.Data["tls.crt"])
	step("one that doesn't respond may show the old one", "The servers present", both, moved.Data["tls.crt"])
	in.Pods = []string{"shop-0"}
	step("the old CA goes when nobody shows it", "The servers present", other.pem(), moved.Data["tls.crt"])
	step("and that is all", "The servers present", other.pem(), moved.Data["tls.crt"])

	in.Name = ""
	step("the way back", "not yet reported that they present Howdah's certificate again: shop-0.", other.pem(), nil)
	step("a server still shows it", "not yet reported that they present Howdah's certificate again: shop-0.", other.pem(), nil)
	delete(in.Agents, "shop-0")
	step("no agent answers", "not yet reported that they present Howdah's certificate again: shop-0.", other.pem(), nil)
	step("and none does the next time", "not yet reported that they present Howdah's certificate again: shop-0.", other.pem(), nil)
	tell("shop-0", other.pem(), nil)
	step("none does", "", nil, nil)
}

// TestWhatNobodyRunsWaitsForNobody: the instances of a cluster that sleeps get CA and certificate together when they start. Clients get the CA before.
func TestWhatNobodyRunsWaitsForNobody(t *testing.T) {
	root := newCA(t, "root", nil)
	source := server(t, root, nil)
	in := input(source, Kept{}, nil, nil)
	in.Agents, in.Pods, in.Stopped = nil, nil, true
	decide := func() condition.Finding {
		next, found := in.Decide()
		in.Kept = next
		return found
	}
	decide()
	if found := decide(); len(in.Kept.Pair.Certificate) > 0 || !strings.Contains(found.Message, "Clients get the CA of Secret company until 2026-03-01T12:02:00Z") {
		t.Errorf("clients need time: %+v", found)
	}
	in.Now = noon.Add(Settle)
	decide()
	if found := decide(); len(in.Kept.Pair.Certificate) == 0 || found.Status != "True" || !strings.Contains(found.Message, "The servers will present the certificate of Secret company when they start") {
		t.Errorf("%+v", found)
	}
	in.Name = ""
	decide()
	if found := decide(); len(in.Kept.Trust)+len(in.Kept.Pair.Certificate) > 0 || found.Reason != "" {
		t.Errorf("%+v", found)
	}
}

func TestAClusterThatHasNeverRunBeginsWithIt(t *testing.T) {
	root := newCA(t, "root", nil)
	source := server(t, root, nil)
	in := input(source, Kept{}, nil, nil)
	in.Agents, in.Fresh = nil, true
	next, _ := in.Decide()
	if string(next.Pair.Certificate) != string(source.Data["tls.crt"]) || string(next.Trust) != string(root.pem()) {
		t.Error("it begins with another certificate")
	}
	renewed := server(t, root, nil)
	again := input(renewed, next, next.Trust, next.Pair.Certificate)
	if next, found := again.Decide(); string(next.Pair.Certificate) != string(renewed.Data["tls.crt"]) {
		t.Errorf("a renewal a moment later waits for clients that have known the CA from the start: %+v", found)
	}
}

func TestAnAgentThatCantUseACertificateIsQuoted(t *testing.T) {
	root := newCA(t, "root", nil)
	source := server(t, root, nil)
	in := input(source, Kept{Pair: pairIn(source), Trust: root.pem()}, root.pem(), nil)
	in.Agents["shop-1"].ServerTLS.Problem = "It can't."
	if _, found := in.Decide(); found.Reason != v1alpha1.ReasonCertificateRefused || found.Message != "Instance shop-1: It can't." {
		t.Errorf("%+v", found)
	}
	in = input(source, Kept{Trust: root.pem()}, root.pem(), nil)
	in.Agents["shop-1"].ServerTLS = nil
	if next, found := in.Decide(); len(next.Pair.Certificate) > 0 || !strings.Contains(found.Message, "shop-1 has an agent of an earlier version") {
		t.Errorf("%+v", found)
	}
}
