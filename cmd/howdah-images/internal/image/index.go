package image

import (
	"cmp"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Platform is a binary with its image, as an index has it.
type Platform struct {
	*Binary
	Image v1.Image
}

// Index joins the images of one program for several architectures under one name. A node takes the one of its own.
func Index(platforms []Platform) v1.ImageIndex {
	var all []mutate.IndexAddendum
	for _, platform := range platforms {
		all = append(all, mutate.IndexAddendum{
			Add:        platform.Image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: cmp.Or(platform.OS, "linux"), Architecture: platform.Arch}},
		})
	}
	return mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), all...)
}
