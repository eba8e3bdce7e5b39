// Package minio is the driver for S3-compatible servers, by minio-go.
package minio

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/encrypt"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/internal/client"
)

const defaultRegion = "us-east-1"

// Store is one bucket and prefix. It doesn't retry: see package retry.
type Store struct {
	config   objstore.Config
	client   minio.Core
	unsummed atomic.Bool // the server knows no checksums
}

// Open returns the store of a valid config. It doesn't connect.
func Open(_ context.Context, config objstore.Config) (*Store, error) {
	transport, err := client.Transport(config)
	if err != nil {
		return nil, err
	}
	endpoint, err := url.Parse(config.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("%w: endpoint: %w", objstore.ErrConfig, err)
	}
	region := config.Region
	if region == "" {
		region = defaultRegion // saves the client from asking the server
	}
	opened, err := minio.New(endpoint.Host, &minio.Options{
		Creds:        credentials.New(provider(config, &http.Client{Transport: transport})),
		Secure:       endpoint.Scheme == "https",
		Transport:    client.Guard(transport.Clone(), config), // follows no redirect
		Region:       region,
		BucketLookup: lookup(config),
		MaxRetries:   1,
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", objstore.ErrConfig, err)
	}
	return &Store{config: config, client: minio.Core{Client: opened}}, nil
}

func lookup(config objstore.Config) minio.BucketLookupType {
	if config.PathStyle {
		return minio.BucketLookupPath
	}
	return minio.BucketLookupAuto
}

// provider is the config's credentials, or else those of the environment.
func provider(config objstore.Config, cloud *http.Client) credentials.Provider {
	switch {
	case config.Credentials != nil:
		c := config.Credentials
		return &credentials.Static{Value: value(*c)}
	case config.CredentialsDir != "":
		return &folder{dir: config.CredentialsDir}
	}
	return &credentials.Chain{Providers: []credentials.Provider{
		&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{Client: cloud},
	}}
}

func value(c objstore.Credentials) credentials.Value {
	return credentials.Value{
		AccessKeyID: c.AccessKeyID, SecretAccessKey: c.SecretAccessKey, SessionToken: c.SessionToken,
		SignerType: credentials.SignatureV4,
	}
}

// folder reads credentials from files, again and again, so that a rotated Secret is noticed.
type folder struct {
	dir   string
	until time.Time
}

func (f *folder) Retrieve() (credentials.Value, error) {
	c, err := client.ReadCredentials(f.dir)
	if err != nil {
		return credentials.Value{}, err
	}
	f.until = time.Now().Add(client.CredentialsLifetime)
	return value(c), nil
}

func (f *folder) RetrieveWithCredContext(*credentials.CredContext) (credentials.Value, error) {
	return f.Retrieve()
}

func (f *folder) IsExpired() bool { return time.Now().After(f.until) }

// fail translates an error of the client.
func (s *Store) fail(op, key string, err error) error {
	if err == nil {
		return nil
	}
	response := minio.ErrorResponse{}
	errors.As(err, &response)
	full := ""
	if key != "" {
		full = s.config.Key(key)
	}
	return &objstore.Error{
		Op: op, Key: full, Bucket: s.config.Bucket, Endpoint: s.config.Endpoint, Code: response.Code,
		Kind: client.Kind(response.Code, response.StatusCode, err), Err: err,
	}
}

// Put sends the body in one request with its checksum, which the server verifies, and again without it where that is not known.
func (s *Store) Put(ctx context.Context, key string, body []byte, opts objstore.PutOptions) error {
	summed := !s.unsummed.Load()
	err := s.put(ctx, key, body, opts, summed)
	response := minio.ErrorResponse{}
	if summed && errors.As(err, &response) && client.RefusesChecksum(response.Code, response.Message) {
		s.unsummed.Store(true)
		err = s.put(ctx, key, body, opts, false)
	}
	return s.fail("put", key, err)
}

// put without checksums of the client's own: there is one, which is mostly known already. Over plain HTTP the payload is signed.
func (s *Store) put(ctx context.Context, key string, body []byte, opts objstore.PutOptions, summed bool) error {
	options := minio.PutObjectOptions{
		DisableMultipart:     true,
		DisableContentSha256: strings.HasPrefix(s.config.Endpoint, "https://"),
	}
	if opts.IfAbsent {
		options.SetMatchETagExcept("*")
	}
	if summed {
		options.UserMetadata = map[string]string{client.ChecksumHeader: client.Checksum(body, opts.CRC32C)}
	}
	if err := encryptBy(s.config.ServerSide, &options); err != nil {
		return err
	}
	_, err := s.client.Client.PutObject(ctx, s.config.Bucket, s.config.Key(key), bytes.NewReader(body), int64(len(body)), options)
	return err
}

// encryptBy asks the server to encrypt the object.
func encryptBy(by *objstore.ServerSide, options *minio.PutObjectOptions) (err error) {
	switch {
	case by == nil:
	case by.KMS:
		options.ServerSideEncryption, err = encrypt.NewSSEKMS(by.Key, nil)
	default:
		options.ServerSideEncryption = encrypt.NewSSE()
	}
	return err
}

// Get reads the whole object.
func (s *Store) Get(ctx context.Context, key string, limit int64) ([]byte, error) {
	return s.get(ctx, key, minio.GetObjectOptions{}, limit)
}

// ReadAt reads a range.
func (s *Store) ReadAt(ctx context.Context, key string, p []byte, off int64) (int, error) {
	return s.readAt(ctx, key, minio.GetObjectOptions{}, p, off)
}

// Stat asks for the object's metadata.
func (s *Store) Stat(ctx context.Context, key string) (objstore.Info, error) {
	info, err := s.client.StatObject(ctx, s.config.Bucket, s.config.Key(key), minio.StatObjectOptions{})
	if err != nil {
		return objstore.Info{}, s.fail("stat", key, err)
	}
	return objstore.Info{Key: key, Size: info.Size, Modified: info.LastModified}, nil
}

// List asks for a page at a time.
func (s *Store) List(ctx context.Context, prefix, after string) iter.Seq2[objstore.Info, error] {
	options := minio.ListObjectsOptions{Prefix: s.config.Key(prefix), Recursive: true}
	if after != "" {
		options.StartAfter = s.config.Key(after)
	}
	return func(yield func(objstore.Info, error) bool) {
		ordered := client.Ordered{}
		for o := range s.client.ListObjectsIter(ctx, s.config.Bucket, options) {
			if o.Err != nil {
				yield(objstore.Info{}, s.fail("list", prefix, o.Err))
				return
			}
			key := client.Relative(s.config, o.Key)
			if err := cmp.Or(client.Listed(key, prefix), ordered.Next(key, prefix)); err != nil {
				yield(objstore.Info{}, err)
				return
			}
			if !yield(objstore.Info{Key: key, Size: o.Size, Modified: o.LastModified}, nil) {
				return
			}
		}
		if err := ctx.Err(); err != nil { // the client ends a cancelled list as if it were whole
			yield(objstore.Info{}, s.fail("list", prefix, err))
		}
	}
}

// Folders asks for common prefixes.
func (s *Store) Folders(ctx context.Context, prefix string) iter.Seq2[string, error] {
	options := minio.ListObjectsOptions{Prefix: s.config.Key(prefix)}
	return func(yield func(string, error) bool) {
		for o := range s.client.ListObjectsIter(ctx, s.config.Bucket, options) {
			if o.Err != nil {
				yield("", s.fail("list", prefix, o.Err))
				return
			}
			key := client.Relative(s.config, o.Key)
			if err := client.Listed(key, prefix); err != nil {
				yield("", err)
				return
			}
			name, isFolder := strings.CutSuffix(key[len(prefix):], "/")
			if isFolder && !yield(name, nil) {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield("", s.fail("list", prefix, err))
		}
	}
}

// Delete removes the objects in batches.
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	objects := func(yield func(minio.ObjectInfo) bool) {
		for _, key := range keys {
			if !yield(minio.ObjectInfo{Key: s.config.Key(key)}) {
				return
			}
		}
	}
	results, err := s.client.RemoveObjectsWithIter(ctx, s.config.Bucket, objects, minio.RemoveObjectsOptions{})
	if err != nil {
		return s.fail("delete", "", err)
	}
	for result := range results {
		err := s.fail("delete", client.Relative(s.config, result.ObjectName), result.Err)
		if err != nil && !errors.Is(err, objstore.ErrNotFound) {
			return err
		}
	}
	return ctx.Err()
}
