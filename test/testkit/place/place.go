// Package place gives a test its place on a real cluster with the suite in it: a namespace, a prefix in a bucket, and
// what is done there again and again.
package place

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/manager"
)

// Place is a namespace, and a prefix in a bucket, for one test.
type Place struct {
	*testing.T
	client.Client
	Namespace string
	Store     map[string]string // what `kube s3 env` says
	config    *rest.Config
	watcher   client.WithWatch
}

// New makes the namespace of a test, with a BackupRepository `repo` on the named S3 server, and takes it away after a
// success. After a failure it stays, and what its objects said is in build/e2e.
func New(t *testing.T, server string) *Place {
	t.Helper()
	config := RESTConfig(t)
	watcher := ClientFor(t, config)
	p := &Place{T: t, config: config, Client: watcher, watcher: watcher, Store: storeEnv(t, server)}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"}}
	p.Must(p.Create(t.Context(), namespace))
	p.Namespace = namespace.Name
	t.Cleanup(func() { p.leave(namespace) })
	p.MakeRepository("repo", p.Store["AWS_SECRET_ACCESS_KEY"])
	return p
}

func (p *Place) leave(namespace *corev1.Namespace) {
	if p.Failed() {
		p.dump()
		return
	}
	// What would wait for a last backup goes without: the namespace takes no new objects any more.
	clusters := &v1alpha1.PostgresClusterList{}
	if err := p.List(context.Background(), clusters, client.InNamespace(p.Namespace)); err == nil {
		for i := range clusters.Items {
			patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"deletionPolicy":{"finalBackup":false,"volumes":"Delete","database":null}}}`))
			_ = p.Patch(context.Background(), &clusters.Items[i], patch)
		}
	}
	if err := p.Delete(context.Background(), namespace); err != nil {
		p.Logf("the namespace stays: %v", err)
	}
}

// dump keeps what a person would look at first.
func (p *Place) dump() {
	dir := filepath.Join("../../build/e2e", strings.ReplaceAll(p.Name(), "/", "_"))
	_ = os.MkdirAll(dir, 0o755)
	for name, args := range map[string][]string{
		"objects.yaml": {"get", "howdah,pods,jobs,statefulsets,pvc,endpointslices,leases", "-n", p.Namespace, "-o", "yaml"},
		"events.txt":   {"get", "events", "-n", p.Namespace, "--sort-by=.lastTimestamp"},
		"pods.log":     {"logs", "-n", p.Namespace, "-l", "app.kubernetes.io/managed-by=howdah", "--all-containers", "--prefix", "--tail=300"},
		"suite.log":    {"logs", "-n", "howdah-system", "-l", "app.kubernetes.io/instance=howdah", "--prefix", "--tail=500"},
	} {
		out, _ := exec.Command(Kubectl(p.T), args...).CombinedOutput()
		_ = os.WriteFile(filepath.Join(dir, name), out, 0o644)
	}
	p.Logf("namespace %s is left to be looked at; its objects, events and logs are in %s", p.Namespace, dir)
}

// Must ends the test on an error.
func (p *Place) Must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// Meta names an object of the place.
func (p *Place) Meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: p.Namespace, Name: name}
}

// Merge changes an object by a merge patch.
func (p *Place) Merge(object client.Object, patch string) {
	p.Helper()
	p.Must(p.Patch(p.Context(), object, client.RawPatch("application/merge-patch+json", []byte(patch))))
}

// RESTConfig leads to the cluster of KUBECONFIG.
func RESTConfig(t *testing.T) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// ClientFor makes a client that knows our kinds.
func ClientFor(t *testing.T, config *rest.Config) client.WithWatch {
	t.Helper()
	c, err := client.NewWithWatch(config, client.Options{Scheme: manager.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
