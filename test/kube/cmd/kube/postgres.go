package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"howdah.dev/test/kube/debian"
	"howdah.dev/test/kube/preflight"
)

// postgresImages builds what the cache lacks and returns the archives of some images, of all if none is named.
func (s session) postgresImages(ctx context.Context, majors []string) ([]string, error) {
	images, err := imagesOf(majors)
	if err != nil {
		return nil, err
	}
	source, err := debian.FindSource()
	if s.mirror != "" {
		source, err = debian.Source{Mirror: s.mirror, Keyring: source.Keyring}, nil
	}
	if err != nil {
		return nil, err
	}
	builder := debian.Builder{Folder: filepath.Join(s.cache, "images"), Source: source, Report: s.report}
	if !builder.HasAll(images) {
		if err := preflight.Check(ctx, s.cache, s.report); err != nil {
			return nil, err
		}
	}
	return builder.Ensure(ctx, images)
}

func imagesOf(majors []string) ([]debian.Image, error) {
	if len(majors) == 0 {
		return debian.Images, nil
	}
	var images []debian.Image
	for _, major := range majors {
		i := slices.IndexFunc(debian.Images, func(image debian.Image) bool { return image.Short() == major })
		if i < 0 {
			return nil, fmt.Errorf("there is no image %s: name a version of PostgreSQL, or pgbouncer", major)
		}
		images = append(images, debian.Images[i])
	}
	return images, nil
}
