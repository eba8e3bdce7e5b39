package image

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// WriteArchive writes dir/NAME.tar, an OCI archive in which the image is called reference, and dir/NAME.cdx.json, its
// SBOM. When the ones that are there came from the same binary it leaves them, because compressing takes longer than
// everything else. It says in one line what it did.
func (b *Binary) WriteArchive(dir, reference string) (string, error) {
	stampPath := filepath.Join(dir, b.Name+".stamp")
	stamp, err := b.stamp(reference)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, b.Name+".tar")
	if digest, ok := unchanged(stampPath, stamp); ok && exists(path) {
		return fmt.Sprintf("%s %s unchanged", reference, digest), nil
	}
	img, err := b.Image()
	if err != nil {
		return "", err
	}
	digest, err := img.Digest()
	if err != nil {
		return "", err
	}
	if err := b.writeSBOM(filepath.Join(dir, b.Name+".cdx.json")); err != nil {
		return "", err
	}
	if err := writeFile(path, func(w io.Writer) error { return archive(w, img, reference) }); err != nil {
		return "", err
	}
	err = writeFile(stampPath, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s\n%s\n", stamp, digest)
		return err
	})
	return fmt.Sprintf("%s %s written", reference, digest), err
}

// stamp names everything that an archive is made from: the binary, its labels, and the program that packs it.
func (b *Binary) stamp(reference string) (string, error) {
	sum := sha256.New()
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	for _, path := range append([]string{b.Path, self}, b.Beside...) {
		if err := hashFile(sum, path); err != nil {
			return "", err
		}
	}
	fmt.Fprintf(sum, "%s %s %s %s", reference, b.Version, b.Revision, b.Arch)
	return hex.EncodeToString(sum.Sum(nil)), nil
}

func unchanged(path, stamp string) (digest string, ok bool) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", false
	}
	lines := strings.Split(string(content), "\n")
	return lines[min(1, len(lines)-1)], lines[0] == stamp
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func hashFile(sum io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(sum, f)
	return err
}

// writeFile puts what write writes at path, whole or not at all.
func writeFile(path string, write func(io.Writer) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone after the rename
	if err := write(f); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Chmod(f.Name(), 0o644); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// archive writes an OCI layout of one image as a tar file. The name is in both annotations that readers look at:
// the one of the specification and the one of containerd.
func archive(w io.Writer, img v1.Image, reference string) error {
	index := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{
		Add: img,
		Descriptor: v1.Descriptor{Annotations: map[string]string{
			"io.containerd.image.name":          reference,
			"org.opencontainers.image.ref.name": reference,
		}},
	})
	indexJSON, err := index.RawManifest()
	if err != nil {
		return err
	}
	version, err := json.Marshal(map[string]string{"imageLayoutVersion": "1.0.0"})
	if err != nil {
		return err
	}
	blobs, err := blobsOf(img)
	if err != nil {
		return err
	}
	out := tar.NewWriter(w)
	for _, f := range append([]file{
		{path: "oci-layout", mode: 0o644, data: version},
		{path: "index.json", mode: 0o644, data: indexJSON},
	}, blobs...) {
		if err := add(out, f); err != nil {
			return err
		}
	}
	return out.Close()
}

func blobsOf(img v1.Image) ([]file, error) {
	manifest, err := img.RawManifest()
	if err != nil {
		return nil, err
	}
	config, err := img.RawConfigFile()
	if err != nil {
		return nil, err
	}
	digest, err := img.Digest()
	if err != nil {
		return nil, err
	}
	configDigest, err := partial.ConfigLayer(img)
	if err != nil {
		return nil, err
	}
	name, err := configDigest.Digest()
	if err != nil {
		return nil, err
	}
	files := []file{blob(digest, manifest), blob(name, config)}
	layers, err := img.Layers()
	if err != nil {
		return nil, err
	}
	for _, l := range layers {
		f, err := layerBlob(l)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

func layerBlob(l v1.Layer) (file, error) {
	digest, err := l.Digest()
	if err != nil {
		return file{}, err
	}
	content, err := l.Compressed()
	if err != nil {
		return file{}, err
	}
	defer content.Close()
	data, err := io.ReadAll(content)
	return blob(digest, data), err
}

func blob(digest v1.Hash, data []byte) file {
	return file{path: "blobs/" + digest.Algorithm + "/" + digest.Hex, mode: 0o644, data: data}
}
