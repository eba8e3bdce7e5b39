//go:build s3

package open_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/open"
	"howdah.dev/howdah/pkg/objstore/storetest"
)

var drivers = []string{objstore.DriverAWS, objstore.DriverMinIO}

// server is the S3 server that the environment names.
func server(t *testing.T, driver string) objstore.Config {
	t.Helper()
	endpoint := os.Getenv("S3_ENDPOINT")
	if endpoint == "" {
		t.Skip("S3_ENDPOINT names no server")
	}
	bundle := ""
	if path := os.Getenv("S3_CA_FILE"); path != "" {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		bundle = string(content)
	}
	return objstore.Config{
		Driver: driver, Endpoint: endpoint, Region: os.Getenv("AWS_REGION"), Bucket: os.Getenv("S3_BUCKET"), PathStyle: true,
		Prefix: fmt.Sprintf("conformance-%x", rand.Uint32()), CABundle: bundle,
	}
}

func plain(t *testing.T, config objstore.Config) objstore.Store {
	t.Helper()
	store, err := open.Plain(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func TestARealServerConforms(t *testing.T) {
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) { storetest.Run(t, plain(t, server(t, driver))) })
		t.Run(driver+" at the bucket's root", func(t *testing.T) {
			config := server(t, driver)
			config.Prefix = ""
			storetest.Run(t, plain(t, config))
		})
	}
}

func TestARealServerConformsWhenObjectsAreSealed(t *testing.T) {
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			entries := objstore.KeyEntries{"k1": []byte(strings.Repeat("ab", 32))}
			storetest.Run(t, open.Sealed(plain(t, server(t, driver)), &objstore.Encryption{Entries: entries}))
		})
	}
}

func TestARealServerPassesTheProbe(t *testing.T) {
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			store := plain(t, server(t, driver))
			for _, finding := range objstore.Probe(t.Context(), store, "t1") {
				t.Errorf("%s: %s", finding.Ability, finding.Message)
			}
			for info := range store.List(t.Context(), "", "") {
				t.Errorf("left behind: %s", info.Key)
			}
		})
	}
}

func TestCredentialsComeFromAFolderAndAreReadAgain(t *testing.T) {
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			config := server(t, driver)
			config.CredentialsDir = t.TempDir()
			for _, name := range []string{objstore.AccessKeyIDFile, objstore.SecretAccessKeyFile} {
				if err := os.WriteFile(filepath.Join(config.CredentialsDir, name), []byte(os.Getenv(name)+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := plain(t, config).Stat(t.Context(), "x"); !errors.Is(err, objstore.ErrNotFound) {
				t.Errorf("got %v", err)
			}
			config.CredentialsDir = t.TempDir()
			_, err := plain(t, config).Stat(t.Context(), "x")
			if !errors.Is(err, objstore.ErrConfig) || !strings.Contains(objstore.Explain(err), objstore.AccessKeyIDFile) {
				t.Errorf("without files: %v", objstore.Explain(err))
			}
		})
	}
}

func TestWhatIsWrongIsSaidInASentence(t *testing.T) {
	for _, driver := range drivers {
		for _, test := range []struct {
			name   string
			change func(*objstore.Config)
			kind   error
			says   string
		}{
			{"no such bucket", func(c *objstore.Config) { c.Bucket = "no-such-bucket-here" }, objstore.ErrNoBucket, "There is no bucket no-such-bucket-here"},
			{"unknown access key", func(c *objstore.Config) {
				c.Credentials = &objstore.Credentials{AccessKeyID: "AKIDUNKNOWNUNKNOWN00", SecretAccessKey: "wrongwrongwrongwrong"}
			}, objstore.ErrDenied, "access key"},
			{"wrong secret", func(c *objstore.Config) {
				c.Credentials = &objstore.Credentials{AccessKeyID: os.Getenv("AWS_ACCESS_KEY_ID"), SecretAccessKey: "wrongwrongwrongwrong"}
			}, objstore.ErrDenied, "secret access key"},
			{"certificate not trusted", func(c *objstore.Config) { c.CABundle = "" }, objstore.ErrUnavailable, "is not trusted"},
			{"nobody listens", func(c *objstore.Config) { c.Endpoint = "https://127.0.0.1:9" }, objstore.ErrUnavailable, "refuses the connection"},
			{"no such host", func(c *objstore.Config) { c.Endpoint = "https://nowhere.invalid" }, objstore.ErrUnavailable, "can't be found"},
			{"plain HTTP to a TLS port", func(c *objstore.Config) { c.Endpoint = "http" + strings.TrimPrefix(c.Endpoint, "https") }, nil, ""},
		} {
			t.Run(driver+": "+test.name, func(t *testing.T) {
				config := server(t, driver)
				test.change(&config)
				err := plain(t, config).Put(t.Context(), "x", []byte("x"), objstore.PutOptions{})
				said := objstore.Explain(err)
				t.Log(said)
				if err == nil || (test.kind != nil && !errors.Is(err, test.kind)) || !strings.Contains(said, test.says) {
					t.Errorf("got %v, which is said as %q", err, said)
				}
				if strings.Contains(said+err.Error(), "wrongwrong") {
					t.Error("the secret is in the error")
				}
			})
		}
	}
}

func TestAPutThatIsCancelledLeavesNothing(t *testing.T) {
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			store := plain(t, server(t, driver))
			body := make([]byte, 64<<20)
			for round := range 5 {
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error)
				key := fmt.Sprintf("cancelled-%d", round)
				go func() { done <- store.Put(ctx, key, body, objstore.PutOptions{}) }()
				cancel()
				err := <-done
				info, errStat := store.Stat(t.Context(), key)
				if err != nil && errStat == nil && info.Size != int64(len(body)) {
					t.Errorf("a partial object of %d bytes is seen", info.Size)
				}
				_ = store.Delete(t.Context(), key)
			}
		})
	}
}

// TestABucketWithAnObjectLock takes objects, hides those that are deleted, and says that it keeps them.
func TestABucketWithAnObjectLock(t *testing.T) {
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			config := server(t, driver)
			if kept, err := plain(t, config).Kept(t.Context()); err != nil || kept != (objstore.Kept{}) {
				t.Errorf("a bucket without versions: %+v, %v", kept, err)
			}
			config.Bucket = fmt.Sprintf("locked-%x", rand.Uint32())
			if !makeLocked(t, config) {
				t.Skip("the server has no object lock")
			}
			store := plain(t, config)
			for _, body := range []string{"first", "second one", "third"} {
				if err := store.Put(t.Context(), "a/b", []byte(body), objstore.PutOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			if err := store.Put(t.Context(), "a/b", nil, objstore.PutOptions{IfAbsent: true}); !errors.Is(err, objstore.ErrExists) {
				t.Errorf("a taken key: %v", err)
			}
			if err := store.Delete(t.Context(), "a/b"); err != nil {
				t.Fatal(err)
			}
			if _, err := store.Get(t.Context(), "a/b", 100); !errors.Is(err, objstore.ErrNotFound) {
				t.Errorf("after it was deleted: %v", err)
			}
			want := objstore.Kept{Versions: true, LockMode: "GOVERNANCE", LockFor: 24 * time.Hour, Objects: 3, Bytes: 20}
			if kept, err := store.Kept(t.Context()); err != nil || kept != want {
				t.Errorf("kept %+v, %v", kept, err)
			}
			if findings := objstore.Probe(t.Context(), store, "t1"); len(findings) > 0 {
				t.Errorf("the probe finds %+v", findings)
			}
		})
	}
}

// makeLocked makes a bucket with an object lock of a day, and says whether the server has such. What is in it goes with the
// server's folder.
func makeLocked(t *testing.T, config objstore.Config) bool {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(config.CABundle))
	client, err := minio.New(strings.TrimPrefix(config.Endpoint, "https://"), &minio.Options{
		Creds: credentials.NewEnvAWS(), Secure: true, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}},
	})
	if err == nil {
		err = client.MakeBucket(t.Context(), config.Bucket, minio.MakeBucketOptions{ObjectLocking: true})
	}
	if minio.ToErrorResponse(err).Code == "NotImplemented" || minio.ToErrorResponse(err).Code == "VersioningNotConfigured" {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	if versioning, err := client.GetBucketVersioning(t.Context(), config.Bucket); err != nil || !versioning.Enabled() {
		t.Logf("the bucket has no versions: %v, %v", versioning.Status, err)
		return false
	}
	mode, days, unit := minio.Governance, uint(1), minio.Days
	if err := client.SetObjectLockConfig(t.Context(), config.Bucket, &mode, &days, &unit); err != nil {
		t.Fatal(err)
	}
	return true
}
