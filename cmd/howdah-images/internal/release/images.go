package release

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"golang.org/x/sync/errgroup"

	"howdah.dev/howdah/cmd/howdah-images/internal/image"
	"howdah.dev/howdah/cmd/howdah-images/internal/signature"
)

// referenceAnnotation is where an OCI layout has the name under which something is pushed.
const referenceAnnotation = "org.opencontainers.image.ref.name"

// publication is something that people pull by a tag: an image or a chart.
type publication struct {
	name       string // below the repository of the release
	repository string
	digest     v1.Hash
}

// published are the images and charts of a release, in the order in which they were written.
type published struct {
	layout layout.Path
	all    []publication
	images []string // names of those that the chart pins
}

// writeImages writes an index for each program into the OCI layout, and an SBOM for each image.
func (r *Release) writeImages(ctx context.Context) (*published, error) {
	path, err := layout.Write(r.path(layoutName), empty.Index)
	if err != nil {
		return nil, err
	}
	out := &published{layout: path}
	platforms, err := r.compileImages(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range r.Images {
		if err := r.addImage(out, name, platforms[name]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// compileImages builds the image of each program for each architecture. They are packed several at a time, because compressing takes
// longer than everything else.
func (r *Release) compileImages(ctx context.Context) (map[string][]image.Platform, error) {
	images := map[string][]image.Platform{}
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, arch := range r.Arches {
		source := r.Source
		source.OS, source.Arch = "linux", arch
		binaries, err := image.Compile(ctx, source, filepath.Join(r.Work, "linux-"+arch), r.Images, r.Beside)
		if err != nil {
			return nil, err
		}
		for _, binary := range binaries {
			img, err := binary.Image()
			if err != nil {
				return nil, err
			}
			images[binary.Name] = append(images[binary.Name], image.Platform{Binary: binary, Image: img})
			group.Go(func() error {
				_, err := img.Digest()
				return err
			})
		}
	}
	return images, group.Wait()
}

func (r *Release) addImage(out *published, name string, platforms []image.Platform) error {
	repository := r.Repository + "/" + name
	index := image.Index(platforms)
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	for _, platform := range platforms {
		if err := r.addSBOM(out, repository, platform); err != nil {
			return err
		}
	}
	out.all = append(out.all, publication{name: name, repository: repository, digest: digest})
	out.images = append(out.images, name)
	return out.layout.AppendIndex(index, named(repository+":"+r.Source.Version))
}

// addSBOM writes the SBOM of one image as a file, and as an artifact that refers to the image.
func (r *Release) addSBOM(out *published, repository string, platform image.Platform) error {
	if err := r.writeSBOM(platform.Binary); err != nil {
		return err
	}
	artifact, err := platform.Referrer(platform.Image)
	if err != nil {
		return err
	}
	digest, err := artifact.Digest()
	if err != nil {
		return err
	}
	return out.layout.AppendImage(artifact, named(repository+"@"+digest.String()))
}

func (r *Release) writeSBOM(binary *image.Binary) error {
	document, err := binary.SBOM()
	if err != nil {
		return err
	}
	return r.write(r.fileOf(binary)+".cdx.json", append(document, '\n'))
}

// fileOf is the name of a file about a binary, without an extension.
func (r *Release) fileOf(binary *image.Binary) string {
	return binary.Name + "_" + r.Source.Version + "_" + binary.OS + "_" + binary.Arch
}

func named(reference string) layout.Option {
	return layout.WithAnnotations(map[string]string{referenceAnnotation: reference})
}

// signImages puts a signature of each image and chart into the layout, and the provenance, under the tags where cosign looks for them.
func (r *Release) signImages(published *published) error {
	if r.Key == nil {
		return nil
	}
	envelope, err := os.ReadFile(r.path(attestedName))
	if err != nil {
		return err
	}
	attestation, err := signature.Attestation(bytes.TrimSpace(envelope), provenanceType)
	if err != nil {
		return err
	}
	for _, p := range published.all {
		signed, err := r.Key.Image(p.repository, p.digest)
		if err != nil {
			return err
		}
		if err := published.layout.AppendImage(signed, named(p.repository+":"+signature.Tag(p.digest))); err != nil {
			return err
		}
		if err := published.layout.AppendImage(attestation, named(p.repository+":"+signature.AttestationTag(p.digest))); err != nil {
			return err
		}
	}
	return nil
}
