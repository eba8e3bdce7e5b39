//go:build chart

package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"sigs.k8s.io/yaml"

	"howdah.dev/howdah/cmd/howdah-images/internal/image"
	"howdah.dev/howdah/cmd/howdah-images/internal/signature"
)

const repository = "../../../.."

// registryServer is a registry that each test finds empty, under an address that a release can be built for once.
type registryServer struct {
	*httptest.Server
	handler atomic.Value
}

func (s *registryServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.handler.Load().(*http.HandlerFunc).ServeHTTP(w, r)
}

func (s *registryServer) empty() {
	handler := http.HandlerFunc(registry.New(registry.Logger(log.New(io.Discard, "", 0))).ServeHTTP)
	s.handler.Store(&handler)
}

var (
	server  registryServer
	scratch string
	signer  *signature.Key
)

func TestMain(m *testing.M) {
	os.Exit(func() int {
		server.empty()
		server.Server = httptest.NewServer(&server)
		defer server.Close()
		var err error
		if scratch, err = os.MkdirTemp("", "release-*"); err != nil {
			panic(err)
		}
		defer os.RemoveAll(scratch)
		if signer, err = createKey(); err != nil {
			panic(err)
		}
		return m.Run()
	}())
}

// built is the release that most tests look at. They must not change it.
var built = sync.OnceValues(func() (*Release, error) {
	r, err := small("one")
	if err == nil {
		err = r.Write(context.Background())
	}
	return r, err
})

func theRelease(t *testing.T) *Release {
	t.Helper()
	r, err := built()
	must(t, err)
	return r
}

// small is a release of programs that compile in a moment, with the charts of this repository, in a folder of its own.
func small(folder string) (*Release, error) {
	source := filepath.Join(scratch, folder, "source")
	contents := map[string]string{"go.mod": "module example.test/hello\n\ngo 1.26\n", "LICENSE": "do as you like\n"}
	for _, command := range []string{"db-controller", "agent", "kubectl-howdah"} {
		contents["cmd/"+command+"/main.go"] = "package main\n\nvar version = \"none\"\n\nfunc main() { println(version) }\n"
	}
	for path, content := range contents {
		path = filepath.Join(source, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			return nil, err
		}
	}
	if err := os.CopyFS(filepath.Join(source, "charts"), os.DirFS(filepath.Join(repository, "charts"))); err != nil {
		return nil, err
	}
	if err := os.CopyFS(filepath.Join(source, "config/samples"), os.DirFS(filepath.Join(repository, "config/samples"))); err != nil {
		return nil, err
	}
	helm, err := filepath.Abs(filepath.Join(repository, "build/bin/helm"))
	return &Release{
		Source: image.Source{Dir: source, Version: "1.2.3", Revision: "0123456789abcdef0123456789abcdef01234567"},
		Images: []string{"db-controller", "agent"}, Clients: []string{"kubectl-howdah"},
		Arches: []string{"amd64", "arm64"}, Platforms: []string{"linux/amd64", "darwin/arm64"},
		Charts:     []string{"charts/howdah", "charts/howdah-cluster"},
		Repository: strings.TrimPrefix(server.URL, "http://") + "/team/howdah",
		Downloads:  "https://downloads.example/1.2.3", Builder: "https://builder.example",
		Postgres: map[string]string{"17": "registry.example/postgres:17@sha256:" + strings.Repeat("1", 64)},
		Time:     time.Unix(1700000000, 0), Helm: helm, Key: signer,
		Dist: filepath.Join(scratch, folder, "dist"), Work: filepath.Join(scratch, folder, "work"),
	}, err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newKey(t *testing.T) *signature.Key {
	t.Helper()
	key, err := createKey()
	must(t, err)
	return key
}

// createKey writes a key as openssl does, and reads it.
func createKey() (*signature.Key, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(scratch, "key.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		return nil, err
	}
	return signature.LoadKey(path)
}

func files(t *testing.T, dist string) map[string]string {
	t.Helper()
	found := map[string]string{}
	must(t, filepath.WalkDir(dist, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		found[strings.TrimPrefix(path, dist+"/")] = string(content)
		return err
	}))
	return found
}

func TestTwoReleasesOfOneCommitAreTheSameToTheLastByte(t *testing.T) {
	first := theRelease(t)
	second, err := small("two")
	must(t, err)
	must(t, second.Write(t.Context()))
	a, b := files(t, first.Dist), files(t, second.Dist)
	if len(a) != len(b) || len(a) < 20 {
		t.Errorf("the releases have %d and %d files", len(a), len(b))
	}
	for name, content := range a {
		if b[name] != content {
			t.Errorf("%s differs", name)
		}
	}
}

func TestAReleaseHasEverythingThatAStrangerNeeds(t *testing.T) {
	r := theRelease(t)
	found := files(t, r.Dist)
	for _, name := range []string{
		"howdah-1.2.3.tgz", "howdah-cluster-1.2.3.tgz", "install.yaml", "crds.yaml", "howdah.krew.yaml", "provenance.intoto.json", "provenance.intoto.jsonl",
		"SHA256SUMS", "SHA256SUMS.sig", "howdah.pub", "oci/index.json", "oci/oci-layout",
		"kubectl-howdah_1.2.3_linux_amd64.tar.gz", "kubectl-howdah_1.2.3_darwin_arm64.tar.gz", "kubectl-howdah_1.2.3_darwin_arm64.cdx.json",
		"db-controller_1.2.3_linux_amd64.cdx.json", "agent_1.2.3_linux_arm64.cdx.json",
	} {
		if found[name] == "" {
			t.Errorf("there is no %s", name)
		}
	}
	out, err := exec.Command("bash", "-c", "cd "+r.Dist+` && sha256sum --quiet --strict --check SHA256SUMS &&
		base64 --decode SHA256SUMS.sig > ../signature && openssl dgst -sha256 -verify howdah.pub -signature ../signature SHA256SUMS`).CombinedOutput()
	if err != nil {
		t.Errorf("sha256sum and openssl: %v\n%s", err, out)
	}
	must(t, Verify(r.Dist, signer.Public()))
	if _, err := os.Stat(r.Dist + ".partial"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder that it was built in is still there: %v", err)
	}
}

// digests are those of the layout by the reference of each.
func digests(t *testing.T, r *Release) map[string]string {
	t.Helper()
	var index v1.IndexManifest
	must(t, json.Unmarshal([]byte(files(t, r.Dist)["oci/index.json"]), &index))
	found := map[string]string{}
	for _, m := range index.Manifests {
		found[m.Annotations[referenceAnnotation]] = m.Digest.String()
	}
	return found
}

func TestTheChartAndTheManifestsNameEachImageByItsDigest(t *testing.T) {
	r := theRelease(t)
	digest := digests(t, r)
	install := files(t, r.Dist)["install.yaml"]
	for _, name := range r.Images {
		reference := r.Repository + "/" + name + ":1.2.3"
		if want := reference + "@" + digest[reference]; digest[reference] == "" || !strings.Contains(install, want) {
			t.Errorf("install.yaml doesn't name %s", want)
		}
	}
	for _, never := range []string{"registry.local/howdah", "app.kubernetes.io/managed-by: Helm", "helm.sh/", "app.kubernetes.io/version: 0."} {
		if strings.Contains(install, never) {
			t.Errorf("install.yaml has %s", never)
		}
	}
	if want := "17=registry.example/postgres:17@sha256:1"; !strings.Contains(install, want) {
		t.Errorf("install.yaml doesn't name %s", want)
	}
	chart := filepath.Join(r.Dist, "howdah-1.2.3.tgz")
	out, err := exec.Command(r.Helm, "template", "x", chart, "--set", "image.repository=mirror.example/h", "--set", "image.tag=mine").CombinedOutput()
	must(t, err)
	if !strings.Contains(string(out), "mirror.example/h/agent:mine\n") {
		t.Error("a tag of one's own is not what the chart uses")
	}
	out, err = exec.Command(r.Helm, "template", "x", chart, "--set", "image.repository=mirror.example/h").CombinedOutput()
	must(t, err)
	if want := "mirror.example/h/agent:1.2.3@" + digest[r.Repository+"/agent:1.2.3"]; !strings.Contains(string(out), want) {
		t.Errorf("a mirror is not used with the digest: %s", want)
	}
	if out, err := exec.Command(r.Helm, "lint", "--strict", chart, filepath.Join(r.Dist, "howdah-cluster-1.2.3.tgz")).CombinedOutput(); err != nil {
		t.Errorf("helm lint: %v\n%s", err, out)
	}
}

func TestTheManifestOfKrewLeadsToTheArchives(t *testing.T) {
	r := theRelease(t)
	found := files(t, r.Dist)
	var manifest struct {
		Spec struct {
			Version   string
			Platforms []krewPlatform
		}
	}
	must(t, yaml.Unmarshal([]byte(found["howdah.krew.yaml"]), &manifest))
	if manifest.Spec.Version != "v1.2.3" || len(manifest.Spec.Platforms) != 2 {
		t.Fatalf("%+v", manifest)
	}
	for _, platform := range manifest.Spec.Platforms {
		file := strings.TrimPrefix(platform.URI, "https://downloads.example/1.2.3/")
		if !strings.Contains(found["SHA256SUMS"], platform.SHA256+"  "+file+"\n") {
			t.Errorf("%s has another checksum", file)
		}
		if got := names(t, found[file]); !slices.Equal(got, []string{platform.Bin, "LICENSE"}) {
			t.Errorf("%s holds %v", file, got)
		}
	}
}

func names(t *testing.T, packed string) (all []string) {
	t.Helper()
	unzipped, err := gzip.NewReader(strings.NewReader(packed))
	must(t, err)
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		must(t, err)
		all = append(all, header.Name)
	}
}

func TestTheProvenanceIsSignedAndNamesCommitImagesAndFiles(t *testing.T) {
	r := theRelease(t)
	found := files(t, r.Dist)
	var signed envelope
	must(t, json.Unmarshal([]byte(found["provenance.intoto.jsonl"]), &signed))
	document, err := base64.StdEncoding.DecodeString(signed.Payload)
	must(t, err)
	sig, err := base64.StdEncoding.DecodeString(signed.Signatures[0].Sig)
	must(t, err)
	must(t, signer.Public().Verify(preAuthentication(signed.PayloadType, document), sig))
	var said statement
	must(t, json.Unmarshal(document, &said))
	digest := strings.TrimPrefix(digests(t, r)[r.Repository+"/agent:1.2.3"], "sha256:")
	for _, want := range []string{r.Repository + "/agent sha256 " + digest, "install.yaml"} {
		if !slices.ContainsFunc(said.Subject, func(s resource) bool { return strings.HasPrefix(s.Name+" sha256 "+s.Digest["sha256"], want) }) {
			t.Errorf("%s is no subject", want)
		}
	}
	if said.PredicateType != "https://slsa.dev/provenance/v1" || !bytes.Contains(document, []byte(r.Source.Revision)) {
		t.Errorf("the provenance says %s", document)
	}
}

func TestAReleaseThatWasChangedIsRefused(t *testing.T) {
	r := theRelease(t)
	for what, change := range map[string]func(dist string) error{
		"a file is changed": func(dist string) error {
			return os.WriteFile(filepath.Join(dist, "install.yaml"), []byte("kind: Pod\n"), 0o600)
		},
		"a file is added":   func(dist string) error { return os.WriteFile(filepath.Join(dist, "more.yaml"), nil, 0o600) },
		"a file is missing": func(dist string) error { return os.Remove(filepath.Join(dist, "crds.yaml")) },
		"a digest is changed": func(dist string) error {
			index := files(t, dist)["oci/index.json"]
			changed := strings.Replace(index, `"digest":"sha256:`, `"digest":"sha256:0`, 1)
			if changed == index {
				changed = strings.Replace(index, `"digest": "sha256:`, `"digest": "sha256:0`, 1)
			}
			return os.WriteFile(filepath.Join(dist, "oci/index.json"), []byte(changed), 0o600)
		},
		"the checksums follow the change": func(dist string) error {
			path := filepath.Join(dist, "install.yaml")
			return errors.Join(os.WriteFile(path, []byte("kind: Pod\n"), 0o600), (&Release{Dist: dist}).writeSums())
		},
		"another key signs the change": func(dist string) error {
			path := filepath.Join(dist, "install.yaml")
			return errors.Join(os.WriteFile(path, []byte("kind: Pod\n"), 0o600), (&Release{Dist: dist, Key: newKey(t)}).writeSums())
		},
		"the signature is missing": func(dist string) error { return os.Remove(filepath.Join(dist, "SHA256SUMS.sig")) },
	} {
		dist := filepath.Join(t.TempDir(), "dist")
		must(t, os.CopyFS(dist, os.DirFS(r.Dist)))
		must(t, Verify(dist, signer.Public()))
		must(t, change(dist))
		if err := Verify(dist, signer.Public()); err == nil {
			t.Errorf("when %s, the release passes", what)
		}
	}
}

func TestAFolderThatIsNoReleaseIsNotReplaced(t *testing.T) {
	r, err := small("thesis")
	must(t, err)
	must(t, os.MkdirAll(r.Dist, 0o755))
	must(t, os.WriteFile(filepath.Join(r.Dist, "thesis.txt"), []byte("years of work"), 0o600))
	if err := r.Write(t.Context()); err == nil || !strings.Contains(err.Error(), "not a release") {
		t.Errorf("got %v", err)
	}
	if files(t, r.Dist)["thesis.txt"] == "" {
		t.Error("the file was deleted")
	}
}

func TestAVersionOrAPlaceThatCanNotBeIsRefused(t *testing.T) {
	for _, version := range []string{"", "v1.2.3", "1.2", "1.2.3+build", "latest"} {
		r := &Release{Source: image.Source{Version: version}, Repository: "registry.example/howdah"}
		if err := r.check(); err == nil {
			t.Errorf("version %q passes", version)
		}
	}
	changed := &Release{Source: image.Source{Version: "1.2.3", Revision: "0123-dirty"}, Repository: "registry.example/howdah", Key: signer}
	if err := changed.check(); err == nil || !strings.Contains(err.Error(), "--uncommitted") {
		t.Errorf("uncommitted changes: %v", err)
	}
	changed.Key = nil
	must(t, changed.check())
	for _, where := range []string{"", "howdah", "registry.example/", "/howdah"} {
		r := &Release{Source: image.Source{Version: "1.2.3"}, Repository: where}
		if err := r.check(); err == nil {
			t.Errorf("repository %q passes", where)
		}
	}
}

// publishedRelease is the release in an empty registry.
func publishedRelease(t *testing.T) (*Release, *Registry) {
	t.Helper()
	server.empty()
	there := &Registry{Insecure: true, Say: t.Logf}
	r := theRelease(t)
	must(t, there.Publish(t.Context(), r.Dist))
	return r, there
}

func TestWhatIsPublishedIsWhatWasSigned(t *testing.T) {
	r, there := publishedRelease(t)
	must(t, there.Verify(t.Context(), r.Dist, signer.Public()))
	must(t, there.Publish(t.Context(), r.Dist)) // again changes nothing
	if err := there.Verify(t.Context(), r.Dist, newKey(t).Public()); !errors.Is(err, signature.ErrInvalid) {
		t.Errorf("another key: %v", err)
	}
	folder := t.TempDir()
	pull := exec.Command(r.Helm, "pull", "oci://"+r.Repository+"/charts/howdah", "--version", "1.2.3", "--plain-http", "--destination", folder)
	if out, err := pull.CombinedOutput(); err != nil {
		t.Fatalf("helm pull: %v\n%s", err, out)
	}
	if files(t, folder)["howdah-1.2.3.tgz"] != files(t, r.Dist)["howdah-1.2.3.tgz"] {
		t.Error("helm pulls another chart than that of the release")
	}
	reference, err := name.ParseReference(r.Repository+"/agent:1.2.3", name.Insecure)
	must(t, err)
	for _, arch := range r.Arches {
		img, err := remote.Image(reference, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: arch}))
		must(t, err)
		config, err := img.ConfigFile()
		must(t, err)
		digest, err := img.Digest()
		must(t, err)
		referrers, err := remote.Referrers(reference.Context().Digest(digest.String()))
		must(t, err)
		manifest, err := referrers.IndexManifest()
		must(t, err)
		if config.Architecture != arch || len(manifest.Manifests) != 1 {
			t.Errorf("the image for %s is one for %s with %d SBOMs", arch, config.Architecture, len(manifest.Manifests))
		}
	}
}

func TestAnImageOrASignatureThatWasReplacedInTheRegistryIsRefused(t *testing.T) {
	for what, replace := range map[string]func(t *testing.T, r *Release){
		"the image": func(t *testing.T, r *Release) { push(t, r.Repository+"/agent:1.2.3", other(t)) },
		"the signature, by one of another key": func(t *testing.T, r *Release) {
			digest := agentDigest(t, r)
			forged, err := newKey(t).Image(r.Repository+"/agent", digest)
			must(t, err)
			push(t, r.Repository+"/agent:"+signature.Tag(digest), forged)
		},
		"the signature, by one of another image": func(t *testing.T, r *Release) {
			digest, err := other(t).Digest()
			must(t, err)
			genuine, err := signer.Image(r.Repository+"/agent", digest)
			must(t, err)
			push(t, r.Repository+"/agent:"+signature.Tag(agentDigest(t, r)), genuine)
		},
		"the signature, by nothing": func(t *testing.T, r *Release) {
			push(t, r.Repository+"/agent:"+signature.Tag(agentDigest(t, r)), other(t))
		},
	} {
		t.Run(what, func(t *testing.T) {
			r, there := publishedRelease(t)
			replace(t, r)
			err := there.Verify(t.Context(), r.Dist, signer.Public())
			if !errors.Is(err, signature.ErrInvalid) && !errors.Is(err, ErrChanged) {
				t.Errorf("got %v", err)
			}
			if err := there.Publish(t.Context(), r.Dist); !errors.Is(err, ErrTaken) {
				t.Errorf("publishing over it: %v", err)
			}
		})
	}
}

func agentDigest(t *testing.T, r *Release) v1.Hash {
	t.Helper()
	digest, err := v1.NewHash(digests(t, r)[r.Repository+"/agent:1.2.3"])
	must(t, err)
	return digest
}

func other(t *testing.T) v1.Image {
	t.Helper()
	img, err := mutate.Config(empty.Image, v1.Config{User: "somebody"})
	must(t, err)
	return img
}

func push(t *testing.T, where string, img v1.Image) {
	t.Helper()
	reference, err := name.ParseReference(where, name.Insecure)
	must(t, err)
	must(t, remote.Write(reference, img, remote.WithContext(context.Background())))
}
