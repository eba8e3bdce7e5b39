package imagestore

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"howdah.dev/test/kube/oci"
)

func TestTheTableOfImagesIsRead(t *testing.T) {
	const table = `REF                        TYPE                                       DIGEST         SIZE     PLATFORMS   LABELS
registry.local/pause:1     application/vnd.oci.image.manifest.v1+json sha256:0123    1.4 MiB  linux/amd64 io.cri-containerd.image=managed
`
	want := map[string]string{"registry.local/pause:1": "sha256:0123"}
	if got := parseImages(table); !maps.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

func TestANameWithAnotherDigestIsAnotherImage(t *testing.T) {
	have := map[string]string{"a:1": "sha256:1"}
	if !hasAll(have, []oci.Image{{Name: "a:1", Digest: "sha256:1"}}) {
		t.Error("what is there counts as missing")
	}
	if hasAll(have, []oci.Image{{Name: "a:1", Digest: "sha256:2"}}) {
		t.Error("an older image of that name counts as the one that is wanted")
	}
}

func TestACopyOfTheTemplateSharesLayersAndNotDatabases(t *testing.T) {
	template := Template{Folder: t.TempDir()}
	for file, content := range map[string]string{"meta/meta.db": "database", "layers/1/file": "layer"} {
		path := filepath.Join(template.root(), file)
		if err := os.MkdirAll(filepath.Dir(path), 0o751); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	target := filepath.Join(t.TempDir(), "copy")
	for range 2 { // the second finds it done
		if err := template.Clone(t.Context(), target); err != nil {
			t.Fatal(err)
		}
	}
	for file, shared := range map[string]bool{"meta/meta.db": false, "layers/1/file": true} {
		original, err := os.Stat(filepath.Join(template.root(), file))
		if err != nil {
			t.Fatal(err)
		}
		copied, err := os.Stat(filepath.Join(target, file))
		if err != nil {
			t.Fatal(err)
		}
		if os.SameFile(original, copied) != shared {
			t.Errorf("%s: shared is %v", file, !shared)
		}
	}
}
