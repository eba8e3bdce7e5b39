package cluster

import (
	"context"
	"fmt"
	"io"

	"howdah.dev/test/kube/s3"
)

// StartS3 starts an S3 server beside the cluster, building it if needed, and returns when it has its bucket. One
// that runs is left alone.
func (c *Cluster) StartS3(ctx context.Context, name string) error {
	server, err := s3.Find(c.Cluster, name)
	if err != nil {
		return err
	}
	bin, err := c.Builder.Ensure(ctx, server.Component())
	if err != nil {
		return err
	}
	return c.Report.Step(ctx, name+" ready", func(ctx context.Context) error { return server.Start(ctx, c.Cgroups, bin) })
}

// StopS3 kills an S3 server; its data stays.
func (c *Cluster) StopS3(ctx context.Context, name string) error {
	server, err := s3.Find(c.Cluster, name)
	if err != nil {
		return err
	}
	return server.Stop(ctx)
}

// S3Environment is what a client of an S3 server needs, one KEY=value each.
func (c *Cluster) S3Environment(name string) ([]string, error) {
	server, err := s3.Find(c.Cluster, name)
	if err != nil {
		return nil, err
	}
	if !server.Exists() {
		return nil, fmt.Errorf("%s was not started: run `kube s3 start %s`", name, name)
	}
	return server.Environment(), nil
}

func (c *Cluster) printS3(out io.Writer) {
	for _, name := range s3.Names() {
		server, err := s3.Find(c.Cluster, name)
		if err != nil || !server.Exists() {
			continue
		}
		state := "down"
		if server.Alive() {
			state = "running"
		}
		fmt.Fprintf(out, "%-9s %-8s %s\n", name, state, server.Environment()[0])
	}
}
