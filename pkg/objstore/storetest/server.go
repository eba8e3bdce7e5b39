package storetest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"howdah.dev/howdah/pkg/objstore"
)

// Server is a place of its own on the S3 server that the environment names.
func Server(t testing.TB, driver string) objstore.Config {
	t.Helper()
	endpoint := os.Getenv("S3_ENDPOINT")
	if endpoint == "" {
		t.Skip("S3_ENDPOINT names no server")
	}
	bundle, err := os.ReadFile(os.Getenv("S3_CA_FILE"))
	if err != nil {
		t.Fatal(err)
	}
	return objstore.Config{
		Driver: driver, Endpoint: endpoint, Region: os.Getenv("AWS_REGION"), Bucket: os.Getenv("S3_BUCKET"), PathStyle: true,
		Prefix: fmt.Sprintf("test-%x", rand.Uint32()), CABundle: string(bundle),
	}
}
