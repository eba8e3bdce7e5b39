//go:build install

// Package install does what somebody does who has nothing but a release: it builds one, pushes it to a registry of its own, and installs from
// these two alone, into a cluster whose nodes pull.
package install

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
)

const (
	root    = "../.."
	version = "0.0.1-test"
	image   = "registry.local/postgresql:17" // of the test bed, which has no way to the registry of the upstream one
)

// stranger has a release, its public key, and a registry.
type stranger struct {
	*testing.T
	registry *pulls
	address  string // of the registry
	folder   string
	dist     string
}

// pulls is a registry that remembers what was pulled.
type pulls struct {
	handler http.Handler
	mutex   sync.Mutex
	seen    []string
}

func (p *pulls) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && strings.HasPrefix(r.UserAgent(), "containerd/") {
		p.mutex.Lock()
		p.seen = append(p.seen, r.URL.Path)
		p.mutex.Unlock()
	}
	p.handler.ServeHTTP(w, r)
}

func (p *pulls) of(image string) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return slices.ContainsFunc(p.seen, func(path string) bool { return strings.HasPrefix(path, "/v2/strangers/"+image+"/manifests/") })
}

// run runs a command in the root of the repository, and returns what it prints.
func (s *stranger) run(name string, args ...string) string {
	s.Helper()
	out, err := s.try(name, args...)
	if err != nil {
		s.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return out
}

func (s *stranger) try(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(s.Context(), 40*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = root
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	err := cmd.Run()
	if err != nil {
		return out.String() + problems.String(), err
	}
	return out.String(), nil
}

func (s *stranger) kubectl(args ...string) string {
	s.Helper()
	return strings.TrimSpace(s.run(filepath.Join(kubernetes(), "kubectl"), args...))
}

// kubernetes is the folder of kubectl.
var kubernetes = sync.OnceValue(func() string {
	cmd := exec.Command("build/bin/kube", "assets")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		panic(err)
	}
	return strings.TrimSpace(string(out))
})

// timed says how long a step took.
func (s *stranger) timed(what string, step func()) {
	s.Helper()
	began := time.Now()
	step()
	s.Logf("%s took %s", what, time.Since(began).Round(time.Second/10))
}

func newStranger(t *testing.T) *stranger {
	s := &stranger{T: t, folder: t.TempDir()}
	s.dist = filepath.Join(s.folder, "dist")
	s.address = strings.TrimSpace(s.run("build/bin/kube", "registry"))
	listener, err := net.Listen("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	s.registry = &pulls{handler: registry.New(registry.Logger(log.New(io.Discard, "", 0)))}
	server := &http.Server{Handler: s.registry, ReadHeaderTimeout: time.Minute}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("the registry ended: %v", err)
		}
	}()
	t.Cleanup(func() { server.Close() })
	return s
}

// release makes a release, pushes it, and checks what it has and what the registry has. Only in `make test-full` it is for all platforms.
func (s *stranger) release() {
	key, public := filepath.Join(s.folder, "howdah.key"), filepath.Join(s.folder, "howdah.pub")
	s.run("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key)
	s.run("openssl", "ec", "-in", key, "-pubout", "-out", public)
	flags := "--uncommitted --postgres-images=17=" + image
	if testing.Short() {
		flags += " --arches=amd64 --platforms=linux/amd64"
	}
	place := []string{"DIST=" + s.dist, "REGISTRY=" + s.address, "REPOSITORY=strangers", "REGISTRY_FLAGS=--insecure", "VERSION=" + version}
	target := func(name string, more ...string) []string { return slices.Concat([]string{"-s", name}, place, more) }
	s.timed("building the release", func() { s.run("make", target("release", "KEY="+key, "RELEASE_FLAGS="+flags)...) })
	s.timed("pushing it", func() { s.run("make", target("publish")...) })
	s.timed("verifying it", func() { s.run("make", target("verify-release", "PUBLIC_KEY="+public)...) })
	if !testing.Short() {
		s.cosign(public)
		s.bundle()
	}
}

// bundle has the validator of the Operator Lifecycle Manager look at the bundle, and at one that is wrong.
func (s *stranger) bundle() {
	program, err := filepath.Abs(filepath.Join(root, "build/bin/operator-verify"))
	if err != nil {
		s.Fatal(err)
	}
	s.run("make", "-s", program)
	s.run(program, "manifests", filepath.Join(s.dist, "bundle"))
	wrong := filepath.Join(s.folder, "bundle")
	s.run("cp", "-r", filepath.Join(s.dist, "bundle"), wrong)
	s.run("sed", "-i", "s/^  version: "+regexp.QuoteMeta(version)+"$/  version: none/", filepath.Join(wrong, "manifests/howdah.clusterserviceversion.yaml"))
	if out, err := s.try(program, "manifests", wrong); err == nil {
		s.Errorf("operator-verify accepts a bundle without a version:\n%s", out)
	}
}

// cosign verifies the images and the chart as a user does, and refuses another key.
func (s *stranger) cosign(public string) {
	program, err := filepath.Abs(filepath.Join(root, "build/bin/cosign"))
	if err != nil {
		s.Fatal(err)
	}
	s.run("make", "-s", program)
	verify := func(verb, key, name string, more ...string) (string, error) {
		args := []string{verb, "--key", key, "--insecure-ignore-tlog=true", "--allow-http-registry", s.address + "/strangers/" + name + ":" + version}
		return s.try(program, append(args, more...)...)
	}
	for _, name := range []string{"agent", "db-controller", "charts/howdah"} {
		if out, err := verify("verify", public, name); err != nil {
			s.Errorf("cosign doesn't accept %s: %v\n%s", name, err, out)
		}
		if out, err := verify("verify-attestation", public, name, "--type", "slsaprovenance1"); err != nil {
			s.Errorf("cosign doesn't accept the provenance of %s: %v\n%s", name, err, out)
		}
	}
	other, otherPublic := filepath.Join(s.folder, "other.key"), filepath.Join(s.folder, "other.pub")
	s.run("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", other)
	s.run("openssl", "ec", "-in", other, "-pubout", "-out", otherPublic)
	if out, err := verify("verify", otherPublic, "agent"); err == nil {
		s.Errorf("cosign accepts another key:\n%s", out)
	}
	sums := filepath.Join(s.dist, "SHA256SUMS")
	blob := []string{"verify-blob", "--key", public, "--signature", sums + ".sig", "--insecure-ignore-tlog=true"}
	if out, err := s.try(program, append(blob, sums)...); err != nil {
		s.Errorf("cosign doesn't accept the checksums: %v\n%s", err, out)
	}
	attested := []string{"verify-blob-attestation", "--key", public, "--signature", filepath.Join(s.dist, "provenance.intoto.jsonl"), "--type", "slsaprovenance1", "--insecure-ignore-tlog=true"}
	if out, err := s.try(program, append(attested, filepath.Join(s.dist, "install.yaml"))...); err != nil {
		s.Errorf("cosign doesn't accept the provenance of a file: %v\n%s", err, out)
	}
	if out, err := s.try(program, append(attested, public)...); err == nil {
		s.Errorf("cosign accepts the provenance for another file:\n%s", out)
	}
	if out, err := s.try(program, append(blob, filepath.Join(s.dist, "install.yaml"))...); err == nil {
		s.Errorf("cosign accepts the signature for another file:\n%s", out)
	}
}

// clients unpacks the programs for this machine, and puts them into the folder.
func (s *stranger) clients() (plugin, backup string) {
	for _, name := range []string{"kubectl-howdah", "howdah-backup"} {
		s.run("tar", "-xzf", filepath.Join(s.dist, name+"_"+version+"_linux_amd64.tar.gz"), "-C", s.folder, name)
	}
	return filepath.Join(s.folder, "kubectl-howdah"), filepath.Join(s.folder, "howdah-backup")
}

// typed types what a chapter of the page about the installation says, with this release in the place of that of the page, and returns
// what is printed.
func (s *stranger) typed(chapter string) string {
	s.Helper()
	return s.typedFrom("docs/installation.md", chapter, "registry.example/howdah", s.address+"/strangers", "1.2.3", version)
}

// typedFrom types what a chapter of a page says first, with other words for some of it.
func (s *stranger) typedFrom(file, chapter string, words ...string) string {
	s.Helper()
	page, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		s.Fatal(err)
	}
	_, text, found := strings.Cut(string(page), "## "+chapter+"\n")
	_, text, begins := strings.Cut(text, "```sh\n")
	script, _, ends := strings.Cut(text, "```")
	if !found || !begins || !ends {
		s.Fatalf("the page has no commands in %s", chapter)
	}
	top, err := filepath.Abs(root)
	if err != nil {
		s.Fatal(err)
	}
	script = strings.NewReplacer(append(words,
		"helm install", filepath.Join(top, "build/bin/helm")+" install --plain-http --set replicas=1",
		"kubectl ", filepath.Join(kubernetes(), "kubectl")+" ", "install.yaml", filepath.Join(s.dist, "install.yaml"),
	)...).Replace(script)
	return s.run("bash", "-euo", "pipefail", "-c", script)
}

// fromTheRepository types what the README says for a cluster of one's own without a release, and takes it away again.
func (s *stranger) fromTheRepository() {
	s.timed("what the README says", func() {
		s.typedFrom("README.md", "Installing on your own cluster", "registry.example/howdah", s.address+"/readme", "make push", "make -s push PUSH_FLAGS=--insecure")
	})
	s.kubectl("wait", "--for=condition=Available", "deployment", "--all", "--namespace", "howdah-system", "--timeout=300s")
	images := s.podsOfTheSuite()
	if len(images) != 6 {
		s.Errorf("the suite has the images %v", images)
	}
	for _, image := range images {
		if !strings.HasPrefix(image, s.address+"/readme/") {
			s.Errorf("%s does not come from the registry that the README names", image)
		}
	}
	s.run("build/bin/helm", "uninstall", "howdah", "--namespace", "howdah-system", "--wait")
}

// podsOfTheSuite are the images of the controllers' pods, each once.
func (s *stranger) podsOfTheSuite() []string {
	images := strings.Fields(s.kubectl("get", "pods", "--namespace", "howdah-system", "--output", "jsonpath={.items[*].spec.containers[*].image}"))
	slices.Sort(images)
	return slices.Compact(images)
}

func TestAStrangerInstallsTheSuiteFromAReleaseAlone(t *testing.T) {
	s := newStranger(t)
	s.fromTheRepository()
	s.release()
	s.timed("the quickstart", func() {
		if out := s.typed("Quickstart"); !strings.Contains(out, "PostgreSQL 17.") {
			t.Errorf("the quickstart doesn't end with a database:\n%s", out)
		}
	})
	pinned := regexp.MustCompile("^" + regexp.QuoteMeta(s.address) + `/strangers/([a-z-]+):` + regexp.QuoteMeta(version) + "@sha256:[0-9a-f]{64}$")
	images := s.podsOfTheSuite()
	if len(images) != 6 {
		t.Errorf("the suite has the images %v", images)
	}
	for _, image := range images {
		if match := pinned.FindStringSubmatch(image); match == nil || !s.registry.of(match[1]) {
			t.Errorf("%s is not pinned, or the nodes did not pull it from the registry", image)
		}
	}
	if !s.registry.of("agent") {
		t.Error("the agent was not pulled from the registry")
	}
	plugin, backup := s.clients()
	if out := s.run(plugin, "status", "hello", "--namespace", "default"); !strings.Contains(out, "hello-0") {
		t.Errorf("the plugin doesn't show the instance:\n%s", out)
	}
	for _, program := range []string{plugin, backup} {
		if out := s.run(program, "--version"); !strings.Contains(out, version) {
			t.Errorf("%s says of its version: %s", filepath.Base(program), out)
		}
	}
	s.uninstall()
}
