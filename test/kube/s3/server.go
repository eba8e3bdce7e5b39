// Package s3 runs S3 servers beside a test cluster: outside of every node, so that they live on when nodes die, and
// reachable from pods and from the machine.
package s3

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"howdah.dev/test/kube/binaries"
	"howdah.dev/test/kube/network"
	"howdah.dev/test/kube/node"
	"howdah.dev/test/kube/pki"
	"howdah.dev/test/kube/topology"
)

// What every server offers.
const (
	Bucket = "howdah"
	Region = "us-east-1"
)

// product is a kind of server.
type product struct {
	component binaries.Component
	host      int // in the nodes' network
	port      int
	launch    func(Server) (args, env []string)
}

var products = map[string]product{
	"minio":     {component: binaries.MinIO, host: network.S3Addresses[0], port: 9000, launch: launchMinIO},
	"versitygw": {component: binaries.VersityGW, host: network.S3Addresses[1], port: 7070, launch: launchVersity},
}

// Names lists the servers there are.
func Names() []string {
	names := make([]string, 0, len(products))
	for name := range products {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Server is one server of a cluster, whether it runs or not.
type Server struct {
	Name    string
	Cluster topology.Cluster
	product product
	keys    Keys
}

// Keys are what a client signs with.
type Keys struct {
	AccessKey string `json:"accessKey"`
	SecretKey string `json:"secretKey"`
}

// Find returns a server by its name.
func Find(cluster topology.Cluster, name string) (Server, error) {
	found, ok := products[name]
	if !ok {
		return Server{}, fmt.Errorf("no S3 server %q: write %s", name, strings.Join(Names(), " or "))
	}
	server := Server{Name: name, Cluster: cluster, product: found}
	content, err := os.ReadFile(server.path("keys.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return server, nil
	}
	if err != nil {
		return Server{}, err
	}
	return server, json.Unmarshal(content, &server.keys)
}

// Program is what has to be built for a server of that name.
func Program(name string) (binaries.Component, error) {
	found, ok := products[name]
	if !ok {
		return binaries.Component{}, fmt.Errorf("no S3 server %q: write %s", name, strings.Join(Names(), " or "))
	}
	return found.component, nil
}

// Component is what has to be built for the server.
func (s Server) Component() binaries.Component { return s.product.component }

// Exists tells whether the server was ever started in this cluster.
func (s Server) Exists() bool { return s.keys.AccessKey != "" }

// Alive tells whether its process runs.
func (s Server) Alive() bool {
	handle, err := node.LoadHandle(s.path("pid"))
	return err == nil && handle.Alive()
}

func (s Server) path(parts ...string) string {
	return s.Cluster.Path(append([]string{"s3", s.Name}, parts...)...)
}

func (s Server) address() string {
	return net.JoinHostPort(s.Cluster.Address(s.product.host), strconv.Itoa(s.product.port))
}

// Environment is what a client needs, one KEY=value each.
func (s Server) Environment() []string {
	return []string{
		"S3_ENDPOINT=https://" + s.address(),
		"S3_BUCKET=" + Bucket,
		"S3_CA_FILE=" + s.caFile(),
		"AWS_REGION=" + Region,
		"AWS_ACCESS_KEY_ID=" + s.keys.AccessKey,
		"AWS_SECRET_ACCESS_KEY=" + s.keys.SecretKey,
	}
}

func (s Server) caFile() string { return s.Cluster.Path("pki", "ca.crt") }

// prepare makes the server's keys, certificate and folders, once.
func (s *Server) prepare(now time.Time) error {
	if s.Exists() {
		return nil
	}
	for _, folder := range []string{"data", "certs"} {
		if err := os.MkdirAll(s.path(folder), 0o700); err != nil {
			return err
		}
	}
	authority, err := pki.LoadAuthority(s.Cluster.Path("pki"))
	if err != nil {
		return err
	}
	pair, err := authority.Issue(pki.Identity{
		CommonName: s.Name,
		Names:      append([]string{s.Name, "localhost", "127.0.0.1"}, s.Cluster.Addresses(s.product.host)...),
	}, now)
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.path("certs", "public.crt"), pair.Certificate, 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(s.path("certs", "private.key"), pair.Key, 0o600); err != nil {
		return err
	}
	// The keys come last: they say that all the rest is there.
	s.keys = Keys{AccessKey: "howdah" + strings.ToLower(rand.Text()[:10]), SecretKey: rand.Text()}
	content, err := json.Marshal(s.keys)
	if err != nil {
		return err
	}
	return os.WriteFile(s.path("keys.json"), content, 0o600)
}

func launchMinIO(s Server) (args, env []string) {
	args = []string{"minio", "server", s.path("data"), "--address", s.address(), "--certs-dir", s.path("certs"), "--quiet"}
	env = []string{
		"MINIO_ROOT_USER=" + s.keys.AccessKey,
		"MINIO_ROOT_PASSWORD=" + s.keys.SecretKey,
		"MINIO_BROWSER=off",
		"MINIO_UPDATE=off",
	}
	return args, env
}

func launchVersity(s Server) (args, env []string) {
	args = []string{
		"versitygw", "--port", s.address(), "--region", Region, "--quiet",
		"--cert", s.path("certs", "public.crt"), "--key", s.path("certs", "private.key"),
		"posix", s.path("data"),
	}
	env = []string{"ROOT_ACCESS_KEY=" + s.keys.AccessKey, "ROOT_SECRET_KEY=" + s.keys.SecretKey}
	return args, env
}

// program is the server's executable in a folder of programs.
func program(bin string, args []string) []string {
	return append([]string{filepath.Join(bin, args[0])}, args[1:]...)
}
