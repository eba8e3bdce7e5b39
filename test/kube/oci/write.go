// Package oci writes and reads image archives in the OCI layout, as `docker save` and `ctr images export` make them.
package oci

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
)

const (
	mediaManifest = "application/vnd.oci.image.manifest.v1+json"
	mediaConfig   = "application/vnd.oci.image.config.v1+json"
	mediaLayer    = "application/vnd.oci.image.layer.v1.tar"
	// nameAnnotation is where containerd looks for the image's full name.
	nameAnnotation = "io.containerd.image.name"
)

// Config is what a container of the image starts with, if the pod doesn't say otherwise.
type Config struct {
	Entrypoint []string          `json:"Entrypoint,omitempty"`
	Env        []string          `json:"Env,omitempty"`
	User       string            `json:"User,omitempty"`
	WorkingDir string            `json:"WorkingDir,omitempty"`
	Labels     map[string]string `json:"Labels,omitempty"`
	Volumes    map[string]any    `json:"Volumes,omitempty"`
	StopSignal string            `json:"StopSignal,omitempty"`
}

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
}

type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	Manifests     []descriptor `json:"manifests"`
}

// Write makes an archive of one uncompressed layer, a tar file: the archive never crosses a network, and unpacking is
// what takes time. The archive appears under its name only when it is complete.
func Write(archive, name, layerFile string, config Config) error {
	layer, err := describeFile(layerFile)
	if err != nil {
		return err
	}
	configBlob, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config":       config,
		"rootfs":       map[string]any{"type": "layers", "diff_ids": []string{layer.Digest}},
	})
	if err != nil {
		return err
	}
	manifestBlob, err := json.Marshal(manifest{SchemaVersion: 2, MediaType: mediaManifest,
		Config: describe(mediaConfig, configBlob), Layers: []descriptor{layer}})
	if err != nil {
		return err
	}
	top := describe(mediaManifest, manifestBlob)
	top.Annotations = map[string]string{nameAnnotation: name}
	indexBlob, err := json.Marshal(index{SchemaVersion: 2, Manifests: []descriptor{top}})
	if err != nil {
		return err
	}
	return writeArchive(archive, layerFile, layer, [][]byte{configBlob, manifestBlob}, indexBlob)
}

func writeArchive(archive, layerFile string, layer descriptor, blobs [][]byte, indexBlob []byte) error {
	unfinished, err := os.CreateTemp(filepath.Dir(archive), ".writing-")
	if err != nil {
		return err
	}
	defer os.Remove(unfinished.Name())
	defer unfinished.Close()
	out := tar.NewWriter(unfinished)
	if err := addBytes(out, "oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)); err != nil {
		return err
	}
	if err := addBytes(out, "index.json", indexBlob); err != nil {
		return err
	}
	for _, blob := range blobs {
		if err := addBytes(out, blobPath(digestOf(blob)), blob); err != nil {
			return err
		}
	}
	if err := addFile(out, blobPath(layer.Digest), layerFile, layer.Size); err != nil {
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	if err := unfinished.Chmod(0o644); err != nil {
		return err
	}
	return os.Rename(unfinished.Name(), archive)
}

// WriteProgram makes the image of a single static program.
func WriteProgram(archive, name, program string) error {
	layer, err := os.CreateTemp(filepath.Dir(archive), ".layer-")
	if err != nil {
		return err
	}
	defer os.Remove(layer.Name())
	defer layer.Close()
	info, err := os.Stat(program)
	if err != nil {
		return err
	}
	inside := filepath.Base(program)
	out := tar.NewWriter(layer)
	if err := addFile(out, inside, program, info.Size()); err != nil {
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	return Write(archive, name, layer.Name(), Config{Entrypoint: []string{"/" + inside}, Env: []string{"PATH=/"}})
}

func addBytes(out *tar.Writer, name string, content []byte) error {
	return add(out, name, bytes.NewReader(content), int64(len(content)))
}

func addFile(out *tar.Writer, name, from string, size int64) error {
	file, err := os.Open(from)
	if err != nil {
		return err
	}
	defer file.Close()
	return add(out, name, file, size)
}

func add(out *tar.Writer, name string, content io.Reader, size int64) error {
	if err := out.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: size, Format: tar.FormatPAX}); err != nil {
		return err
	}
	_, err := io.CopyN(out, content, size)
	return err
}

func describe(mediaType string, blob []byte) descriptor {
	return descriptor{MediaType: mediaType, Digest: digestOf(blob), Size: int64(len(blob))}
}

func describeFile(path string) (descriptor, error) {
	file, err := os.Open(path)
	if err != nil {
		return descriptor{}, err
	}
	defer file.Close()
	hash := sha256.New()
	size, err := io.Copy(hash, file)
	return descriptor{MediaType: mediaLayer, Digest: "sha256:" + hex.EncodeToString(hash.Sum(nil)), Size: size}, err
}

func digestOf(blob []byte) string {
	sum := sha256.Sum256(blob)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func blobPath(digest string) string { return fmt.Sprintf("blobs/sha256/%s", digest[len("sha256:"):]) }
