package kube

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"howdah.dev/howdah/test/testkit/authority"
)

func client(t *testing.T, handler http.HandlerFunc) (*Client, string) {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	token, ca := filepath.Join(t.TempDir(), "token"), filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(token, []byte("one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	trust(t, ca, server.Certificate().Raw)
	c, err := New(server.URL, ca, token)
	if err != nil {
		t.Fatal(err)
	}
	return c, token
}

// trust writes the file of the CA.
func trust(t *testing.T, file string, certificate []byte) {
	t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestARunningAgentTrustsTheNextCAOfTheAPIServer(t *testing.T) {
	protocol := ""
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protocol = r.Proto
		_, _ = io.WriteString(w, "{}")
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	token, ca := filepath.Join(t.TempDir(), "token"), filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(token, []byte("one"), 0o600); err != nil {
		t.Fatal(err)
	}
	trust(t, ca, authority.New(t).Certificate.Raw)
	c, err := New(server.URL, ca, token)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), "/x", &struct{}{}); !errors.As(err, &x509.UnknownAuthorityError{}) {
		t.Errorf("a server of another CA: %v", err)
	}
	trust(t, ca, server.Certificate().Raw)
	if err := c.Get(t.Context(), "/x", &struct{}{}); err != nil {
		t.Errorf("after the CA was replaced: %v", err)
	}
	if protocol != "HTTP/2.0" {
		t.Errorf("it speaks %s", protocol)
	}
}

func TestTheClockIsComparedWithTheServers(t *testing.T) {
	offset := time.Duration(0)
	c, _ := client(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(offset).UTC().Format(http.TimeFormat))
	})
	for _, offset = range []time.Duration{0, time.Hour, -time.Hour} {
		if ahead, err := c.Clock(t.Context()); err != nil || (ahead+offset).Abs() > 3*time.Second {
			t.Errorf("%v ahead of one that is %v ahead: %v", ahead, offset, err)
		}
	}
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

func TestACreateForcesNothingAndReadsWhatCameOfIt(t *testing.T) {
	c, _ := client(t, func(w http.ResponseWriter, r *http.Request) {
		if got := r.Method + " " + r.URL.String() + " " + r.Header.Get("Content-Type"); got != "PATCH /apis/x/v1/y?fieldManager=me application/apply-patch+yaml" {
			t.Error(got)
		}
		_, _ = io.WriteString(w, `{"kind":"Y","version":"7"}`)
	})
	into := struct{ Version string }{}
	if err := c.Create(t.Context(), "/apis/x/v1/y", "me", map[string]string{"kind": "Y"}, &into); err != nil || into.Version != "7" {
		t.Errorf("%v, %+v", err, into)
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

func TestAWatchBeginsWithAVersionOrWithTheObject(t *testing.T) {
	var got url.Values
	c, _ := client(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.URL.Query()
		_, _ = io.WriteString(w, `{"type":"ADDED","object":{"a":1}}`+"\n"+`{"type":"BOOKMARK","object":{}}`+"\n"+`{"type":"MODIFIED","object":{"a":2}}`+"\n")
	})
	for _, x := range []struct {
		version string
		begins  url.Values
	}{
		{"7", url.Values{"resourceVersion": {"7"}}},
		{"", url.Values{"sendInitialEvents": {"true"}, "resourceVersionMatch": {"NotOlderThan"}, "allowWatchBookmarks": {"true"}}},
	} {
		seen := ""
		err := c.Watch(t.Context(), "/folder", "shop", x.version, func(object json.RawMessage) error {
			seen += string(object)
			return nil
		})
		x.begins["watch"], x.begins["fieldSelector"], x.begins["timeoutSeconds"] = []string{"true"}, []string{"metadata.name=shop"}, []string{"540"}
		if err != nil || seen != `{"a":1}{"a":2}` || !reflect.DeepEqual(got, x.begins) {
			t.Errorf("from version %q: saw %s, asked for %v: %v", x.version, seen, got, err)
		}
	}
}
