package main

import (
	"context"
	"path/filepath"

	"howdah.dev/test/kube/debian"
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
	return builder.Ensure(ctx, debian.Images)
}
