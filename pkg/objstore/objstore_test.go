package objstore_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/fault"
	"howdah.dev/howdah/pkg/objstore/mem"
)

func TestAWrongConfigurationIsSaidInASentence(t *testing.T) {
	good := objstore.Config{Driver: objstore.DriverMinIO, Endpoint: "https://s3.example.com:9000", Bucket: "b", Prefix: "a/b"}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		says   string
		change func(*objstore.Config)
	}{
		{`driver "gcs" is unknown; write aws or minio`, func(c *objstore.Config) { c.Driver = "gcs" }},
		{"no bucket is named", func(c *objstore.Config) { c.Bucket = "" }},
		{"needs an endpoint", func(c *objstore.Config) { c.Endpoint = "" }},
		{"is not a URL like https://host:port", func(c *objstore.Config) { c.Endpoint = "s3.example.com" }},
		{"is not a URL like https://host:port", func(c *objstore.Config) { c.Endpoint = "https://s3.example.com/bucket" }},
		{"endpoint http://s3 is not encrypted", func(c *objstore.Config) { c.Endpoint = "http://s3" }},
		{"spec.s3.insecure: true", func(c *objstore.Config) { c.Endpoint = "HTTP://s3" }},
		{"the CA bundle holds no PEM certificate", func(c *objstore.Config) { c.CABundle = "x" }},
		{"has an empty, . or .. part", func(c *objstore.Config) { c.Prefix = "a/../b" }},
		{"has an empty, . or .. part", func(c *objstore.Config) { c.Prefix = "a//b" }},
	} {
		t.Run(test.says, func(t *testing.T) {
			config := good
			test.change(&config)
			err := config.Validate()
			if !errors.Is(err, objstore.ErrConfig) || !strings.Contains(objstore.Explain(err), test.says) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestCredentialsAreNeverPrintedOrMarshalled(t *testing.T) {
	config := objstore.Config{Credentials: &objstore.Credentials{AccessKeyID: "AKID", SecretAccessKey: "s3cret", SessionToken: "t0ken"}}
	encoded, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	text := string(encoded) + fmt.Sprintf("%v %+v %#v %s", config, config, *config.Credentials, config.Credentials)
	if strings.Contains(text, "s3cret") || strings.Contains(text, "t0ken") {
		t.Errorf("a secret is in %s", text)
	}
}

func TestKeysStandBelowThePrefix(t *testing.T) {
	for prefix, want := range map[string]string{"": "x/y", "p": "p/x/y", "/p/q/": "p/q/x/y"} {
		if got := (objstore.Config{Prefix: prefix}).Key("x/y"); got != want {
			t.Errorf("prefix %q: got %q, want %q", prefix, got, want)
		}
	}
}

func TestErrorsAreExplainedToAPerson(t *testing.T) {
	fault := func(code string, kind, err error) error {
		return fmt.Errorf("archive: %w", &objstore.Error{
			Op: "put", Key: "p/x", Bucket: "b", Endpoint: "https://s3", Code: code, Kind: kind, Err: err,
		})
	}
	for _, test := range []struct {
		err  error
		says string
	}{
		{nil, ""},
		{fault("InvalidAccessKeyId", objstore.ErrDenied, errors.New("x")), "https://s3 does not know the access key ID."},
		{fault("SignatureDoesNotMatch", objstore.ErrDenied, errors.New("x")), "https://s3 refuses the secret access key: it does not belong to the access key ID."},
		{fault("AccessDenied", objstore.ErrDenied, errors.New("x")), "The credentials may not write objects in bucket b at https://s3."},
		{fault("NoSuchBucket", objstore.ErrNoBucket, errors.New("x")), "There is no bucket b at https://s3."},
		{fault("", objstore.ErrUnavailable, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), "https://s3 can't be reached: it refuses the connection."},
		{fault("", objstore.ErrUnavailable, &net.DNSError{Name: "s3"}), "The host of https://s3 can't be found: there is no such name in DNS (s3)."},
		{fault("", objstore.ErrUnavailable, x509.UnknownAuthorityError{}), "The TLS certificate of https://s3 is not trusted; give the certificate of its CA as the CA bundle."},
		{fault("", nil, context.DeadlineExceeded), "https://s3 did not respond in time."},
		{fault("SlowDown", objstore.ErrUnavailable, errors.New("slow down.")), "https://s3 does not work at the moment: slow down."},
		{fault("RequestTimeTooSkewed", objstore.ErrDenied, nil), "The clocks of this machine and of https://s3 differ too much."},
		{fault(objstore.CodeNoCredentials, objstore.ErrUnavailable, errors.New("x")), "No credentials were found for the object store: name a Secret with them, or give the pod an identity of the cloud."},
		{
			fault(objstore.CodeIdentityRefused, objstore.ErrDenied, &objstore.IdentityError{Code: "AccessDenied", Message: "Not authorized.", Err: errors.New("x")}),
			"The cloud refuses the identity for the object store (AccessDenied: Not authorized): check the trust policy of its role.",
		},
		{errors.New("plain"), "plain"},
	} {
		if got := objstore.Explain(test.err); got != test.says {
			t.Errorf("got %q, want %q", got, test.says)
		}
	}
}

// careless is a store whose server ignores If-None-Match.
type careless struct{ objstore.Store }

func (c careless) Put(ctx context.Context, key string, body []byte, _ objstore.PutOptions) error {
	return c.Store.Put(ctx, key, body, objstore.PutOptions{})
}

func TestTheProbeSaysWhatAStoreCanNotDo(t *testing.T) {
	if findings, _ := objstore.Probe(t.Context(), mem.New(), "t"); len(findings) != 0 {
		t.Errorf("a good store: %+v", findings)
	}
	findings, _ := objstore.Probe(t.Context(), careless{mem.New()}, "t")
	if len(findings) != 1 || findings[0].Ability != objstore.CanWriteConditional || !strings.Contains(findings[0].Message, "does not honour If-None-Match") {
		t.Errorf("a careless store: %+v", findings)
	}
	for _, test := range []struct {
		op   string
		want []objstore.Ability
	}{
		{"put", []objstore.Ability{objstore.CanWrite}},
		{"get", []objstore.Ability{objstore.CanRead}},
		{"list", []objstore.Ability{objstore.CanList}},
		{"delete", []objstore.Ability{objstore.CanDelete}},
	} {
		store := fault.New(mem.New(), fault.Plan{Before: func(c fault.Call) error {
			if c.Op == test.op {
				return &objstore.Error{Op: c.Op, Key: c.Key, Kind: objstore.ErrDenied}
			}
			return nil
		}})
		findings, _ := objstore.Probe(t.Context(), store, "t")
		if len(findings) != len(test.want) || findings[0].Ability != test.want[0] || !strings.HasPrefix(findings[0].Message, "The credentials may not ") {
			t.Errorf("without %s: %+v", test.op, findings)
		}
	}
}
