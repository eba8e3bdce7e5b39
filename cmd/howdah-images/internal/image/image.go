package image

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"io"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// User is the uid and gid of every image: numeric, so that Kubernetes can see that it isn't root.
const User = "65532:65532"

// file is one entry of a layer. Folders end in a slash and have no data.
type file struct {
	path string
	mode int64
	data []byte
}

// Image puts the binary, and what comes along, on top of certificates and users. Two calls give one digest.
func (b *Binary) Image() (v1.Image, error) {
	var programs []file
	for _, path := range append([]string{b.Path}, b.Beside...) {
		program, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		programs = append(programs, file{path: filepath.Base(path), mode: 0o755, data: program})
	}
	base, err := layer(baseFiles())
	if err != nil {
		return nil, err
	}
	top, err := layer(programs)
	if err != nil {
		return nil, err
	}
	img := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	img = mutate.ConfigMediaType(img, types.OCIConfigJSON)
	img, err = mutate.Append(img,
		mutate.Addendum{Layer: base, History: v1.History{CreatedBy: "certificates and users"}},
		mutate.Addendum{Layer: top, History: v1.History{CreatedBy: "go build ./cmd/" + b.Name}},
	)
	if err != nil {
		return nil, err
	}
	return mutate.ConfigFile(img, b.config(img))
}

func (b *Binary) config(img v1.Image) *v1.ConfigFile {
	config, err := img.ConfigFile()
	if err != nil {
		panic(err) // an image made in memory always has one
	}
	config = config.DeepCopy()
	config.OS = "linux"
	config.Architecture = b.Arch
	config.Config = v1.Config{
		User:       User,
		Entrypoint: []string{"/" + b.Name},
		WorkingDir: "/",
		Env:        []string{"PATH=/"},
		Labels:     b.labels(),
	}
	return config
}

func (b *Binary) labels() map[string]string {
	labels := map[string]string{
		"org.opencontainers.image.title":       b.Name,
		"org.opencontainers.image.description": "Howdah, PostgreSQL on Kubernetes: " + b.Name,
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.vendor":      "Howdah",
		"org.opencontainers.image.url":         "https://howdah.dev",
		"org.opencontainers.image.version":     b.Version,
	}
	if b.Revision != "" {
		labels["org.opencontainers.image.revision"] = b.Revision
	}
	return labels
}

func baseFiles() []file {
	return []file{
		{path: "etc/", mode: 0o755},
		{path: "etc/group", mode: 0o644, data: []byte("root:x:0:\nhowdah:x:65532:\n")},
		{path: "etc/passwd", mode: 0o644, data: []byte("root:x:0:0:root:/:/sbin/nologin\nhowdah:x:65532:65532:howdah:/:/sbin/nologin\n")},
		{path: "etc/ssl/", mode: 0o755},
		{path: "etc/ssl/certs/", mode: 0o755},
		{path: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, data: certificates()},
		{path: "tmp/", mode: 0o1777},
	}
}

// certificates is the bundle of the Go project, which is pinned in go.mod, so that the machine's own doesn't count.
// A root that may only sign some names is left out, because a file of certificates can't say so.
func certificates() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a Buffer never fails
		}
	}
	return out.Bytes()
}

// layer packs files, all owned by root and as old as time, so that only their content counts.
func layer(files []file) (v1.Layer, error) {
	var packed bytes.Buffer
	archive := tar.NewWriter(&packed)
	for _, f := range files {
		if err := add(archive, f); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}

func add(archive *tar.Writer, f file) error {
	header := &tar.Header{Name: f.path, Mode: f.mode, Size: int64(len(f.data)), ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err := archive.Write(f.data)
	return err
}
