package signature

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	payloadType  = types.MediaType("application/vnd.dev.cosign.simplesigning.v1+json")
	payloadKind  = "cosign container image signature"
	envelopeType = types.MediaType("application/vnd.dsse.envelope.v1+json")
	// annotation has the signature of a payload, on its layer.
	annotation = "dev.cosignproject.cosign/signature"
	// maxPayload is more than a payload ever has: what a registry sends is not read without end.
	maxPayload = 64 << 10
)

// Tag is where cosign looks for the signatures of an image, in the image's own repository.
func Tag(digest v1.Hash) string { return digest.Algorithm + "-" + digest.Hex + ".sig" }

// AttestationTag is where cosign looks for what is attested of an image.
func AttestationTag(digest v1.Hash) string { return digest.Algorithm + "-" + digest.Hex + ".att" }

// Attestation is the artifact that holds a signed statement, whose predicate is of that type. The signature is inside of the envelope.
func Attestation(envelope []byte, predicateType string) (v1.Image, error) {
	return artifactOf(static.NewLayer(envelope, envelopeType), map[string]string{annotation: "", "predicateType": predicateType})
}

func artifactOf(layer v1.Layer, annotations map[string]string) (v1.Image, error) {
	artifact := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	artifact = mutate.ConfigMediaType(artifact, types.OCIConfigJSON)
	return mutate.Append(artifact, mutate.Addendum{Layer: layer, Annotations: annotations})
}

// payload is what is signed of an image: the "simple signing" document that podman and cosign use.
type payload struct {
	Critical critical       `json:"critical"`
	Optional map[string]any `json:"optional"`
}

type critical struct {
	Identity identity `json:"identity"`
	Image    subject  `json:"image"`
	Type     string   `json:"type"`
}

type identity struct {
	Reference string `json:"docker-reference"`
}

type subject struct {
	Digest string `json:"docker-manifest-digest"`
}

// Image is the artifact that holds the signature of the image of that digest in a repository.
func (k *Key) Image(repository string, digest v1.Hash) (v1.Image, error) {
	document, err := json.Marshal(payload{Critical: critical{
		Identity: identity{repository}, Image: subject{digest.String()}, Type: payloadKind,
	}})
	if err != nil {
		return nil, err
	}
	signed, err := k.Sign(document)
	if err != nil {
		return nil, err
	}
	return artifactOf(static.NewLayer(document, payloadType), map[string]string{annotation: base64.StdEncoding.EncodeToString(signed)})
}

// VerifyImage checks that an artifact holds a signature by this key of the image of that digest.
func (p *PublicKey) VerifyImage(artifact v1.Image, digest v1.Hash) error {
	manifest, err := artifact.Manifest()
	if err != nil {
		return err
	}
	last := fmt.Errorf("%w: the artifact holds no signature", ErrInvalid)
	for _, descriptor := range manifest.Layers {
		layer, err := artifact.LayerByDigest(descriptor.Digest)
		if err != nil {
			return err
		}
		if last = p.verifyLayer(layer, descriptor, digest); last == nil {
			return nil
		}
	}
	return last
}

func (p *PublicKey) verifyLayer(layer v1.Layer, descriptor v1.Descriptor, digest v1.Hash) error {
	signed, err := base64.StdEncoding.DecodeString(descriptor.Annotations[annotation])
	if err != nil {
		return fmt.Errorf("%w: it is not base64", ErrInvalid)
	}
	content, err := layer.Compressed()
	if err != nil {
		return err
	}
	defer content.Close()
	document, err := io.ReadAll(io.LimitReader(content, maxPayload))
	if err != nil {
		return err
	}
	if err := p.Verify(document, signed); err != nil {
		return err
	}
	var said payload
	if err := json.Unmarshal(document, &said); err != nil {
		return err
	}
	if said.Critical.Type != payloadKind || said.Critical.Image.Digest != digest.String() {
		return fmt.Errorf("%w: what was signed is %s of %s, not this image, which is %s", ErrInvalid, said.Critical.Type, said.Critical.Image.Digest, digest)
	}
	return nil
}
