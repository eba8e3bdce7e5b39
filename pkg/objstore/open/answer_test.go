package open_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/open"
	"howdah.dev/howdah/pkg/objstore/retry"
)

// A server may refuse a request before it has read its body, and end the connection: then what it says can get lost.
func TestARefusalThatBreaksOffIsAskedForAgain(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/xml")
		w.Header().Set("Content-Length", "300")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`<?xml version="1.0" encoding="UTF-8"?><Error><Co`)) // less than announced: the connection ends
	}))
	defer server.Close()
	for _, driver := range []string{objstore.DriverAWS, objstore.DriverMinIO} {
		store, err := open.Plain(t.Context(), objstore.Config{
			Driver: driver, Endpoint: server.URL, Insecure: true, Region: "us-east-1", Bucket: "b", PathStyle: true,
			Credentials: &objstore.Credentials{AccessKeyID: "id", SecretAccessKey: "secret"},
		})
		if err != nil {
			t.Fatal(err)
		}
		err = store.Put(t.Context(), "x", []byte("x"), objstore.PutOptions{})
		if !retry.Retryable(err) || errors.Is(err, objstore.ErrDenied) {
			t.Errorf("%s: got %v", driver, err)
		}
	}
}
