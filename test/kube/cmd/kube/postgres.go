package main

import (
	"context"
	"path/filepath"

	"howdah.dev/test/kube/debian"
	"howdah.dev/test/kube/preflight"
)

// postgresImages builds what the cache lacks and returns all archives.
func (s session) postgresImages(ctx context.Context) ([]string, error) {
	source, err := debian.FindSource()
	if s.mirror != "" {
		source, err = debian.Source{Mirror: s.mirror, Keyring: source.Keyring}, nil
	}
	if err != nil {
		return nil, err
	}
	builder := debian.Builder{Folder: filepath.Join(s.cache, "images"), Source: source, Report: s.report}
	if !builder.HasAll(debian.Images) {
		if err := preflight.Check(ctx, s.cache, s.report); err != nil {
			return nil, err
		}
	}
	return builder.Ensure(ctx, debian.Images)
}
