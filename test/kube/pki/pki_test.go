package pki

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"testing"
	"time"
)

func TestACertificateIsTrustedForItsNamesOnly(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	made, err := NewAuthority("test", now)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := made.Save(folder); err != nil {
		t.Fatal(err)
	}
	authority, err := LoadAuthority(folder)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue(Identity{CommonName: "system:node:w1", Organization: "system:nodes", Names: []string{"w1", "192.0.2.1"}}, now)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(made.PEM)
	for name, trusted := range map[string]bool{"w1": true, "192.0.2.1": true, "w2": false, "192.0.2.2": false} {
		_, err := loaded.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: name, CurrentTime: now})
		if (err == nil) != trusted {
			t.Errorf("%s: %v", name, err)
		}
	}
	if subject := loaded.Leaf.Subject.String(); subject != "CN=system:node:w1,O=system:nodes" {
		t.Errorf("Kubernetes would see %s", subject)
	}
}

func TestAKubeconfigNeedsNoOtherFile(t *testing.T) {
	content, err := Kubeconfig("https://192.0.2.1:6443", "test", []byte("authority"), Pair{Certificate: []byte("certificate"), Key: []byte("key")})
	if err != nil {
		t.Fatal(err)
	}
	var parsed struct {
		Clusters []struct {
			Cluster struct {
				Server    string
				Authority []byte `json:"certificate-authority-data"`
			}
		}
		Users []struct {
			User struct {
				Certificate []byte `json:"client-certificate-data"`
				Key         []byte `json:"client-key-data"`
			}
		}
	}
	if err := json.Unmarshal(content, &parsed); err != nil {
		t.Fatal(err)
	}
	cluster, user := parsed.Clusters[0].Cluster, parsed.Users[0].User
	if cluster.Server != "https://192.0.2.1:6443" || string(cluster.Authority) != "authority" || string(user.Certificate) != "certificate" || string(user.Key) != "key" {
		t.Errorf("got %s", content)
	}
}
