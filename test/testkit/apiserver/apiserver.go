//go:build integration

// Package apiserver starts a real API server with our kinds for the tests of one package. Nothing else of Kubernetes
// runs: no kubelet, no controllers but those that a test starts.
package apiserver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"howdah.dev/howdah/pkg/manager"
)

var config *rest.Config

var tests, end = context.WithCancel(context.Background())

// Context ends with the tests of the package. It is for controllers that serve all of them.
func Context() context.Context { return tests }

// startTime is how long etcd and the API server may take: on a busy machine more than the 20 s that they have by default.
const startTime = 3 * time.Minute

// Main runs the tests of a package with an API server that Config leads to.
func Main(m *testing.M) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		fmt.Fprintln(os.Stderr, "KUBEBUILDER_ASSETS must name the folder with kube-apiserver and etcd: make test sets it, or write KUBEBUILDER_ASSETS=$(build/bin/kube assets)")
		os.Exit(1)
	}
	log.SetLogger(logr.Discard())
	environment := &envtest.Environment{
		CRDDirectoryPaths: []string{filepath.Join(repository(), "config", "crd")}, ErrorIfCRDPathMissing: true,
		ControlPlaneStartTimeout: startTime, ControlPlaneStopTimeout: startTime,
	}
	// The default has room for 254 Services, of which every cluster has three.
	environment.ControlPlane.GetAPIServer().Configure().Set("service-cluster-ip-range", "10.96.0.0/16")
	environment.ControlPlane.Etcd = &envtest.Etcd{}
	environment.ControlPlane.Etcd.Configure().Set("unsafe-no-fsync", "true") // nothing of it outlives the machine
	started, err := environment.Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the API server:", err)
		os.Exit(1)
	}
	config = started
	if err := watch(tests); err != nil {
		fmt.Fprintln(os.Stderr, "watch the API server:", err)
		os.Exit(1)
	}
	config.QPS, config.Burst = 500, 500
	code := m.Run()
	end() // a controller that continues watching would keep the API server up for another minute
	if err := environment.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the API server:", err)
	}
	os.Exit(code)
}

// Config leads to the API server as its administrator.
func Config() *rest.Config { return rest.CopyConfig(config) }

// Client reads and writes without a cache.
func Client(t *testing.T) client.Client {
	t.Helper()
	c, err := client.New(Config(), client.Options{Scheme: manager.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Namespace makes one for a test. It is not deleted: nothing here would finish a deletion, and the server goes anyway.
func Namespace(t *testing.T, c client.Client) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := c.Create(context.Background(), namespace); err != nil {
		t.Fatal(err)
	}
	return namespace.Name
}

// repository is the root of this repository: the folder with go.work, above the one that go test runs a package in. Where the
// source was isn't asked of the binary, which doesn't know it when it is built with -trimpath.
func repository() string {
	folder, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(folder, "go.work")); err == nil {
			return folder
		}
		if filepath.Dir(folder) == folder {
			break
		}
		folder = filepath.Dir(folder)
	}
	panic("these tests run inside the repository only")
}
