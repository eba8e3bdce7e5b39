package oci

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAnArchiveHoldsEveryBlobUnderItsDigest(t *testing.T) {
	folder := t.TempDir()
	program, archive := filepath.Join(folder, "tool"), filepath.Join(folder, "tool.tar")
	if err := os.WriteFile(program, []byte("not much of a program"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := WriteProgram(archive, "registry.test/tool:1", program); err != nil {
		t.Fatal(err)
	}
	blobs := entries(t, archive)
	for name, content := range blobs {
		if digest, ok := strings.CutPrefix(name, "blobs/sha256/"); ok {
			if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != digest {
				t.Errorf("%s holds something else", name)
			}
		}
	}
	images, err := Read(archive)
	if err != nil {
		t.Fatal(err)
	}
	if len(images) != 1 || images[0].Name != "registry.test/tool:1" {
		t.Fatalf("got %v", images)
	}
	var top manifest
	if err := json.Unmarshal(blobs[blobPath(images[0].Digest)], &top); err != nil {
		t.Fatal(err)
	}
	for _, part := range append(top.Layers, top.Config) {
		if got := int64(len(blobs[blobPath(part.Digest)])); got == 0 || got != part.Size {
			t.Errorf("%s has %d bytes, want %d", part.Digest, got, part.Size)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(folder, ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestTheSameProgramGivesTheSameDigest(t *testing.T) {
	digest := func(folder string) string {
		program := filepath.Join(folder, "tool")
		if err := os.WriteFile(program, []byte("program"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := WriteProgram(filepath.Join(folder, "a.tar"), "registry.test/tool:1", program); err != nil {
			t.Fatal(err)
		}
		images, err := Read(filepath.Join(folder, "a.tar"))
		if err != nil {
			t.Fatal(err)
		}
		return images[0].Digest
	}
	if first, second := digest(t.TempDir()), digest(t.TempDir()); first != second {
		t.Errorf("%s and %s", first, second)
	}
}

func TestWhatIsNoImageIsRefusedWithASentence(t *testing.T) {
	tests := map[string]struct{ name, content, want string }{
		"an archive of something else":   {"readme", "hello", "no index.json"},
		"an index of nothing":            {"index.json", `{"manifests":[]}`, "names no image"},
		"an image without a name":        {"index.json", `{"manifests":[{"digest":"sha256:0"}]}`, nameAnnotation},
		"an index that is no JSON":       {"index.json", `{`, "index.json:"},
		"an index of something else yet": {"index.json", `[]`, "index.json:"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			archive := filepath.Join(t.TempDir(), "a.tar")
			file, err := os.Create(archive)
			if err != nil {
				t.Fatal(err)
			}
			out := tar.NewWriter(file)
			if err := errors.Join(addBytes(out, test.name, []byte(test.content)), out.Close(), file.Close()); err != nil {
				t.Fatal(err)
			}
			if _, err := Read(archive); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want something with %q", err, test.want)
			}
		})
	}
}

func entries(t *testing.T, archive string) map[string][]byte {
	t.Helper()
	file, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	found := map[string][]byte{}
	for in := tar.NewReader(file); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		if found[header.Name], err = io.ReadAll(in); err != nil {
			t.Fatal(err)
		}
	}
}
