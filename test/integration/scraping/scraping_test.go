//go:build integration

// Package scraping reads the metrics of a controller's process as Prometheus does, with tokens of a real API server.
package scraping

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"

	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/test/testkit/apiserver"
)

func TestMain(m *testing.M) { apiserver.Main(m) }

// kubeconfig leads to the API server as the account of a controller.
func kubeconfig(t *testing.T, controller string) {
	t.Helper()
	to, file := apiserver.Config(), filepath.Join(t.TempDir(), "kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": {Server: to.Host, CertificateAuthorityData: to.CAData}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": {
			ClientCertificateData: to.CertData, ClientKeyData: to.KeyData,
			Impersonate:       "system:serviceaccount:howdah-system:" + controller,
			ImpersonateGroups: []string{"system:serviceaccounts", "system:serviceaccounts:howdah-system", "system:authenticated"},
		}},
		Contexts: map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}}, CurrentContext: "x",
	}, file)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", file)
}

// serve runs the manager of a controller until the test ends, and says where its metrics are.
func serve(t *testing.T, controller string, options manager.Options) (address string) {
	t.Helper()
	apiserver.InstallBoundaries(t)
	kubeconfig(t, controller)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	options.MetricsAddress, options.ProbeAddress, options.LogLevel, options.LogFormat = address, "0", "error", "json"
	mgr, err := manager.New(controller, options, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	awaitPort(t, address)
	return address
}

func awaitPort(t *testing.T, address string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		if connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address); err == nil {
			_ = connection.Close()
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal("nobody listens on " + address)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// account makes a ServiceAccount and returns a token of it.
func account(t *testing.T, mayRead bool) string {
	t.Helper()
	c := apiserver.Client(t)
	namespace := apiserver.Namespace(t, c)
	who := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "prometheus", Namespace: namespace}}
	if err := c.Create(t.Context(), who); err != nil {
		t.Fatal(err)
	}
	if mayRead {
		if err := c.Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: namespace},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "howdah-metrics-reader"},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: who.Name, Namespace: namespace}},
		}); err != nil {
			t.Fatal(err)
		}
	}
	request := &authenticationv1.TokenRequest{}
	if err := c.SubResource("token").Create(t.Context(), who, request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// get reads a path over TLS with a token, or without.
func get(t *testing.T, address, token string, config *tls.Config) (status int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{TLSClientConfig: config}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(content)
}

// anyCertificate is how a Prometheus reads whose operator doesn't give the controllers a certificate.
func anyCertificate() *tls.Config { return &tls.Config{InsecureSkipVerify: true} }

func TestOnlyWhoMayReadMetricsIsGivenThem(t *testing.T) {
	for _, controller := range []string{"db-controller", "backup-controller", "restore-controller", "upgrade-controller", "pooler-controller", "drill-controller"} {
		t.Run(controller, func(t *testing.T) {
			address := serve(t, controller, manager.Options{})
			stranger, reader := account(t, false), account(t, true)
			for _, c := range []struct {
				who, token string
				want       int
			}{
				{"nobody", "", http.StatusUnauthorized},
				{"a token that no one issued", "made-up", http.StatusUnauthorized},
				{"a token whose signature is wrong", reader[:len(reader)-8] + "AAAAAAAA", http.StatusUnauthorized},
				{"an account without the role", stranger, http.StatusForbidden},
				{"an account with the role", reader, http.StatusOK},
				{"the same, from what is remembered", reader, http.StatusOK},
				{"an account without the role, after one with it", stranger, http.StatusForbidden},
			} {
				status, body := get(t, address, c.token, anyCertificate())
				if has := strings.Contains(body, "go_goroutines"); status != c.want || has != (c.want == http.StatusOK) {
					t.Errorf("%s: status %d, want %d; metrics: %t; %.200s", c.who, status, c.want, has, body)
				}
			}
		})
	}
}

func TestMetricsCanBeServedWithoutAuthenticationWhereAPersonAsksForThat(t *testing.T) {
	address := serve(t, "db-controller", manager.Options{MetricsForAll: true})
	if status, body := get(t, address, "", anyCertificate()); status != http.StatusOK || !strings.Contains(body, "go_goroutines") {
		t.Errorf("status %d: %s", status, body)
	}
}

func TestMetricsAreServedWithTheCertificateThatIsGiven(t *testing.T) {
	certificate, key, err := cert.GenerateSelfSignedCertKey("howdah-metrics.howdah-system.svc", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for name, content := range map[string][]byte{"tls.crt": certificate, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	address := serve(t, "db-controller", manager.Options{MetricsCertificates: folder})
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(certificate)
	status, _ := get(t, address, account(t, true), &tls.Config{RootCAs: trusted, ServerName: "howdah-metrics.howdah-system.svc"})
	if status != http.StatusOK {
		t.Errorf("status %d", status)
	}
}

// A certificate of its own instead of the one that is wanted would only show at Prometheus.
func TestAControllerSaysThatItsCertificateIsMissing(t *testing.T) {
	kubeconfig(t, "db-controller")
	folder := t.TempDir()
	_, err := manager.New("db-controller", manager.Options{MetricsAddress: "127.0.0.1:0", MetricsCertificates: folder, LogLevel: "error", LogFormat: "json"}, nil)
	want := fmt.Sprintf("%s/tls.crt and tls.key", folder)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want a message with %q", err, want)
	}
}
