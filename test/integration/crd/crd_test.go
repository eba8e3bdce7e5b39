//go:build integration

// Package crd holds what the API server itself accepts and refuses of each kind, and with which sentence.
package crd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/howdah/test/testkit/apiserver"
)

func TestMain(m *testing.M) { apiserver.Main(m) }

// kinds that have to have cases of both sorts.
var kinds = []string{"postgrescluster", "backuprepository", "backup", "backupschedule", "restore", "upgrade", "pooler", "failoverdrill", "failoverdrillschedule"}

// A file is one object, or several of one name: the first is created, each later one replaces it. What is refused is the
// last of them, with what stands after "# says:" in the message.
func TestTheAPIServerAcceptsWhatIsRightAndRefusesTheRestWithASentence(t *testing.T) {
	for _, kind := range kinds {
		for _, verdict := range []string{"accepted", "rejected"} {
			files, err := filepath.Glob(filepath.Join("testdata", kind, verdict, "*.yaml"))
			if err != nil || len(files) == 0 {
				t.Fatalf("%s has no cases that are %s: %v", kind, verdict, err)
			}
			for _, file := range files {
				name := strings.TrimSuffix(filepath.Base(file), ".yaml")
				t.Run(kind+"/"+verdict+"/"+name, func(t *testing.T) {
					t.Parallel()
					run(t, file, verdict == "rejected")
				})
			}
		}
	}
}

// Tools that wait for an object would take it for ready if its status said nothing of itself.
func TestAnObjectThatNoControllerHasSeenSaysSo(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			files, err := filepath.Glob(filepath.Join("testdata", kind, "accepted", "*.yaml"))
			if err != nil || len(files) == 0 {
				t.Fatalf("%v, %d files", err, len(files))
			}
			data, err := os.ReadFile(files[0])
			if err != nil {
				t.Fatal(err)
			}
			c := apiserver.Client(t)
			object := read(t, data, apiserver.Namespace(t, c))[0]
			if err := write(c, object, false); err != nil {
				t.Fatal(err)
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
				t.Fatal(err)
			}
			if observed, found, err := unstructured.NestedInt64(object.Object, "status", "observedGeneration"); observed != -1 || !found || err != nil {
				t.Errorf("it is %d, %t, %v", observed, found, err)
			}
		})
	}
}

func run(t *testing.T, file string, rejected bool) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c := client.WithFieldValidation(apiserver.Client(t), "Strict")
	objects := read(t, data, apiserver.Namespace(t, c))
	for i, object := range objects {
		err = write(c, object, i > 0)
		if err != nil && (!rejected || i < len(objects)-1) {
			t.Fatalf("refused: %v", err)
		}
	}
	if !rejected {
		return
	}
	if err == nil {
		t.Fatal("it was accepted")
	}
	first, _, _ := strings.Cut(string(data), "\n")
	says, found := strings.CutPrefix(first, "# says: ")
	if !found {
		t.Fatal("the file must begin with # says:")
	}
	if !strings.Contains(err.Error(), says) {
		t.Errorf("the sentence is not in: %v", err)
	}
}

func read(t *testing.T, data []byte, namespace string) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		object.SetNamespace(namespace)
		objects = append(objects, object)
	}
}

func write(c client.Client, object *unstructured.Unstructured, replace bool) error {
	ctx := context.Background()
	if !replace {
		return c.Create(ctx, object)
	}
	before := object.DeepCopy()
	if err := c.Get(ctx, client.ObjectKeyFromObject(object), before); err != nil {
		return err
	}
	object.SetResourceVersion(before.GetResourceVersion())
	return c.Update(ctx, object)
}

// fences of YAML in a document.
var fences = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```")

// TestTheAPIServerAcceptsTheExamplesInDocuments tries them without keeping them, in a namespace of the test's own.
func TestTheAPIServerAcceptsTheExamplesInDocuments(t *testing.T) {
	c := client.NewDryRunClient(client.WithFieldValidation(apiserver.Client(t), "Strict"))
	namespace, tried := apiserver.Namespace(t, apiserver.Client(t)), 0
	for _, pattern := range []string{"../../../README.md", "../../../docs/*.md", "../../../config/samples/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			examples := [][]byte{data}
			if filepath.Ext(file) == ".md" {
				examples = nil
				for _, fence := range fences.FindAllSubmatch(data, -1) {
					if bytes.HasPrefix(fence[1], []byte("apiVersion: ")) { // others are pieces
						examples = append(examples, fence[1])
					}
				}
			}
			for _, example := range examples {
				tried += try(t, c, file, example, namespace)
			}
		}
	}
	if tried < 10 {
		t.Errorf("only %d objects of ours were tried", tried)
	}
}

// try creates the objects of ours in some YAML, and counts them.
func try(t *testing.T, c client.Client, file string, example []byte, namespace string) (tried int) {
	t.Helper()
	for _, object := range read(t, example, namespace) {
		if object.GroupVersionKind().Group != "howdah.dev" {
			continue
		}
		tried++
		if err := c.Create(context.Background(), object); err != nil {
			t.Errorf("%s: %s %s: %v", file, object.GetKind(), object.GetName(), err)
		}
	}
	return tried
}
