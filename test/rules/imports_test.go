// Package rules holds what the packages of this repository may import and what the binaries may link.
package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const (
	module = "howdah.dev/howdah"
	apis   = "howdah.dev/apis"
)

// pkg is what `go list` says of a package.
type pkg struct {
	ImportPath   string
	Name         string
	Standard     bool
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
}

func list(t *testing.T, args ...string) []pkg {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-e", "-tags=integration,e2e,chaos,postgres,s3", "-json=ImportPath,Name,Standard,Imports,TestImports,XTestImports,Deps"}, args...)...)
	cmd.Dir = "../.."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var packages []pkg
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}

func within(path string, roots ...string) bool {
	for _, root := range roots {
		if path == root || strings.HasPrefix(path, root+"/") {
			return true
		}
	}
	return false
}

func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

var kubernetes = []string{"k8s.io", "sigs.k8s.io", apis, module + "/pkg/protocol", module + "/pkg/flow"}

// links says what must not be reached, over any number of imports.
var links = []struct {
	from  string // package, or folder of packages
	never []string
	why   string
}{
	{module + "/pkg/postgres", append(kubernetes, "go.uber.org/zap"), "it works in a pod, and knows nothing of Kubernetes"},
	{module + "/pkg/backup", append(kubernetes, "go.uber.org/zap"), "it works in a pod, and knows nothing of Kubernetes"},
	{module + "/pkg/pitr", append(kubernetes, "go.uber.org/zap"), "the command line plans by it, where there is no Kubernetes"},
	{module + "/pkg/agentapi", append(kubernetes, "go.uber.org/zap"), "it works in a pod, and knows nothing of Kubernetes"},
	{module + "/pkg/objstore", append(kubernetes, "go.uber.org/zap"), "a store knows nothing of Kubernetes"},
	{module + "/pkg/protocol", []string{"sigs.k8s.io/controller-runtime", "k8s.io/client-go", "go.uber.org/zap"}, "the protocol is pure functions of the API types"},
	{apis, []string{"sigs.k8s.io/controller-runtime", "k8s.io/client-go", module}, "whoever talks to Howdah takes the types and nothing else"},
	{module + "/cmd/db-controller", []string{"github.com/aws", "github.com/minio"}, "it never looks into a bucket"},
	{module + "/cmd/upgrade-controller", []string{"github.com/aws", "github.com/minio"}, "it never looks into a bucket"},
	{module + "/cmd/pooler-controller", []string{"github.com/aws", "github.com/minio"}, "it never looks into a bucket"},
	{module + "/cmd/drill-controller", []string{"github.com/aws", "github.com/minio"}, "it never looks into a bucket"},
	{module + "/cmd/wal", []string{"net/http", "github.com", "k8s.io", module + "/pkg/agentapi"}, "it is started for every segment of WAL"},
	{module + "/cmd/howdah-backup", []string{"k8s.io", apis, "go.uber.org/zap"}, "it works where there is no Kubernetes"},
	{module + "/cmd/agent", []string{"go.uber.org/zap", "sigs.k8s.io/controller-runtime/pkg/manager"}, "it stands in every pod: small, and no controller"},
}

// drivers says which library only some packages import, directly.
var drivers = []struct {
	library string
	only    []string
}{
	{"go.uber.org/zap", []string{module + "/pkg/logging"}},
	{"github.com/go-logr/zapr", []string{module + "/pkg/logging"}},
	{"github.com/aws/aws-sdk-go-v2", []string{module + "/pkg/objstore/s3"}},
	{"github.com/minio/minio-go", []string{module + "/pkg/objstore/minio"}},
}

func TestPackagesReachOnlyWhatTheyMay(t *testing.T) {
	for _, p := range list(t, "./...", "./apis/...") {
		for _, rule := range links {
			if !within(p.ImportPath, rule.from) {
				continue
			}
			for _, dep := range p.Deps {
				if within(dep, rule.never...) {
					t.Errorf("%s links %s: %s", p.ImportPath, dep, rule.why)
				}
			}
		}
	}
}

func TestALibraryIsImportedOnlyByItsDriver(t *testing.T) {
	for _, p := range list(t, "./...", "./apis/...") {
		for _, path := range append(append(p.Imports, p.TestImports...), p.XTestImports...) {
			for _, rule := range drivers {
				if within(path, rule.library) && !within(p.ImportPath, rule.only...) {
					t.Errorf("%s imports %s: only %s may", p.ImportPath, path, strings.Join(rule.only, ", "))
				}
			}
		}
	}
}

func TestTheAPITypesImportOnlyKubernetesAPIMachinery(t *testing.T) {
	for _, p := range list(t, "./apis/...") {
		for _, path := range p.Imports {
			if !standard(path) && !within(path, "k8s.io/api", "k8s.io/apimachinery", apis) {
				t.Errorf("%s imports %s", p.ImportPath, path)
			}
		}
	}
}

// pure are packages that read and write nothing and know no clock, with all that they may import besides these parts of the
// standard library.
var (
	pure         = map[string][]string{module + "/pkg/pitr": {module + "/pkg/postgres"}}
	pureStandard = []string{"cmp", "fmt", "iter", "math", "slices", "strings", "time"}
)

func TestAPurePackageImportsOnlyWhatIsPure(t *testing.T) {
	for _, p := range list(t, "./...") {
		allowed, is := pure[p.ImportPath]
		if !is {
			continue
		}
		for _, path := range p.Imports {
			if !slices.Contains(pureStandard, path) && !slices.Contains(allowed, path) {
				t.Errorf("%s imports %s, but it is pure", p.ImportPath, path)
			}
		}
	}
}

func TestPackageNamesSayWhatIsInside(t *testing.T) {
	named := map[string]string{}
	for _, p := range list(t, "./...", "./apis/...") {
		name := p.ImportPath[strings.LastIndex(p.ImportPath, "/")+1:]
		switch name {
		case "util", "utils", "common", "helper", "helpers", "misc":
			t.Errorf("%s: a name like that says nothing", p.ImportPath)
		}
		if other := named[name]; other != "" && p.Name != "main" && !reconciler(other, p.ImportPath) {
			t.Errorf("%s and %s have the same name", other, p.ImportPath)
		}
		if p.Name != "main" {
			named[name] = p.ImportPath
		}
	}
}

func TestNoTwoPackagesSoundAlike(t *testing.T) {
	stems := map[string]string{}
	for _, p := range list(t, "./...", "./apis/...") {
		name := p.ImportPath[strings.LastIndex(p.ImportPath, "/")+1:]
		if p.Name == "main" {
			continue
		}
		if other := stems[stem(name)]; other != "" && !strings.HasSuffix(other, "/"+name) {
			t.Errorf("%s and %s sound alike: call one of them what it does", other, p.ImportPath)
		}
		stems[stem(name)] = p.ImportPath
	}
}

// stem is a name without what makes it another form of the same word.
func stem(name string) string {
	for _, ending := range []string{"ations", "ation", "ings", "ing", "ions", "ion", "ies", "ers", "er", "ed", "es", "s", "e", "y"} {
		if short, ends := strings.CutSuffix(name, ending); ends && len(short) >= 4 {
			return short
		}
	}
	return name
}

// reconciler says that one of the packages has the name of the kind that it reconciles.
func reconciler(paths ...string) bool {
	return slices.Contains(paths, module+"/cmd/backup-controller/internal/backup")
}
