package objstore

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// The drivers.
const (
	DriverAWS   = "aws"   // AWS S3 and what behaves like it, by aws-sdk-go-v2 with its credential chain
	DriverMinIO = "minio" // S3-compatible servers, by minio-go
)

// Files in Config.CredentialsDir, named like the environment variables of the AWS tools.
const (
	AccessKeyIDFile     = "AWS_ACCESS_KEY_ID"
	SecretAccessKeyFile = "AWS_SECRET_ACCESS_KEY"
	SessionTokenFile    = "AWS_SESSION_TOKEN"
)

// Config says where a Store is. It holds no secret when marshalled.
type Config struct {
	// Driver is DriverAWS or DriverMinIO.
	Driver string `json:"driver"`
	// Endpoint is the server's URL. Empty is AWS itself, in Region.
	Endpoint string `json:"endpoint,omitempty"`
	// Insecure allows an Endpoint with http://, over which anybody on the way reads and changes what passes.
	Insecure bool `json:"insecure,omitempty"`
	// Region is the bucket's region; empty is us-east-1, or what the environment says.
	Region string `json:"region,omitempty"`
	Bucket string `json:"bucket"`
	// Prefix goes before every key, with a slash between. Empty is the bucket's root.
	Prefix string `json:"prefix,omitempty"`
	// PathStyle puts the bucket into the path instead of the host name. Servers other than AWS
	// mostly need it.
	PathStyle bool `json:"pathStyle,omitempty"`
	// CABundle holds PEM certificates that are trusted besides the system's.
	CABundle string `json:"caBundle,omitempty"`
	// CredentialsDir is a folder with AccessKeyIDFile and so on, read again when they change.
	// Empty means the driver's own chain: environment, web identity token, instance role.
	CredentialsDir string `json:"credentialsDir,omitempty"`
	// Credentials come before CredentialsDir. They are given in Go only.
	Credentials *Credentials `json:"-"`
	// Dial says which addresses are not dialled. It is given in Go only.
	Dial DialPolicy `json:"-"`
	// Frugal keeps little memory for each connection, and none for long: for whoever opens many stores and reads little of each. It is
	// given in Go only.
	Frugal bool `json:"-"`
	// ReadOnly refuses every write and delete.
	ReadOnly bool `json:"readOnly,omitempty"`
	// AsOf shows a bucket with versions as it was then. It must be ReadOnly.
	AsOf *time.Time `json:"asOf,omitempty"`
	// ServerSide has the server encrypt what is put; nil: as the bucket is set.
	ServerSide *ServerSide `json:"serverSide,omitempty"`
	// Encryption on the client, or signatures; nil: objects lie there as they are.
	Encryption *Encryption `json:"encryption,omitempty"`
}

// ServerSide says with which key the server encrypts.
type ServerSide struct {
	// KMS takes a key of the server's key service, else the server takes its own.
	KMS bool `json:"kms,omitempty"`
	// Key of the key service; empty is its default for the bucket.
	Key string `json:"key,omitempty"`
}

// Encryption says where the keys of an encrypted repository are. It holds no secret when marshalled.
type Encryption struct {
	// KeysDir is a folder with a file for each key, read again when they are needed again.
	KeysDir string `json:"keysDir,omitempty"`
	// Key names the one that wraps data keys; empty: the file `current` says, or there is only one.
	Key string `json:"key,omitempty"`
	// Sign leaves objects as they are, and signs them instead.
	Sign bool `json:"sign,omitempty"`
	// Either opens a repository that is there whether it is encrypted or signed. It is given in Go only.
	Either bool `json:"-"`
	// Memory for encrypted copies of objects on their way, in bytes; 0 is the default. It is given in Go only.
	Memory int64 `json:"-"`
	// Entries come before KeysDir, and are what would lie in its files. They are given in Go only.
	Entries KeyEntries `json:"-"`
}

// KeyEntries are keys as they appear in a Secret. They print as redacted.
type KeyEntries map[string][]byte

// String hides the keys.
func (KeyEntries) String() string { return "[redacted]" }

// GoString hides the keys.
func (KeyEntries) GoString() string { return "[redacted]" }

// Credentials are the keys of one identity. They print as redacted.
type Credentials struct {
	AccessKeyID     string
	SecretAccessKey string
	SessionToken    string
}

// String hides the keys.
func (Credentials) String() string { return "[redacted]" }

// GoString hides the keys.
func (Credentials) GoString() string { return "[redacted]" }

// Validate says in one sentence what is wrong with the configuration; the error wraps ErrConfig.
func (c Config) Validate() error {
	switch {
	case c.Driver != DriverAWS && c.Driver != DriverMinIO:
		return fmt.Errorf("%w: driver %q is unknown; write %s or %s", ErrConfig, c.Driver, DriverAWS, DriverMinIO)
	case c.Bucket == "":
		return fmt.Errorf("%w: no bucket is named", ErrConfig)
	case c.Driver == DriverMinIO && c.Endpoint == "":
		return fmt.Errorf("%w: the driver %s needs an endpoint, such as https://minio.example.com:9000", ErrConfig, DriverMinIO)
	case c.AsOf != nil && !c.ReadOnly:
		return fmt.Errorf("%w: a bucket at a past time is read-only: set spec.readOnly: true beside spec.asOf", ErrConfig)
	}
	return errors.Join(c.validateEndpoint(), c.validateCA(), c.validatePrefix())
}

func (c Config) validateEndpoint() error {
	if c.Endpoint == "" {
		return nil
	}
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") || strings.Trim(u.Path, "/") != "" {
		return fmt.Errorf("%w: endpoint %q is not a URL like https://host:port", ErrConfig, c.Endpoint)
	}
	if u.Scheme == "http" && !c.Insecure {
		return fmt.Errorf("%w: endpoint %s is not encrypted; write https://, or allow http:// with spec.s3.insecure: true (--insecure on a command line)", ErrConfig, c.Endpoint)
	}
	return nil
}

func (c Config) validateCA() error {
	if c.CABundle != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(c.CABundle)) {
		return fmt.Errorf("%w: the CA bundle holds no PEM certificate", ErrConfig)
	}
	return nil
}

func (c Config) validatePrefix() error {
	for part := range strings.SplitSeq(strings.Trim(c.Prefix, "/"), "/") {
		if part == "." || part == ".." || (part == "" && strings.Trim(c.Prefix, "/") != "") {
			return fmt.Errorf("%w: prefix %q has an empty, . or .. part", ErrConfig, c.Prefix)
		}
	}
	return nil
}

// Key is the full key of a relative one in the bucket.
func (c Config) Key(key string) string {
	prefix := strings.Trim(c.Prefix, "/")
	if prefix == "" {
		return key
	}
	return prefix + "/" + key
}
