package image

import (
	"archive/tar"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// compileHello compiles a small program in a folder of its own.
func compileHello(t *testing.T) *Binary {
	t.Helper()
	folder := t.TempDir()
	write := func(path, content string) {
		path = filepath.Join(folder, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module example.test/hello\n\ngo 1.26\n")
	write("cmd/hello/main.go", "package main\n\nvar version = \"none\"\n\nfunc main() { println(version) }\n")
	write("cmd/small/main.go", "package main\n\nfunc main() {}\n")
	t.Setenv("GOWORK", "off")
	source := Source{Dir: folder, Version: "1.2.3", Revision: "abc", Arch: "amd64"}
	binaries, err := Compile(context.Background(), source, filepath.Join(folder, "out"), []string{"hello"}, map[string][]string{"hello": {"small"}})
	if err != nil {
		t.Fatal(err)
	}
	return binaries[0]
}

func digest(t *testing.T, b *Binary) v1.Hash {
	t.Helper()
	img, err := b.Image()
	if err != nil {
		t.Fatal(err)
	}
	d, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestTwoBuildsInTwoFoldersHaveOneDigest(t *testing.T) {
	first, second := compileHello(t), compileHello(t)
	if first.Path == second.Path {
		t.Fatal("both builds went to one folder")
	}
	if a, b := digest(t, first), digest(t, second); a != b {
		t.Errorf("the same source gave %s and %s", a, b)
	}
	dir := t.TempDir()
	for _, b := range []*Binary{first, second} {
		if _, err := b.WriteArchive(filepath.Join(dir, filepath.Base(filepath.Dir(filepath.Dir(b.Path)))), "registry.local/hello:1"); err != nil {
			t.Fatal(err)
		}
	}
	for _, pattern := range []string{"*/hello.tar", "*/hello.cdx.json"} {
		paths, _ := filepath.Glob(filepath.Join(dir, pattern))
		if len(paths) != 2 {
			t.Fatalf("%s: %d files", pattern, len(paths))
		}
		if a, b := read(t, paths[0]), read(t, paths[1]); a != b {
			t.Errorf("%s differs between two builds", pattern)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestAnImageHoldsTheBinaryCertificatesAndAUserThatIsNotRoot(t *testing.T) {
	img, err := compileHello(t).Image()
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != "65532:65532" {
		t.Errorf("user is %q", config.Config.User)
	}
	if !slices.Equal(config.Config.Entrypoint, []string{"/hello"}) {
		t.Errorf("entrypoint is %q", config.Config.Entrypoint)
	}
	if config.OS != "linux" || config.Architecture != "amd64" {
		t.Errorf("platform is %s/%s", config.OS, config.Architecture)
	}
	for label, want := range map[string]string{"version": "1.2.3", "revision": "abc", "title": "hello", "licenses": "Apache-2.0"} {
		if got := config.Config.Labels["org.opencontainers.image."+label]; got != want {
			t.Errorf("label %s is %q, want %q", label, got, want)
		}
	}
	files := contents(t, img)
	for _, name := range []string{"hello", "small"} {
		if header := files[name].header; header == nil || header.FileInfo().Mode().Perm() != 0o755 || len(files[name].data) == 0 {
			t.Errorf("the binary %s is %v", name, header)
		}
	}
	if got := countCertificates(t, files["etc/ssl/certs/ca-certificates.crt"].data); got < 50 {
		t.Errorf("%d certificates", got)
	}
}

type entry struct {
	header *tar.Header
	data   []byte
}

func contents(t *testing.T, img v1.Image) map[string]entry {
	t.Helper()
	rootfs := mutate.Extract(img)
	defer rootfs.Close()
	return readTar(t, rootfs)
}

func readTar(t *testing.T, r io.Reader) map[string]entry {
	t.Helper()
	entries := map[string]entry{}
	for archive := tar.NewReader(r); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return entries
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		entries[strings.TrimSuffix(header.Name, "/")] = entry{header, data}
	}
}

func countCertificates(t *testing.T, bundle []byte) (count int) {
	t.Helper()
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			t.Error(err)
		}
		count++
	}
	return count
}

func TestAnArchiveIsAnOCILayoutWithTheNameThatWasAsked(t *testing.T) {
	binary := compileHello(t)
	dir := t.TempDir()
	line, err := binary.WriteArchive(dir, "registry.local/howdah/hello:1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(line, "written") {
		t.Errorf("first build said %q", line)
	}
	files := readTar(t, strings.NewReader(read(t, filepath.Join(dir, "hello.tar"))))
	var index v1.IndexManifest
	if err := json.Unmarshal(files["index.json"].data, &index); err != nil {
		t.Fatal(err)
	}
	if len(index.Manifests) != 1 || index.Manifests[0].Annotations["io.containerd.image.name"] != "registry.local/howdah/hello:1.2.3" {
		t.Fatalf("index: %s", files["index.json"].data)
	}
	if string(files["oci-layout"].data) != `{"imageLayoutVersion":"1.0.0"}` {
		t.Errorf("oci-layout: %s", files["oci-layout"].data)
	}
	var manifest v1.Manifest
	if err := json.Unmarshal(files["blobs/sha256/"+index.Manifests[0].Digest.Hex].data, &manifest); err != nil {
		t.Fatal(err)
	}
	for _, d := range append(manifest.Layers, manifest.Config) {
		if got := int64(len(files["blobs/sha256/"+d.Digest.Hex].data)); got != d.Size {
			t.Errorf("blob %s has %d bytes, want %d", d.Digest, got, d.Size)
		}
	}
}

func TestAnArchiveIsWrittenAgainOnlyWhenSomethingChanged(t *testing.T) {
	binary := compileHello(t)
	dir := t.TempDir()
	write := func(b *Binary) string {
		t.Helper()
		line, err := b.WriteArchive(dir, "registry.local/hello:1")
		if err != nil {
			t.Fatal(err)
		}
		return line[strings.LastIndex(line, " ")+1:]
	}
	changed := *binary
	changed.Revision = "def"
	for i, step := range []struct {
		binary *Binary
		want   string
	}{{binary, "written"}, {binary, "unchanged"}, {&changed, "written"}, {&changed, "unchanged"}} {
		if got := write(step.binary); got != step.want {
			t.Errorf("build %d: %s, want %s", i+1, got, step.want)
		}
	}
	if err := os.Remove(filepath.Join(dir, "hello.tar")); err != nil {
		t.Fatal(err)
	}
	if got := write(&changed); got != "written" {
		t.Errorf("a lost archive: %s", got)
	}
}

func TestAPushedImageIsTheOneThatWasBuiltAndItsSBOMIsFound(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	binary := compileHello(t)
	if _, err := binary.Push(context.Background(), host+"/howdah/hello:1.2.3", true); err != nil {
		t.Fatal(err)
	}
	reference, err := name.ParseReference(host + "/howdah/hello:1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := remote.Image(reference)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(pulled); err != nil {
		t.Error(err)
	}
	got, err := pulled.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if want := digest(t, binary); got != want {
		t.Errorf("pulled %s, built %s", got, want)
	}
	referrers, err := remote.Referrers(reference.Context().Digest(got.String()))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := referrers.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 1 {
		t.Fatalf("%d referrers", len(manifest.Manifests))
	}
}

func TestTheSBOMNamesTheModulesOfTheBinary(t *testing.T) {
	source := Source{Dir: "../../../..", Version: "1", Arch: "amd64"}
	binaries, err := Compile(context.Background(), source, t.TempDir(), []string{"howdah-images"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	document, err := binaries[0].SBOM()
	if err != nil {
		t.Fatal(err)
	}
	var parsed sbom
	if err := json.Unmarshal(document, &parsed); err != nil {
		t.Fatal(err)
	}
	if parsed.Metadata.Component.Name != "howdah-images" || len(parsed.Metadata.Component.Hashes) != 1 {
		t.Errorf("component: %+v", parsed.Metadata.Component)
	}
	for _, c := range parsed.Components {
		if c.Name == "github.com/google/go-containerregistry" && c.URL == "pkg:golang/"+c.Name+"@"+c.Version && c.Version != "" {
			return
		}
	}
	t.Error("a module that is linked in is not named")
}
