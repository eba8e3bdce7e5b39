// Package s3 is the driver for AWS S3, and for what behaves like it, by aws-sdk-go-v2.
package s3

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/internal/client"
)

const (
	defaultRegion = "us-east-1"
	deleteBatch   = 1000 // what one request may hold
)

// Store is one bucket and prefix. It doesn't retry: see package retry.
type Store struct {
	config   objstore.Config
	client   *s3.Client
	unsummed atomic.Bool // the server knows no checksums
}

// Open returns the store of a valid config. It doesn't connect.
func Open(ctx context.Context, config objstore.Config) (*Store, error) {
	var errTransport error
	// The SDK adds AWS_CA_BUNDLE to a client of this kind only.
	httpClient := awshttp.NewBuildableClient().WithTransportOptions(func(transport *http.Transport) {
		errTransport = client.Configure(transport, config)
	})
	if errTransport != nil {
		return nil, errTransport
	}
	loaded, err := awsconfig.LoadDefaultConfig(ctx, loadOptions(config, httpClient)...)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", objstore.ErrConfig, err)
	}
	if loaded.Region == "" {
		loaded.Region = defaultRegion
	}
	if buildable, ok := loaded.HTTPClient.(*awshttp.BuildableClient); ok {
		httpClient = buildable // with AWS_CA_BUNDLE
	}
	return &Store{config: config, client: s3.NewFromConfig(loaded, clientOptions(config), guarded(config, httpClient.GetTransport()))}, nil
}

// guarded has requests to the endpoint, and only those, go through the guard.
func guarded(config objstore.Config, transport *http.Transport) func(*s3.Options) {
	return func(o *s3.Options) {
		o.HTTPClient = &http.Client{Transport: client.Guard(transport, config), CheckRedirect: client.NoRedirects}
	}
}

func loadOptions(config objstore.Config, httpClient aws.HTTPClient) []func(*awsconfig.LoadOptions) error {
	options := []func(*awsconfig.LoadOptions) error{
		awsconfig.WithHTTPClient(httpClient),
		awsconfig.WithRetryer(func() aws.Retryer { return aws.NopRetryer{} }),
	}
	if config.Region != "" {
		options = append(options, awsconfig.WithRegion(config.Region))
	}
	if config.Credentials != nil || config.CredentialsDir != "" {
		options = append(options, awsconfig.WithCredentialsProvider(provider(config)))
	}
	return options
}

// clientOptions leave out the SDK's own checksums: Put has one, which is mostly known already. Over plain HTTP the payload is
// signed. Where the config names no endpoint, that is AWS: what the environment or the SDK's own files say would be another bucket of that name.
func clientOptions(config objstore.Config) func(*s3.Options) {
	return func(o *s3.Options) {
		o.UsePathStyle = config.PathStyle
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		o.DisableLogOutputChecksumValidationSkipped = true
		o.BaseEndpoint = nil
		if config.Endpoint != "" {
			o.BaseEndpoint = aws.String(config.Endpoint)
		}
	}
}

// provider reads the credentials that the config names, again and again, so that a rotated Secret
// is noticed.
func provider(config objstore.Config) aws.CredentialsProvider {
	return aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		if c := config.Credentials; c != nil {
			return aws.Credentials{AccessKeyID: c.AccessKeyID, SecretAccessKey: c.SecretAccessKey, SessionToken: c.SessionToken}, nil
		}
		c, err := client.ReadCredentials(config.CredentialsDir)
		return aws.Credentials{
			AccessKeyID: c.AccessKeyID, SecretAccessKey: c.SecretAccessKey, SessionToken: c.SessionToken,
			CanExpire: true, Expires: time.Now().Add(client.CredentialsLifetime),
		}, err
	})
}

// fail translates an error of the SDK.
func (s *Store) fail(op, key string, err error) error {
	if err == nil {
		return nil
	}
	code, status := "", 0
	if api := smithy.APIError(nil); errors.As(err, &api) {
		code = api.ErrorCode()
	}
	if response := (*awshttp.ResponseError)(nil); errors.As(err, &response) {
		status = response.HTTPStatusCode()
	}
	if broken := (*smithy.DeserializationError)(nil); code == "" && errors.As(err, &broken) {
		status = 0 // a server may answer before it has read a body, and end the connection: what it said is lost
	}
	if errors.Is(err, objstore.ErrConfig) {
		code = "" // says itself what is wrong with the credentials
	} else if refused := refusal(err); refused != nil {
		return s.wrap(op, key, objstore.CodeIdentityRefused, status, refused)
	} else if strings.Contains(err.Error(), "get credentials") || strings.Contains(err.Error(), "failed to refresh cached credentials") {
		code = objstore.CodeNoCredentials
	}
	return s.wrap(op, key, code, status, cause(err))
}

func (s *Store) wrap(op, key, code string, status int, err error) error {
	full := ""
	if key != "" {
		full = s.config.Key(key)
	}
	return &objstore.Error{
		Op: op, Key: full, Bucket: s.config.Bucket, Endpoint: s.config.Endpoint, Code: code,
		Kind: client.Kind(code, status, err), Err: err,
	}
}

// cause takes the SDK's wrapping off, which repeats what objstore.Error says.
func cause(err error) error {
	if operation := (*smithy.OperationError)(nil); errors.As(err, &operation) {
		return operation.Err
	}
	return err
}

// Put sends the body in one request with its checksum, which the server verifies, and again without it where that is not known.
func (s *Store) Put(ctx context.Context, key string, body []byte, opts objstore.PutOptions) error {
	summed := !s.unsummed.Load()
	err := s.put(ctx, key, body, opts, summed)
	if api := smithy.APIError(nil); summed && errors.As(err, &api) && client.RefusesChecksum(api.ErrorCode(), api.ErrorMessage()) {
		s.unsummed.Store(true)
		err = s.put(ctx, key, body, opts, false)
	}
	return s.fail("put", key, err)
}

func (s *Store) put(ctx context.Context, key string, body []byte, opts objstore.PutOptions, summed bool) error {
	input := &s3.PutObjectInput{
		Bucket: &s.config.Bucket, Key: aws.String(s.config.Key(key)),
		Body: bytes.NewReader(body), ContentLength: aws.Int64(int64(len(body))),
	}
	if opts.IfAbsent {
		input.IfNoneMatch = aws.String("*")
	}
	if summed {
		input.ChecksumCRC32C = aws.String(client.Checksum(body, opts.CRC32C))
	}
	s.encrypt(input)
	_, err := s.client.PutObject(ctx, input, s.unsigned)
	return err
}

// encrypt asks the server to encrypt the object.
func (s *Store) encrypt(input *s3.PutObjectInput) {
	switch by := s.config.ServerSide; {
	case by == nil:
	case by.KMS:
		input.ServerSideEncryption = types.ServerSideEncryptionAwsKms
		if by.Key != "" {
			input.SSEKMSKeyId = aws.String(by.Key)
		}
	default:
		input.ServerSideEncryption = types.ServerSideEncryptionAes256
	}
}

func (s *Store) unsigned(o *s3.Options) {
	if strings.HasPrefix(s.config.Endpoint, "http://") {
		return
	}
	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
		return v4.SwapComputePayloadSHA256ForUnsignedPayloadMiddleware(stack)
	})
}

// Get reads the whole object.
func (s *Store) Get(ctx context.Context, key string, limit int64) ([]byte, error) {
	return s.get(ctx, key, "", limit)
}

// ReadAt reads a range.
func (s *Store) ReadAt(ctx context.Context, key string, p []byte, off int64) (int, error) {
	return s.readAt(ctx, key, "", p, off)
}

// Stat asks for the object's metadata.
func (s *Store) Stat(ctx context.Context, key string) (objstore.Info, error) {
	output, err := s.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &s.config.Bucket, Key: aws.String(s.config.Key(key))})
	if err != nil {
		return objstore.Info{}, s.fail("stat", key, err)
	}
	return objstore.Info{Key: key, Size: aws.ToInt64(output.ContentLength), Modified: aws.ToTime(output.LastModified)}, nil
}

func (s *Store) pages(prefix, after string, delimiter *string) *s3.ListObjectsV2Paginator {
	input := &s3.ListObjectsV2Input{Bucket: &s.config.Bucket, Prefix: aws.String(s.config.Key(prefix)), Delimiter: delimiter}
	if after != "" {
		input.StartAfter = aws.String(s.config.Key(after))
	}
	return s3.NewListObjectsV2Paginator(s.client, input)
}

// nextPage is the next one of a list. The SDK takes one for the last that says that there are more, but not how to go on.
func (s *Store) nextPage(ctx context.Context, pages *s3.ListObjectsV2Paginator, prefix string) (*s3.ListObjectsV2Output, error) {
	page, err := pages.NextPage(ctx)
	switch {
	case err != nil:
		return nil, s.fail("list", prefix, err)
	case aws.ToBool(page.IsTruncated) && aws.ToString(page.NextContinuationToken) == "":
		return nil, client.Mislisted(prefix, "the server lists a part of the objects, and doesn't say how to go on")
	}
	return page, nil
}

// List asks for a page at a time.
func (s *Store) List(ctx context.Context, prefix, after string) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) {
		ordered := client.Ordered{}
		for pages := s.pages(prefix, after, nil); pages.HasMorePages(); {
			page, err := s.nextPage(ctx, pages, prefix)
			if err != nil {
				yield(objstore.Info{}, err)
				return
			}
			for _, o := range page.Contents {
				key := client.Relative(s.config, aws.ToString(o.Key))
				if err := cmp.Or(client.Listed(key, prefix), ordered.Next(key, prefix)); err != nil {
					yield(objstore.Info{}, err)
					return
				}
				if !yield(objstore.Info{Key: key, Size: aws.ToInt64(o.Size), Modified: aws.ToTime(o.LastModified)}, nil) {
					return
				}
			}
		}
	}
}

// Folders asks for common prefixes.
func (s *Store) Folders(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for pages := s.pages(prefix, "", aws.String("/")); pages.HasMorePages(); {
			page, err := s.nextPage(ctx, pages, prefix)
			if err != nil {
				yield("", err)
				return
			}
			for _, folder := range page.CommonPrefixes {
				name := client.Relative(s.config, aws.ToString(folder.Prefix))
				if err := client.Listed(name, prefix); err != nil {
					yield("", err)
					return
				}
				if !yield(strings.TrimSuffix(name[len(prefix):], "/"), nil) {
					return
				}
			}
		}
	}
}

// Delete removes the objects in batches.
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	for len(keys) > 0 {
		batch := keys[:min(deleteBatch, len(keys))]
		keys = keys[len(batch):]
		if err := s.deleteBatch(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) deleteBatch(ctx context.Context, keys []string) error {
	input := &s3.DeleteObjectsInput{Bucket: &s.config.Bucket, Delete: &types.Delete{Quiet: aws.Bool(true)}}
	for _, key := range keys {
		input.Delete.Objects = append(input.Delete.Objects, types.ObjectIdentifier{Key: aws.String(s.config.Key(key))})
	}
	output, err := s.client.DeleteObjects(ctx, input)
	if err != nil {
		return s.fail("delete", keys[0], err)
	}
	for _, refused := range output.Errors {
		key := client.Relative(s.config, aws.ToString(refused.Key))
		code := aws.ToString(refused.Code)
		if kind := client.Kind(code, http.StatusBadRequest, nil); !errors.Is(kind, objstore.ErrNotFound) {
			return &objstore.Error{
				Op: "delete", Key: s.config.Key(key), Bucket: s.config.Bucket, Endpoint: s.config.Endpoint,
				Code: code, Kind: kind, Err: errors.New(aws.ToString(refused.Message)),
			}
		}
	}
	return nil
}
