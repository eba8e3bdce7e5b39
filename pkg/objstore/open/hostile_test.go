package open_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/open"
)

var bothDrivers = []string{objstore.DriverAWS, objstore.DriverMinIO}

func at(t *testing.T, driver, endpoint string, policy objstore.DialPolicy) objstore.Store {
	t.Helper()
	store, err := open.Plain(t.Context(), objstore.Config{
		Driver: driver, Endpoint: endpoint, Insecure: true, Region: "us-east-1", Bucket: "bucket", PathStyle: true, Dial: policy,
		Credentials: &objstore.Credentials{AccessKeyID: "id", SecretAccessKey: "secret"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// everything is what a server can be asked for.
func everything(t *testing.T, store objstore.Store) []error {
	_, errGet := store.Get(t.Context(), "x", 100)
	_, errRead := store.ReadAt(t.Context(), "x", make([]byte, 10), 0)
	_, errStat := store.Stat(t.Context(), "x")
	errs := []error{errGet, errRead, errStat, store.Put(t.Context(), "x", []byte("x"), objstore.PutOptions{}), store.Delete(t.Context(), "x")}
	for _, err := range store.List(t.Context(), "", "") {
		errs = append(errs, err)
	}
	return errs
}

func TestAnAddressThatIsNoBucketIsNotDialled(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer server.Close()
	for _, driver := range bothDrivers {
		for endpoint, policy := range map[string]objstore.DialPolicy{
			server.URL: {NoLoopback: true},
			strings.Replace(server.URL, "127.0.0.1", "localhost", 1): {NoLoopback: true},
			strings.Replace(server.URL, "127.0.0.1", "LOCALHOST", 1): {APIServerName: "localhost"},
			"http://169.254.169.254":                                 {},
			"http://[fe80::1]":                                       {},
		} {
			for _, err := range everything(t, at(t, driver, endpoint, policy)) {
				if !errors.Is(err, objstore.ErrConfig) || !strings.HasPrefix(objstore.Explain(err), "The endpoint leads to ") {
					t.Errorf("%s at %s: %v", driver, endpoint, err)
				}
			}
		}
	}
	if asked.Load() > 0 {
		t.Errorf("the server was asked %d times", asked.Load())
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, driver := range bothDrivers {
			var asked atomic.Int64
			inner := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, inner.URL+"/latest/meta-data", status)
			}))
			for _, err := range everything(t, at(t, driver, server.URL, objstore.DialPolicy{})) {
				if err == nil {
					t.Errorf("%s: a redirect with status %d was taken for an answer", driver, status)
				}
			}
			if asked.Load() > 0 {
				t.Errorf("%s followed %d redirects with status %d", driver, asked.Load(), status)
			}
			server.Close()
			inner.Close()
		}
	}
}

func TestWhatAServerSaysThatIsNoS3IsNotTold(t *testing.T) {
	for _, status := range []int{200, 302, 400, 401, 404, 418, 500, 503} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://internal.example/s3cret-location")
			w.WriteHeader(status)
			_, _ = w.Write([]byte("<html>s3cret-body of an internal service</html>"))
		}))
		for _, driver := range bothDrivers {
			for _, err := range everything(t, at(t, driver, server.URL, objstore.DialPolicy{})) {
				if says := objstore.Explain(err); strings.Contains(says, "s3cret") {
					t.Errorf("%s, status %d: %s", driver, status, says)
				}
			}
		}
		server.Close()
	}
}

func TestAnEndlessAnswerIsCutOff(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusInternalServerError} {
		for _, driver := range bothDrivers {
			var sent atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/xml")
				w.WriteHeader(status)
				_, err := w.Write([]byte("<ListBucketResult><Name>"))
				for filling := []byte(strings.Repeat("x", 16<<10)); err == nil && sent.Load() < 256<<20; sent.Add(int64(len(filling))) {
					_, err = w.Write(filling)
				}
			}))
			for _, err := range at(t, driver, server.URL, objstore.DialPolicy{}).List(t.Context(), "", "") {
				if err == nil {
					t.Errorf("%s took it for a list", driver)
				}
				break
			}
			server.Close() // waits for the handler
			if sent.Load() > 64<<20 {
				t.Errorf("%s, status %d: %d MiB were read", driver, status, sent.Load()>>20)
			}
		}
	}
}

// TestAnObjectWithoutEndIsCutOff: the clients read an answer to its end that they can't make out.
func TestAnObjectWithoutEndIsCutOff(t *testing.T) {
	for header, value := range map[string]string{"Date": "", "Last-Modified": "never", "X-Amz-Tagging-Count": "many", "Expires": "never"} {
		for _, driver := range bothDrivers {
			var sent atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Last-Modified", "Wed, 04 Mar 2026 05:06:07 GMT")
				w.Header().Set(header, value)
				var err error
				for filling := []byte(strings.Repeat("x", 16<<10)); err == nil && sent.Load() < 256<<20; sent.Add(int64(len(filling))) {
					_, err = w.Write(filling)
				}
			}))
			store := at(t, driver, server.URL, objstore.DialPolicy{})
			if _, err := store.Get(t.Context(), "x", 100); err == nil {
				t.Errorf("%s took it for an object", driver)
			}
			_, _ = store.ReadAt(t.Context(), "x", make([]byte, 10), 0) // a part of it may be taken
			server.Close()                                             // waits for the handlers
			if sent.Load() > 64<<20 {
				t.Errorf("%s, %s: %d MiB were read", driver, header, sent.Load()>>20)
			}
		}
	}
}
