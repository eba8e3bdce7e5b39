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
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/howdah/test/testkit/apiserver"
)

func TestMain(m *testing.M) { apiserver.Main(m) }

// kinds that have to have cases of both sorts.
var kinds = []string{"postgrescluster", "backuprepository", "backup", "backupschedule", "restore", "upgrade"}

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
