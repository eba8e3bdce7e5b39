package s3_test

import (
	"errors"
	"path/filepath"
	"testing"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/s3"
)

func TestOnlyTheConfigSaysWhereTheServerIs(t *testing.T) {
	t.Setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
	t.Setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "none"))
	store, err := s3.Open(t.Context(), objstore.Config{
		Driver: objstore.DriverAWS, Bucket: "backups", Region: "us-east-1", Credentials: &objstore.Credentials{AccessKeyID: "a", SecretAccessKey: "s"},
		Dial: objstore.DialPolicy{APIServerName: "backups.s3.us-east-1.amazonaws.com"}, // which is refused before anything is dialled
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Get(t.Context(), "k", 1); !errors.Is(err, objstore.ErrConfig) {
		t.Errorf("the environment leads to another server than that of AWS: %v", err)
	}
}
