// Package connection finds out where the bucket is: by flags, by the environment, or by a file. Credentials come from where
// the tools of AWS look for them, and never from the command line, which everybody on the machine can read.
package connection

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/folder"
	"howdah.dev/howdah/pkg/objstore/open"
	"howdah.dev/howdah/pkg/objstore/retry"
)

// ErrUsage is a connection that can't be right; nothing was tried.
var ErrUsage = errors.New("connection")

// Settings say where the bucket is. They are the flags, and the keys of the file.
type Settings struct {
	Endpoint  string `json:"endpoint,omitempty"`
	Bucket    string `json:"bucket,omitempty"`
	Prefix    string `json:"prefix,omitempty"`
	Region    string `json:"region,omitempty"`
	Driver    string `json:"driver,omitempty"`
	PathStyle string `json:"pathStyle,omitempty"`
	CAFile    string `json:"caFile,omitempty"`
	Insecure  string `json:"insecure,omitempty"`
	// KeyFile is the key of an encrypted repository, or a folder of keys, as a Secret is mounted.
	KeyFile string `json:"keyFile,omitempty"`
	// AsOf is a time; a bucket with versions is read as it was then.
	AsOf string `json:"asOf,omitempty"`
	// Folder is a copy of the bucket on this machine, instead of all that is above.
	Folder string `json:"folder,omitempty"`
}

// Flags are the settings of a command line, and what isn't in the file.
type Flags struct {
	Settings
	File     string
	Patience time.Duration // how long to try again while the store doesn't respond
	// IgnoreEnvironment: no setting comes from the environment. restore_command runs in that of PostgreSQL, which may lead to another repository,
	// and the end of that would be taken for the end of the archive.
	IgnoreEnvironment bool
}

// DefaultPatience outlasts a restart of a server.
const DefaultPatience = time.Minute

// Add gives a command, and those below it, the flags of the connection.
func (f *Flags) Add(command *cobra.Command) {
	flags := command.PersistentFlags()
	flags.StringVar(&f.File, "config", "", "file with these settings (HOWDAH_CONFIG)")
	flags.StringVar(&f.Endpoint, "endpoint", "", "URL of the S3 server; AWS if not set (HOWDAH_ENDPOINT)")
	flags.StringVar(&f.Bucket, "bucket", "", "the bucket (HOWDAH_BUCKET)")
	flags.StringVar(&f.Prefix, "prefix", "", "prefix of the repository in the bucket (HOWDAH_PREFIX)")
	flags.StringVar(&f.Region, "region", "", "region of the bucket (HOWDAH_REGION, AWS_REGION)")
	flags.StringVar(&f.Driver, "driver", "", "aws or minio; if not set, minio with an endpoint, else aws (HOWDAH_DRIVER)")
	flags.StringVar(&f.PathStyle, "path-style", "", "true or false: whether URLs have the bucket in their path; if not set, true with an endpoint (HOWDAH_PATH_STYLE)")
	flags.StringVar(&f.Insecure, "insecure", "", "true or false: whether the endpoint may have http://, without encryption (HOWDAH_INSECURE)")
	flags.StringVar(&f.CAFile, "ca-file", "", "PEM file of the CA of the server's certificate (HOWDAH_CA_FILE, AWS_CA_BUNDLE)")
	flags.StringVar(&f.KeyFile, "key-file", "", "key of an encrypted repository: a file named after the key, or a folder with such files (HOWDAH_KEY_FILE)")
	flags.StringVar(&f.AsOf, "as-of", "", "read a bucket that keeps versions as it was at this time, such as 2026-03-04T05:00:00Z (HOWDAH_AS_OF)")
	flags.StringVar(&f.Folder, "folder", "", "a copy of the bucket in a folder, instead of a bucket (HOWDAH_FOLDER)")
	flags.DurationVar(&f.Patience, "patience", DefaultPatience, "how long to retry while the store does not respond")
	flags.BoolVar(&f.IgnoreEnvironment, ignoreEnvironment, false, "take these settings only from flags and --config (restore_command)")
	for _, name := range []string{"path-style", "insecure"} {
		flags.Lookup(name).NoOptDefVal = "true"
	}
}

const ignoreEnvironment = "ignore-environment"

// Resolve takes each setting from the first that has it: the flag, HOWDAH_…, the file, AWS_….
func (f *Flags) Resolve(getenv func(string) string) (Place, error) {
	if f.IgnoreEnvironment {
		getenv = func(string) string { return "" }
	}
	file, err := readFile(cmp.Or(f.File, getenv("HOWDAH_CONFIG")))
	if err != nil {
		return Place{}, err
	}
	s := Settings{
		Endpoint:  cmp.Or(f.Endpoint, getenv("HOWDAH_ENDPOINT"), file.Endpoint, getenv("AWS_ENDPOINT_URL_S3"), getenv("AWS_ENDPOINT_URL")),
		Bucket:    cmp.Or(f.Bucket, getenv("HOWDAH_BUCKET"), file.Bucket),
		Prefix:    cmp.Or(f.Prefix, getenv("HOWDAH_PREFIX"), file.Prefix),
		Region:    cmp.Or(f.Region, getenv("HOWDAH_REGION"), file.Region, getenv("AWS_REGION"), getenv("AWS_DEFAULT_REGION")),
		Driver:    cmp.Or(f.Driver, getenv("HOWDAH_DRIVER"), file.Driver),
		PathStyle: cmp.Or(f.PathStyle, getenv("HOWDAH_PATH_STYLE"), file.PathStyle),
		Insecure:  cmp.Or(f.Insecure, getenv("HOWDAH_INSECURE"), file.Insecure),
		CAFile:    cmp.Or(f.CAFile, getenv("HOWDAH_CA_FILE"), file.CAFile, getenv("AWS_CA_BUNDLE")),
		KeyFile:   cmp.Or(f.KeyFile, getenv("HOWDAH_KEY_FILE"), file.KeyFile),
		AsOf:      cmp.Or(f.AsOf, getenv("HOWDAH_AS_OF"), file.AsOf),
		Folder:    cmp.Or(f.Folder, getenv("HOWDAH_FOLDER"), file.Folder),
	}
	if f.Folder == "" && f.Bucket != "" {
		s.Folder = "" // what stands on the command line is meant
	}
	place, err := s.place()
	place.patience = f.Patience
	return place, err
}

// Encrypted says whether what is read there was written by somebody who has the keys.
func (p Place) Encrypted() bool { return p.config.Encryption != nil }

func readFile(path string) (Settings, error) {
	s := Settings{}
	if path == "" {
		return s, nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return s, fmt.Errorf("%w: the config file: %w", ErrUsage, err)
	}
	if err := yaml.UnmarshalStrict(content, &s); err != nil {
		return s, fmt.Errorf("%w: the config file %s: %w", ErrUsage, path, err)
	}
	return s, nil
}

// Place is where the bucket is.
type Place struct {
	config   objstore.Config
	caFile   string // absolute
	keyFile  string // absolute
	folder   string // absolute; instead of the config
	patience time.Duration
}

func (s Settings) place() (p Place, err error) {
	switch {
	case s.Folder != "" && s.AsOf != "":
		return Place{}, fmt.Errorf("%w: a folder keeps no versions, so --as-of needs --bucket", ErrUsage)
	case s.Folder != "":
		if p.folder, err = filepath.Abs(s.Folder); err != nil {
			return Place{}, err
		}
	case s.Bucket == "":
		return Place{}, fmt.Errorf("%w: no bucket is named; use --bucket or set HOWDAH_BUCKET", ErrUsage)
	default:
		if p, err = s.bucket(); err != nil {
			return Place{}, err
		}
	}
	if s.KeyFile != "" {
		err = p.unlock(s.KeyFile)
	}
	return p, err
}

func (s Settings) bucket() (Place, error) {
	p := Place{config: objstore.Config{
		Driver: cmp.Or(s.Driver, driver(s.Endpoint)), Endpoint: s.Endpoint, Region: s.Region, Bucket: s.Bucket, Prefix: s.Prefix,
		PathStyle: s.Endpoint != "",
	}}
	var err error
	if s.PathStyle != "" {
		if p.config.PathStyle, err = strconv.ParseBool(s.PathStyle); err != nil {
			return Place{}, fmt.Errorf("%w: path style %q: use true or false", ErrUsage, s.PathStyle)
		}
	}
	if s.Insecure != "" {
		if p.config.Insecure, err = strconv.ParseBool(s.Insecure); err != nil {
			return Place{}, fmt.Errorf("%w: insecure %q: use true or false", ErrUsage, s.Insecure)
		}
	}
	if s.AsOf != "" {
		at, err := time.Parse(time.RFC3339, s.AsOf)
		if err != nil {
			return Place{}, fmt.Errorf("%w: as-of %q is not a time such as 2026-03-04T05:00:00Z", ErrUsage, s.AsOf)
		}
		p.config.AsOf, p.config.ReadOnly = &at, true
	}
	if s.CAFile != "" {
		if err := p.trust(s.CAFile); err != nil {
			return Place{}, err
		}
	}
	if err := p.config.Validate(); err != nil {
		return Place{}, fmt.Errorf("%w: %s", ErrUsage, objstore.Explain(err))
	}
	return p, nil
}

// driver is the one that fits most servers.
func driver(endpoint string) string {
	if endpoint == "" {
		return objstore.DriverAWS
	}
	return objstore.DriverMinIO
}

func (p *Place) trust(path string) (err error) {
	if p.caFile, err = filepath.Abs(path); err != nil {
		return err
	}
	bundle, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%w: the CA file: %w", ErrUsage, err)
	}
	p.config.CABundle = string(bundle)
	return nil
}

// unlock takes a key from a file, or the keys of a folder.
func (p *Place) unlock(path string) (err error) {
	if p.keyFile, err = filepath.Abs(path); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("%w: the key: %w", ErrUsage, err)
	}
	if info.IsDir() {
		p.config.Encryption = &objstore.Encryption{KeysDir: p.keyFile, Either: true}
		return nil
	}
	key, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%w: the key: %w", ErrUsage, err)
	}
	p.config.Encryption = &objstore.Encryption{Entries: objstore.KeyEntries{filepath.Base(path): key}, Either: true}
	return nil
}

// Open returns the store. It doesn't connect.
func (p Place) Open(ctx context.Context, readOnly bool) (objstore.Store, error) {
	if p.folder != "" {
		store, err := folder.Open(p.folder)
		if err != nil {
			return nil, err
		}
		return open.Sealed(store, p.config.Encryption), nil
	}
	p.config.ReadOnly = readOnly || p.config.AsOf != nil
	return open.With(ctx, p.config, retry.Policy{MaxElapsed: max(p.patience, time.Nanosecond)})
}

// Shared says whether others may delete from the place while it is read: it is a bucket, as it is now.
func (p Place) Shared() bool { return p.folder == "" && p.config.AsOf == nil }

// String names the place for a person.
func (p Place) String() string {
	switch {
	case p.folder != "":
		return "folder " + p.folder
	case p.config.Prefix != "":
		return fmt.Sprintf("bucket %s, prefix %s", p.config.Bucket, p.config.Prefix)
	}
	return "bucket " + p.config.Bucket
}

// Args are the flags that lead to the same place from any folder and environment, but for the credentials.
func (p Place) Args() []string {
	args := []string{"--folder=" + p.folder}
	if p.folder == "" {
		args = []string{"--bucket=" + p.config.Bucket, "--driver=" + p.config.Driver, fmt.Sprintf("--path-style=%t", p.config.PathStyle)}
	}
	args = append(args, "--"+ignoreEnvironment)
	insecure, asOf := "", ""
	if at := p.config.AsOf; at != nil {
		asOf = at.UTC().Format(time.RFC3339Nano)
	}
	if p.config.Insecure {
		insecure = "true"
	}
	for _, flag := range []struct{ name, value string }{
		{"endpoint", p.config.Endpoint}, {"insecure", insecure}, {"as-of", asOf}, {"prefix", p.config.Prefix}, {"region", p.config.Region}, {"ca-file", p.caFile}, {"key-file", p.keyFile},
	} {
		if flag.value != "" {
			args = append(args, "--"+flag.name+"="+flag.value)
		}
	}
	return args
}
