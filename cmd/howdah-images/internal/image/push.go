package image

import (
	"context"
	"fmt"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const sbomType types.MediaType = "application/vnd.cyclonedx+json"

// Push puts the image at reference and its SBOM beside it as a referrer, so that who has the image finds the SBOM.
// Credentials are those that `docker login` or its like left in the user's configuration.
func (b *Binary) Push(ctx context.Context, reference string, insecure bool) (string, error) {
	var options []name.Option
	if insecure {
		options = append(options, name.Insecure)
	}
	tag, err := name.ParseReference(reference, options...)
	if err != nil {
		return "", err
	}
	img, err := b.Image()
	if err != nil {
		return "", err
	}
	digest, err := img.Digest()
	if err != nil {
		return "", err
	}
	remoteOptions := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	if err := remote.Write(tag, img, remoteOptions...); err != nil {
		return "", fmt.Errorf("push %s: %w", reference, err)
	}
	referrer, err := b.Referrer(img)
	if err != nil {
		return "", err
	}
	referrerDigest, err := referrer.Digest()
	if err != nil {
		return "", err
	}
	if err := remote.Write(tag.Context().Digest(referrerDigest.String()), referrer, remoteOptions...); err != nil {
		return "", fmt.Errorf("push the SBOM of %s: %w", reference, err)
	}
	return fmt.Sprintf("%s@%s pushed", reference, digest), nil
}

// Referrer is an artifact that holds the SBOM and points at the image.
func (b *Binary) Referrer(img v1.Image) (v1.Image, error) {
	document, err := b.SBOM()
	if err != nil {
		return nil, err
	}
	subject, err := partial.Descriptor(img)
	if err != nil {
		return nil, err
	}
	artifact := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	artifact = mutate.ConfigMediaType(artifact, sbomType)
	artifact, err = mutate.AppendLayers(artifact, static.NewLayer(document, sbomType))
	if err != nil {
		return nil, err
	}
	return mutate.Subject(artifact, *subject).(v1.Image), nil
}
