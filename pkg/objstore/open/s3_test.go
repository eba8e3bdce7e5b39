//go:build s3

package open_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/open"
	"howdah.dev/howdah/pkg/objstore/retry"
	"howdah.dev/howdah/pkg/objstore/storetest"
)

var drivers = []string{objstore.DriverAWS, objstore.DriverMinIO}

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
		t.Run(driver, func(t *testing.T) { storetest.Run(t, plain(t, storetest.Server(t, driver))) })
		t.Run(driver+" at the bucket's root", func(t *testing.T) {
			config := storetest.Server(t, driver)
			config.Prefix = ""
			storetest.Run(t, plain(t, config))
		})
	}
}

func TestARealServerConformsWhenObjectsAreSealed(t *testing.T) {
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			entries := objstore.KeyEntries{"k1": []byte(strings.Repeat("ab", 32))}
			storetest.Run(t, open.Sealed(plain(t, storetest.Server(t, driver)), &objstore.Encryption{Entries: entries}))
		})
	}
}

func TestARealServerTakesNoBodyThatIsNotWhatItsChecksumSays(t *testing.T) {
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) { storetest.Sums(t, plain(t, storetest.Server(t, driver))) })
	}
}

func TestABodyThatIsGarbledOnItsWayIsRefused(t *testing.T) {
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			relay, config := storetest.NewRelay(t, storetest.Server(t, driver))
			store := plain(t, config)
			relay.Spoil(func(storetest.Request) storetest.Fault { return storetest.Fault{FlipIn: true} })
			err := store.Put(t.Context(), "garbled", []byte("some content"), objstore.PutOptions{})
			relay.Spoil(nil)
			if !errors.Is(err, objstore.ErrUnavailable) {
				t.Errorf("the server has taken it: %v", err)
			}
			if _, err := store.Stat(t.Context(), "garbled"); !errors.Is(err, objstore.ErrNotFound) {
				t.Errorf("it is there: %v", err)
			}
		})
	}
}

func TestARealServerPassesTheProbe(t *testing.T) {
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			store := plain(t, storetest.Server(t, driver))
			findings, _ := objstore.Probe(t.Context(), store, "t1")
			for _, finding := range findings {
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
			config := storetest.Server(t, driver)
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
			{"plain HTTP to a TLS port", func(c *objstore.Config) {
				c.Endpoint, c.Insecure = "http"+strings.TrimPrefix(c.Endpoint, "https"), true
			}, nil, ""},
		} {
			t.Run(driver+": "+test.name, func(t *testing.T) {
				config := storetest.Server(t, driver)
				test.change(&config)
				store := retry.New(plain(t, config), retry.Policy{MaxElapsed: time.Second}) // as all have it: an answer can get lost
				err := store.Put(t.Context(), "x", []byte("x"), objstore.PutOptions{})
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
			store := plain(t, storetest.Server(t, driver))
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
