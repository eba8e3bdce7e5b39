package minio

import (
	"context"

	"github.com/minio/minio-go/v7"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/internal/client"
)

// Kept asks the bucket for its rules, and counts the versions that are seen no more.
func (s *Store) Kept(ctx context.Context) (objstore.Kept, error) {
	kept := objstore.Kept{}
	versioning, err := s.client.GetBucketVersioning(ctx, s.config.Bucket)
	if err != nil && client.NoVersions(minio.ToErrorResponse(err).Code) || err == nil && versioning.Status == "" {
		return kept, nil
	}
	if err != nil {
		return kept, s.fail("read versioning", "", err)
	}
	kept.Versions = true
	rule, err := s.LockRule(ctx)
	if err != nil {
		return kept, err
	}
	kept.LockMode, kept.LockFor = rule.Mode, rule.For
	return kept, s.countVersions(ctx, &kept)
}

func (s *Store) countVersions(ctx context.Context, kept *objstore.Kept) error {
	options := minio.ListObjectsOptions{Prefix: s.config.Key(""), Recursive: true, WithVersions: true}
	for o := range s.client.ListObjectsIter(ctx, s.config.Bucket, options) {
		if o.Err != nil {
			return s.fail("list versions", "", o.Err)
		}
		if !o.IsLatest && !o.IsDeleteMarker {
			kept.Objects++
			kept.Bytes += o.Size
		}
	}
	return s.fail("list versions", "", ctx.Err()) // the client ends a cancelled list as if it were whole
}
