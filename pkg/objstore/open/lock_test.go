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

// TestEveryBodyHasItsChecksum, and only of a server that doesn't know checksums the refusal is met, once.
func TestEveryBodyHasItsChecksum(t *testing.T) {
	for _, driver := range []string{objstore.DriverAWS, objstore.DriverMinIO} {
		for _, knows := range []bool{true, false} {
			refused, taken := 0, 0
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				sum := binary.BigEndian.AppendUint32(nil, crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
				header := r.Header.Get("X-Amz-Checksum-Crc32c")
				if !knows && header != "" {
					refused++
					w.WriteHeader(http.StatusNotImplemented)
					_, _ = io.WriteString(w, "<Error><Code>NotImplemented</Code><Message>A header you provided implies functionality that is not implemented.</Message></Error>")
					return
				}
				if knows && header != base64.StdEncoding.EncodeToString(sum) {
					t.Errorf("%s sends the checksum %q", driver, header)
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
			if refused != map[bool]int{true: 0, false: 1}[knows] || taken != 3 {
				t.Errorf("%s: %d refused, %d taken", driver, refused, taken)
			}
		}
	}
}
