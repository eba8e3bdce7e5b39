//go:build integration

package crd

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"howdah.dev/howdah/test/testkit/apiserver"
)

// fragments are fences of YAML that are not whole objects. Those in lists are indented.
var fragments = regexp.MustCompile("(?ms)^( *)```yaml\n(.*?)^ *```")

// about says of which kind the fragments of a page are. Those of other pages are of a PostgresCluster.
var about = map[string]string{
	"encryption.md": "BackupRepository", "pooler.md": "Pooler", "restore.md": "Restore", "retention.md": "BackupRepository", "upgrade.md": "Upgrade",
}

// others are the first keys of fragments that are not of our objects.
var others = []string{"cloudIdentity", "kept", "metrics", "scrape_configs"}

// completed has what an object of a kind can't be without, for fragments that leave it out.
var completed = map[string]string{
	"PostgresCluster":  "{version: 17, storage: {size: 10Gi}}",
	"BackupRepository": "{s3: {bucket: backups}}",
	"Pooler":           "{cluster: {name: shop}}",
	"Restore":          "{source: {cluster: {name: shop}}, destination: {newCluster: {name: copy}}}",
	"Upgrade":          "{cluster: {name: shop}, version: 18}",
}

func TestTheAPIServerAcceptsTheFragmentsInDocuments(t *testing.T) {
	c := client.NewDryRunClient(client.WithFieldValidation(apiserver.Client(t), "Strict"))
	namespace, tried := apiserver.Namespace(t, apiserver.Client(t)), 0
	files, err := filepath.Glob("../../../docs/*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %d files", err, len(files))
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, fence := range fragments.FindAllSubmatch(data, -1) {
			object := whole(t, filepath.Base(file), fence[2])
			if object == nil {
				continue
			}
			tried++
			object.SetNamespace(namespace)
			if err := c.Create(t.Context(), object); err != nil {
				t.Errorf("%s: %v\n%s", file, err, fence[2])
			}
		}
	}
	if tried < 40 {
		t.Errorf("only %d fragments were tried", tried)
	}
}

// whole makes an object of a fragment, or nothing if it is one already, or is about something else.
func whole(t *testing.T, page string, fragment []byte) *unstructured.Unstructured {
	t.Helper()
	if bytes.HasPrefix(bytes.TrimSpace(fragment), []byte("apiVersion: ")) || strings.Contains(string(fragment), "# values") {
		return nil
	}
	given := map[string]any{}
	if err := yaml.Unmarshal(fragment, &given); err != nil {
		t.Fatalf("%s: %v\n%s", page, err, fragment)
	}
	for key := range given {
		if slices.Contains(others, key) {
			return nil
		}
	}
	_, hasSpec := given["spec"]
	_, hasStatus := given["status"]
	if !hasSpec && !hasStatus {
		given = map[string]any{"spec": given}
	}
	kind := about[page]
	if kind == "" || kind == "Upgrade" && !strings.Contains(string(fragment), "cluster:") {
		kind = "PostgresCluster"
	}
	base := map[string]any{}
	if err := yaml.Unmarshal(fmt.Appendf(nil, "{apiVersion: howdah.dev/v1alpha1, kind: %s, metadata: {name: shop}, spec: %s}", kind, completed[kind]), &base); err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: merge(base, given)}
}

// merge lays what is given over a base. A union, such as the destination of a Restore, is not a mix of both.
func merge(base, given map[string]any) map[string]any {
	for key, value := range given {
		inner, isMap := value.(map[string]any)
		below, wasMap := base[key].(map[string]any)
		if isMap && wasMap && key != "source" && key != "destination" {
			value = merge(below, inner)
		}
		base[key] = value
	}
	return base
}
