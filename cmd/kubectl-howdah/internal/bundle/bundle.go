// Package bundle collects in a zip file what somebody else needs to find out what is wrong with a cluster, and no secrets.
package bundle

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/kubectl-howdah/internal/instancelog"
	"howdah.dev/howdah/cmd/kubectl-howdah/internal/status"
)

// Request says what is collected.
type Request struct {
	// Version of this program.
	Version string
	// Logs also collects the logs of the cluster's pods and of the controllers.
	Logs bool
	// UnredactedLogs collects those of instances even if they may contain the literals of SQL.
	UnredactedLogs bool
	// Since is how far back the logs go.
	Since time.Duration
	// Open opens the log of a container in a namespace.
	Open func(namespace string) instancelog.Open
	Now  time.Time
}

const readMe = `A report about the PostgresCluster %s in namespace %s, written at %s by kubectl howdah report (version %s).

status.txt        what kubectl howdah status shows
howdah/           the objects of Howdah in the namespace, at most %d of each kind
kubernetes/       the objects that Howdah created for the cluster, and the nodes of its pods
events.txt        the events of the namespace, which Kubernetes keeps for an hour by default
suite/            the Deployments of the controllers
logs/             the logs of the pods of the cluster, and what the controllers logged about the namespace
problems.txt      what could not be read

Secrets are listed in secrets.txt with their names alone: their values were not read. These are replaced by %q: values of environment
variables, arguments of containers that are not Howdah's, parameters whose names contain a word such as password or token, and users and
passwords in URLs. By default, PostgreSQL's log contains no literals of SQL (spec.postgresql.log.redaction).

The report contains names of databases, roles, tables, buckets, hosts and nodes, and addresses of clients. Look through it before you give it
to somebody else.
`

// Write writes the zip file, and returns the names of the files in it. What can't be read is listed in the file and ends nothing.
func (r Request) Write(ctx context.Context, c client.Client, key client.ObjectKey, out io.Writer) ([]string, error) {
	cluster := &v1alpha1.PostgresCluster{}
	if err := c.Get(ctx, key, cluster); err != nil {
		return nil, err
	}
	a := &archive{zip: zip.NewWriter(out), at: r.Now}
	a.file("README.txt", fmt.Appendf(nil, readMe, key.Name, key.Namespace, r.Now.UTC().Format(time.RFC3339), r.Version, maxObjects, leftOut))
	collector := &collector{Request: r, Client: c, cluster: cluster, archive: a}
	collector.status(ctx)
	collector.howdah(ctx)
	collector.kubernetes(ctx)
	collector.secrets(ctx)
	collector.events(ctx)
	collector.suite(ctx)
	if r.Logs {
		collector.logs(ctx)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if a.problems.Len() > 0 {
		a.file("problems.txt", a.problems.Bytes())
	}
	if a.err != nil {
		return nil, a.err
	}
	return a.names, a.zip.Close()
}

type collector struct {
	Request
	client.Client
	cluster *v1alpha1.PostgresCluster
	archive *archive
}

func (c *collector) status(ctx context.Context) {
	poolers := &v1alpha1.PoolerList{}
	if err := c.List(ctx, poolers, client.InNamespace(c.cluster.Namespace)); err != nil {
		c.archive.problem("Poolers", err)
	}
	text := &bytes.Buffer{}
	if err := status.Print(text, c.cluster, poolers.Items, c.Now); err != nil {
		c.archive.problem("status", err)
	}
	c.archive.file("status.txt", text.Bytes())
}

// archive is the zip file. The first error of writing it stays.
type archive struct {
	zip      *zip.Writer
	at       time.Time
	names    []string
	problems bytes.Buffer
	err      error
}

func (a *archive) file(name string, content []byte) {
	if a.err != nil {
		return
	}
	to, err := a.zip.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate, Modified: a.at.UTC()})
	if err == nil {
		_, err = to.Write(withoutLogins(content))
	}
	a.names, a.err = append(a.names, name), err
}

func (a *archive) problem(what string, err error) {
	fmt.Fprintf(&a.problems, "%s: %s\n", what, strings.TrimSpace(err.Error()))
}
