package open

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"howdah.dev/howdah/pkg/objstore"
)

// TestABucketThatWantsChecksumsGetsThem, as one with an object lock does: the refusal is met once.
func TestABucketThatWantsChecksumsGetsThem(t *testing.T) {
	for _, driver := range []string{objstore.DriverAWS, objstore.DriverMinIO} {
		t.Run(driver, func(t *testing.T) {
			refused, taken := 0, 0
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				sum := binary.BigEndian.AppendUint32(nil, crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
				if r.Header.Get("X-Amz-Checksum-Crc32c") != base64.StdEncoding.EncodeToString(sum) {
					refused++
					w.WriteHeader(http.StatusBadRequest)
					_, _ = io.WriteString(w, "<Error><Code>InvalidRequest</Code><Message>Content-MD5 OR x-amz-checksum- HTTP header is required for Put Object requests with Object Lock parameters</Message></Error>")
					return
				}
				taken++
				w.Header().Set("ETag", `"x"`)
			}))
			defer server.Close()
			bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
			store, err := Plain(t.Context(), objstore.Config{
				Driver: driver, Endpoint: server.URL, Bucket: "bucket", PathStyle: true, CABundle: string(bundle),
				Credentials: &objstore.Credentials{AccessKeyID: "id", SecretAccessKey: "secret"},
			})
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if err := store.Put(t.Context(), "key", []byte("body"), objstore.PutOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			if refused != 1 || taken != 3 {
				t.Errorf("%d refused, %d taken", refused, taken)
			}
		})
	}
}
