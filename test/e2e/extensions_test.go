//go:build e2e

package e2e

import (
	"archive/tar"
	"bytes"
	"encoding/base64"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/place"
)

// likeness is an extension in C that PostgreSQL's image doesn't have under this name: its library is a copy of pg_trgm's.
var likeness = map[string]string{
	"share/extension/likeness.control":  "default_version = '1.0'\nmodule_pathname = '$libdir/likeness'\nrelocatable = true\n",
	"share/extension/likeness--1.0.sql": "CREATE FUNCTION likeness(text, text) RETURNS real AS 'MODULE_PATHNAME', 'similarity' LANGUAGE C STRICT IMMUTABLE;\n",
}

// loadImage puts an image with these files on every node.
func (b *bed) loadImage(name string, files map[string]string) {
	b.Helper()
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for path, content := range files {
		b.Must(w.WriteHeader(&tar.Header{Name: path, Mode: 0o644, Size: int64(len(content))}))
		_, err := w.Write([]byte(content))
		b.Must(err)
	}
	b.Must(w.Close())
	b.loadLayer(name, empty.Image, layer.Bytes())
}

// loadLayer puts an image with one more layer, a tar file, on every node.
func (b *bed) loadLayer(name string, base v1.Image, layer []byte) {
	b.Helper()
	packed, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer)), nil })
	b.Must(err)
	image, err := mutate.AppendLayers(base, packed)
	b.Must(err)
	folder := b.TempDir()
	written, err := layout.Write(filepath.Join(folder, "image"), empty.Index)
	b.Must(err)
	b.Must(written.AppendImage(image, layout.WithAnnotations(map[string]string{"io.containerd.image.name": name})))
	archive, err := os.Create(filepath.Join(folder, "image.tar"))
	b.Must(err)
	w := tar.NewWriter(archive)
	b.Must(w.AddFS(os.DirFS(filepath.Join(folder, "image"))))
	b.Must(w.Close())
	b.Must(archive.Close())
	b.Kube("load", archive.Name())
}

// alike asks the extension.
func (b *bed) alike(cluster string) string {
	b.Helper()
	return b.SQL(cluster, "SELECT extensions.likeness('howdah', 'howdah')")
}

// TestAnExtensionComesFromAnImageOfItsOwnAndIsThereAfterARestore goes through its life: it is mounted into pods that run, one after the other,
// it is in a copy that a Restore makes, and goes again.
func TestAnExtensionComesFromAnImageOfItsOwnAndIsThereAfterARestore(t *testing.T) {
	onlyInFull(t, "the trial of an image and the recorded extensions have tests of their own")
	t.Parallel()
	place.NeedKube(t)
	b := newBed(t, "minio")
	cluster := b.NewCluster("shop", 18)
	cluster.Spec.Instances = 2
	b.Must(b.Create(t.Context(), cluster))
	b.awaitInstances(cluster, 2)
	library, err := b.Exec("shop-0", "base64", "-w0", "/usr/lib/postgresql/18/lib/pg_trgm.so")
	b.Must(err)
	program, err := base64.StdEncoding.DecodeString(strings.TrimSpace(library))
	b.Must(err)
	files := map[string]string{"lib/likeness.so": string(program)}
	for path, content := range likeness {
		files[path] = content
	}
	image := "registry.local/likeness:" + b.Namespace
	b.loadImage(image, files)
	w, primary := b.startWriter("shop"), cluster.Status.Primary

	b.Merge(cluster, `{"spec":{"postgresql":{"extensionImages":[{"name":"likeness","image":"`+image+`"}]},"databases":[{"name":"app","extensions":[{"name":"likeness"}]}]}}`)
	b.AwaitTrue(cluster, v1alpha1.ConditionUpToDate)
	b.AwaitTrue(cluster, v1alpha1.ConditionRolesAndDatabasesReady)
	if cluster.Status.Primary == primary {
		t.Errorf("%s is still primary, so it was not replicas first", primary)
	}
	if got := b.alike("shop"); got != "1" {
		t.Errorf("the extension says %q", got)
	}
	b.Backup("full", "shop")
	restore := &v1alpha1.Restore{ObjectMeta: b.Meta("copy"), Spec: v1alpha1.RestoreSpec{
		Source:      v1alpha1.RestoreSource{Backup: &v1alpha1.LocalReference{Name: "full"}},
		Destination: v1alpha1.RestoreDestination{NewCluster: &v1alpha1.NewCluster{Name: "copy", Temporary: true}},
	}}
	b.Must(b.Create(t.Context(), restore))
	b.AwaitTrue(restore, v1alpha1.ConditionSucceeded)
	if got := b.alike("copy"); got != "1" {
		t.Errorf("after the restore the extension says %q", got)
	}

	b.Merge(cluster, `{"spec":{"databases":null}}`)
	b.Await(cluster, "the extension to be no longer declared", func() bool { return place.Condition(cluster, v1alpha1.ConditionRolesAndDatabasesReady) == nil })
	b.SQL("shop", "DROP EXTENSION likeness")
	b.Merge(cluster, `{"spec":{"postgresql":{"extensionImages":null}}}`)
	b.AwaitTrue(cluster, v1alpha1.ConditionUpToDate)
	for _, v := range b.Pod(cluster.Status.Primary).Spec.Volumes {
		if v.Image != nil && v.Image.Reference == image {
			t.Error("the primary still has the image")
		}
	}
	w.judge()
}
