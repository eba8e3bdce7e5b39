package cluster

import (
	"context"
	"errors"
	"io"
)

// StartS3 TODO
func (c *Cluster) StartS3(ctx context.Context, name string) error { return errors.New("soon") }
func (c *Cluster) printS3(out io.Writer)                          {}
