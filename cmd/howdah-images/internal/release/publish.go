package release

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"howdah.dev/howdah/cmd/howdah-images/internal/signature"
)

// ErrTaken says that a tag in the registry has something else already.
var ErrTaken = errors.New("a version that is published does not change")

// Registry is how the registry of a release is spoken to. Credentials are those that `docker login` or its like left in the user's
// configuration.
type Registry struct {
	Insecure bool // plain HTTP
	// Say is told of each thing in a line.
	Say func(format string, args ...any)
}

// entry is something in the layout of a release, and where it belongs.
type entry struct {
	reference name.Reference
	v1.Descriptor
}

// Publish pushes everything that the layout in the folder of a release has. Signatures and SBOMs come first, so that whoever sees a tag finds
// them. It can be repeated, but it changes no tag that has something else.
func (r *Registry) Publish(ctx context.Context, dist string) error {
	path, entries, err := r.read(dist)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := r.free(ctx, e); err != nil {
			return err
		}
	}
	for _, first := range []bool{true, false} {
		for _, e := range entries {
			if e.beside() != first {
				continue
			}
			if err := r.push(ctx, path, e); err != nil {
				return fmt.Errorf("push %s: %w", e.reference, err)
			}
			r.Say("%s %s pushed", e.reference, e.Digest)
		}
	}
	return nil
}

// beside says that something is found by what it belongs to, and not by a version.
func (e *entry) beside() bool {
	_, digest := e.reference.(name.Digest)
	return digest || strings.HasPrefix(e.reference.Identifier(), "sha256-")
}

func (r *Registry) read(dist string) (layout.Path, []entry, error) {
	path, err := layout.FromPath(filepath.Join(dist, layoutName))
	if err != nil {
		return "", nil, fmt.Errorf("%s holds no release: %w", dist, err)
	}
	index, err := path.ImageIndex()
	if err != nil {
		return "", nil, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return "", nil, err
	}
	var options []name.Option
	if r.Insecure {
		options = append(options, name.Insecure)
	}
	var entries []entry
	for _, descriptor := range manifest.Manifests {
		reference, err := name.ParseReference(descriptor.Annotations[referenceAnnotation], options...)
		if err != nil {
			return "", nil, err
		}
		entries = append(entries, entry{reference, descriptor})
	}
	return path, entries, nil
}

func (r *Registry) options(ctx context.Context) []remote.Option {
	return []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
}

// free refuses a tag that has something else: somebody may run it.
func (r *Registry) free(ctx context.Context, e entry) error {
	there, err := remote.Head(e.reference, r.options(ctx)...)
	var refused *transport.Error
	if errors.As(err, &refused) && refused.StatusCode == http.StatusNotFound {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for %s: %w", e.reference, err)
	}
	if there.Digest != e.Digest {
		return fmt.Errorf("%w: %s is %s in the registry, and %s here: release it under a new version", ErrTaken, e.reference, there.Digest, e.Digest)
	}
	return nil
}

func (r *Registry) push(ctx context.Context, path layout.Path, e entry) error {
	if e.MediaType.IsIndex() {
		all, err := path.ImageIndex()
		if err != nil {
			return err
		}
		index, err := all.ImageIndex(e.Digest)
		if err != nil {
			return err
		}
		return remote.WriteIndex(e.reference, index, r.options(ctx)...)
	}
	img, err := path.Image(e.Digest)
	if err != nil {
		return err
	}
	return remote.Write(e.reference, img, r.options(ctx)...)
}

// Verify checks that the registry has each image and chart of a release under its tag, with a signature by key.
func (r *Registry) Verify(ctx context.Context, dist string, key *signature.PublicKey) error {
	_, entries, err := r.read(dist)
	if err != nil {
		return err
	}
	var problems []error
	for _, e := range entries {
		if e.beside() {
			continue
		}
		if err := r.verify(ctx, e, key); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", e.reference, err))
			continue
		}
		r.Say("%s %s is signed", e.reference, e.Digest)
	}
	return errors.Join(problems...)
}

func (r *Registry) verify(ctx context.Context, e entry, key *signature.PublicKey) error {
	there, err := remote.Head(e.reference, r.options(ctx)...)
	if err != nil {
		return err
	}
	if there.Digest != e.Digest {
		return fmt.Errorf("%w: the registry has %s, the release %s", ErrChanged, there.Digest, e.Digest)
	}
	artifact, err := remote.Image(e.reference.Context().Tag(signature.Tag(e.Digest)), r.options(ctx)...)
	if err != nil {
		return fmt.Errorf("its signature: %w", err)
	}
	return key.VerifyImage(artifact, e.Digest)
}
