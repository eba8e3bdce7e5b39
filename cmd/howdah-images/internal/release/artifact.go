package release

import (
	"bytes"
	"encoding/json"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// artifact is something else than an image in a registry: one blob, and a document about it in the place of an image's configuration.
type artifact struct {
	manifest, config []byte
	blob             v1.Layer
}

func newArtifact(configType types.MediaType, config []byte, blobType types.MediaType, content []byte) v1.Image {
	blob := static.NewLayer(content, blobType)
	manifest, err := json.Marshal(v1.Manifest{
		SchemaVersion: 2,
		MediaType:     types.OCIManifestSchema1,
		Config:        describe(configType, config),
		Layers:        []v1.Descriptor{describe(blobType, content)},
	})
	if err != nil {
		panic(err) // nothing in it can't be written
	}
	img, err := partial.CompressedToImage(&artifact{manifest: manifest, config: config, blob: blob})
	if err != nil {
		panic(err) // the manifest was written above
	}
	return img
}

func describe(mediaType types.MediaType, content []byte) v1.Descriptor {
	digest, size, err := v1.SHA256(bytes.NewReader(content))
	if err != nil {
		panic(err) // a Reader of bytes never fails
	}
	return v1.Descriptor{MediaType: mediaType, Size: size, Digest: digest}
}

func (a *artifact) RawConfigFile() ([]byte, error)                         { return a.config, nil }
func (a *artifact) MediaType() (types.MediaType, error)                    { return types.OCIManifestSchema1, nil }
func (a *artifact) RawManifest() ([]byte, error)                           { return a.manifest, nil }
func (a *artifact) LayerByDigest(v1.Hash) (partial.CompressedLayer, error) { return a.blob, nil }
