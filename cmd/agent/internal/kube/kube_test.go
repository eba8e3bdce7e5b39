package kube

import (
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

func client(t *testing.T, handler http.HandlerFunc) (*Client, string) {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	c, err := New(server.URL, ca, token)
	if err != nil {
		t.Fatal(err)
	}
	return c, token
}

func TestAnApplyIsOneOfItsManagerWithTheTokenOfToday(t *testing.T) {
	var got []string
	c, token := client(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, r.Method+" "+r.URL.String()+" "+r.Header.Get("Content-Type")+" "+r.Header.Get("Authorization")+" "+string(body))
	})
	for _, text := range []string{"one", "two"} {
		if err := os.WriteFile(token, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := c.Apply(t.Context(), "/apis/x/v1/y", "me", map[string]string{"kind": "Y"}); err != nil {
			t.Fatal(err)
		}
		want := `PATCH /apis/x/v1/y?fieldManager=me&force=true application/apply-patch+yaml Bearer ` + text + ` {"kind":"Y"}`
		if last := got[len(got)-1]; last != want {
			t.Errorf("got  %s\nwant %s", last, want)
		}
	}
}

func TestARefusalSaysWhatTheServerSays(t *testing.T) {
	c, _ := client(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"kind":"Status","reason":"NotFound","message":"y \"z\" not found"}`)
	})
	err := c.Get(t.Context(), "/apis/x/v1/y/z", &struct{}{})
	if !IsNotFound(err) || IsConflict(err) || err.Error() != `Kubernetes answers 404 NotFound: y "z" not found` {
		t.Error(err)
	}
}
