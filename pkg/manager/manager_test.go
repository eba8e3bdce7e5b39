package manager

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://api.example:6443", PROXY}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {token: t}}]
current-context: c
`

// A proxy that is set for the object store must not get the requests to the API server, to which it may not lead at all.
func TestTheAPIServerIsReachedDirectlyWhateverProxyIsSet(t *testing.T) {
	for name, c := range map[string]struct{ cluster, dialled string }{
		"with HTTPS_PROXY":                {"insecure-skip-tls-verify: true", "api.example:6443"},
		"with a proxy for the API server": {"proxy-url: http://way-in.example:8080", "way-in.example:8080"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "kubeconfig")
			if err := os.WriteFile(file, []byte(strings.Replace(kubeconfig, "PROXY", c.cluster, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			t.Setenv("KUBECONFIG", file)
			t.Setenv("HTTPS_PROXY", "http://proxy.example:3128") // Go reads it once, when the first request is sent
			config, err := apiServer("db-controller")
			if err != nil {
				t.Fatal(err)
			}
			var dialled string
			config.Dial = func(_ context.Context, _, address string) (net.Conn, error) {
				dialled = address
				return nil, errors.New("not in a test")
			}
			client, err := rest.HTTPClientFor(config)
			if err != nil {
				t.Fatal(err)
			}
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+"/api", nil)
			if err != nil {
				t.Fatal(err)
			}
			if response, err := client.Do(request); err == nil {
				_ = response.Body.Close()
			}
			if dialled != c.dialled {
				t.Errorf("it connects to %s", dialled)
			}
		})
	}
}
