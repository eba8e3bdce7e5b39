package s3

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"howdah.dev/test/kube/cgroup"
	"howdah.dev/test/kube/command"
	"howdah.dev/test/kube/network"
	"howdah.dev/test/kube/node"
)

// startTime is when a server that doesn't respond must be broken.
const startTime = time.Minute

// Start starts the server if it doesn't run, and returns when it has its bucket.
func (s *Server) Start(ctx context.Context, cgroups cgroup.System, bin string) error {
	if err := s.prepare(time.Now()); err != nil {
		return err
	}
	if !s.Alive() {
		if err := s.spawn(cgroups, bin); err != nil {
			return err
		}
	}
	if err := s.awaitBucket(ctx); err != nil {
		return fmt.Errorf("%w (see %s)", err, s.path("log"))
	}
	return nil
}

func (s *Server) spawn(cgroups cgroup.System, bin string) error {
	group := s.Cluster.Prefixed(network.Outside)
	if err := cgroups.Create(group); err != nil {
		return err
	}
	args, env := s.product.launch(*s)
	handle, err := node.Spawn(group, s.path("log"), 0, env, program(bin, args)...)
	if err != nil {
		return err
	}
	if err := cgroups.Enter(group, handle.PID); err != nil {
		return errors.Join(err, handle.Kill())
	}
	return handle.Save(s.path("pid"))
}

// Stop kills the server. Its data stays.
func (s *Server) Stop(ctx context.Context) error {
	handle, err := node.LoadHandle(s.path("pid"))
	if err != nil {
		return err
	}
	if err := handle.Kill(); err != nil {
		return err
	}
	return command.Until(ctx, 10*time.Millisecond, s.Name+" to end", func(context.Context) (bool, error) { return !handle.Alive(), nil })
}

// awaitBucket waits until the server answers, and makes the bucket if there is none.
func (s *Server) awaitBucket(ctx context.Context) error {
	client, err := s.client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	var last error
	err = command.Until(ctx, 100*time.Millisecond, s.Name+" to answer", func(ctx context.Context) (bool, error) {
		if !s.Alive() {
			return false, fmt.Errorf("%s has ended", s.Name)
		}
		last = ensureBucket(ctx, client)
		return last == nil, nil
	})
	if err != nil && last != nil {
		return fmt.Errorf("%w: %w", err, last)
	}
	return err
}

func ensureBucket(ctx context.Context, client *minio.Client) error {
	exists, err := client.BucketExists(ctx, Bucket)
	if err != nil || exists {
		return err
	}
	return client.MakeBucket(ctx, Bucket, minio.MakeBucketOptions{Region: Region})
}

func (s *Server) client() (*minio.Client, error) {
	authority, err := os.ReadFile(s.caFile())
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	return minio.New(s.address(), &minio.Options{
		Creds:      credentials.NewStaticV4(s.keys.AccessKey, s.keys.SecretKey, ""),
		Secure:     true,
		Region:     Region,
		Transport:  &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ResponseHeaderTimeout: 5 * time.Second},
		MaxRetries: 1,
	})
}
