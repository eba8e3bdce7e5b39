// Package lockedbucket makes buckets with an object lock on a real server, for tests, and tries to destroy what is in them.
package lockedbucket

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"howdah.dev/howdah/pkg/objstore"
)

// Raw is a bucket as somebody uses it who wants to destroy what is in it.
type Raw struct {
	client *minio.Client
	bucket string
}

// Make makes the bucket of a config with an object lock of a day, and says whether the server has such. What is in it
// goes with the server's folder.
func Make(t testing.TB, config objstore.Config) (*Raw, bool) {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(config.CABundle))
	client, err := minio.New(strings.TrimPrefix(config.Endpoint, "https://"), &minio.Options{
		Creds: login(config), Secure: true, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}},
	})
	if err == nil {
		err = client.MakeBucket(t.Context(), config.Bucket, minio.MakeBucketOptions{ObjectLocking: true})
	}
	if code := minio.ToErrorResponse(err).Code; code == "NotImplemented" || code == "VersioningNotConfigured" {
		return nil, false
	}
	if err != nil {
		t.Fatal(err)
	}
	if versioning, err := client.GetBucketVersioning(t.Context(), config.Bucket); err != nil || !versioning.Enabled() {
		t.Logf("the bucket has no versions: %v, %v", versioning.Status, err)
		return nil, false
	}
	mode, days, unit := minio.Governance, uint(1), minio.Days
	if err := client.SetObjectLockConfig(t.Context(), config.Bucket, &mode, &days, &unit); err != nil {
		t.Fatal(err)
	}
	return &Raw{client, config.Bucket}, true
}

// login is that of the config, or else of the environment.
func login(config objstore.Config) *credentials.Credentials {
	if config.Credentials == nil {
		return credentials.NewEnvAWS()
	}
	return credentials.NewStaticV4(config.Credentials.AccessKeyID, config.Credentials.SecretAccessKey, config.Credentials.SessionToken)
}

// RemoveVersions removes all versions of an object for good; the key has the prefix. It returns what the server refuses.
func (r *Raw) RemoveVersions(t testing.TB, key string) error {
	t.Helper()
	for o := range r.client.ListObjectsIter(t.Context(), r.bucket, minio.ListObjectsOptions{Prefix: key, Recursive: true, WithVersions: true}) {
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		if err := r.client.RemoveObject(context.Background(), r.bucket, o.Key, minio.RemoveObjectOptions{VersionID: o.VersionID}); err != nil {
			return err
		}
	}
	return nil
}
