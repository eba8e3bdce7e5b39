package open

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"howdah.dev/howdah/pkg/objstore"
)

func TestTheServerIsAskedToEncryptAsConfigured(t *testing.T) {
	asked := make(chan http.Header, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			asked <- r.Header
		}
		w.Header().Set("ETag", `"x"`)
	}))
	defer server.Close()
	for name, test := range map[string]struct {
		by              *objstore.ServerSide
		algorithm, keys string
	}{
		"not at all":       {nil, "", ""},
		"with its own key": {&objstore.ServerSide{}, "AES256", ""},
		"with the default": {&objstore.ServerSide{KMS: true}, "aws:kms", ""},
		"with a named key": {&objstore.ServerSide{KMS: true, Key: "arn:a"}, "aws:kms", "arn:a"},
	} {
		for _, driver := range []string{objstore.DriverAWS, objstore.DriverMinIO} {
			t.Run(driver+" "+name, func(t *testing.T) {
				store, err := Plain(t.Context(), objstore.Config{
					Driver: driver, Endpoint: server.URL, Insecure: true, Bucket: "bucket", PathStyle: true, ServerSide: test.by,
					Credentials: &objstore.Credentials{AccessKeyID: "id", SecretAccessKey: "secret"},
				})
				if err != nil {
					t.Fatal(err)
				}
				if err := store.Put(t.Context(), "key", []byte("x"), objstore.PutOptions{}); err != nil {
					t.Fatal(err)
				}
				got := <-asked
				if got.Get("X-Amz-Server-Side-Encryption") != test.algorithm || got.Get("X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id") != test.keys {
					t.Errorf("asked for %q with key %q", got.Get("X-Amz-Server-Side-Encryption"), got.Get("X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id"))
				}
			})
		}
	}
}
