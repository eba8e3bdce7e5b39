package s3_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/s3"
)

// ofTheCloud has pods of this test show a token to a cloud that answers in this way.
func ofTheCloud(t *testing.T, status int, code, message string) {
	t.Helper()
	cloud := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/xml")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type><Code>%s</Code><Message>%s</Message></Error></ErrorResponse>`, code, message)
	}))
	t.Cleanup(cloud.Close)
	claims := base64.RawURLEncoding.EncodeToString([]byte(`{"aud":["sts.amazonaws.com"],"sub":"system:serviceaccount:shop:nightly-1-backup"}`))
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("e30."+claims+".c2lnbmF0dXJl"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, variable := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"} {
		t.Setenv(variable, "")
	}
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("AWS_ENDPOINT_URL_STS", cloud.URL)
	t.Setenv("AWS_ROLE_ARN", "arn:aws:iam::111122223333:role/backups")
	t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", token)
}

func TestARefusedIdentityIsNotTakenForMissingCredentials(t *testing.T) {
	for name, c := range map[string]struct {
		status        int
		code, message string
		kind          error
		says          string
	}{
		"by the trust policy": {
			http.StatusForbidden, "AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity", objstore.ErrDenied,
			"The cloud refuses the identity of the pod for the object store (AccessDenied: Not authorized to perform sts:AssumeRoleWithWebIdentity): " +
				"check that the trust policy of its role accepts system:serviceaccount:shop:nightly-1-backup.",
		},
		"as the cloud doesn't know who issued the token": {
			http.StatusBadRequest, "InvalidIdentityToken", "No OpenIDConnect provider found.", objstore.ErrDenied, "(InvalidIdentityToken: No OpenIDConnect provider found)",
		},
		"with a long text": {http.StatusBadRequest, "ValidationError", strings.Repeat("word ", 1000), objstore.ErrDenied, "word…): "},
		"not, but the cloud is overloaded": {
			http.StatusServiceUnavailable, "ServiceUnavailable", "Try later.", objstore.ErrUnavailable, "No credentials were found",
		},
	} {
		t.Run(name, func(t *testing.T) {
			ofTheCloud(t, c.status, c.code, c.message)
			store, err := s3.Open(t.Context(), objstore.Config{Driver: objstore.DriverAWS, Bucket: "b", Region: "eu-central-1"})
			if err != nil {
				t.Fatal(err)
			}
			err = store.Put(t.Context(), "x", []byte("x"), objstore.PutOptions{})
			if said := objstore.Explain(err); !errors.Is(err, c.kind) || !strings.Contains(said, c.says) || len(said) > 600 {
				t.Errorf("%v is said as %q", err, said)
			}
			if strings.Contains(fmt.Sprint(err), "c2lnbmF0dXJl") {
				t.Errorf("the token is in %v", err)
			}
		})
	}
}

// What an object store says of credentials is not what the cloud says.
func TestAStoreThatSpeaksOfCredentialsIsNotTakenForTheCloud(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`<Error><Code>AccessDenied</Code><Message>failed to get credentials: hidden</Message></Error>`))
	}))
	defer server.Close()
	store, err := s3.Open(t.Context(), objstore.Config{
		Driver: objstore.DriverAWS, Endpoint: server.URL, Insecure: true, Region: "us-east-1", Bucket: "b", PathStyle: true,
		Credentials: &objstore.Credentials{AccessKeyID: "id", SecretAccessKey: "secret"},
	})
	if err != nil {
		t.Fatal(err)
	}
	err = store.Put(t.Context(), "x", []byte("x"), objstore.PutOptions{})
	if said := objstore.Explain(err); strings.Contains(said, "hidden") || strings.Contains(said, "cloud refuses") {
		t.Errorf("it says %q", said)
	}
}
