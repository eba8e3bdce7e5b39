package s3

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/internal/client"
)

// Kept asks the bucket for its rules, and counts the versions that are seen no more.
func (s *Store) Kept(ctx context.Context) (objstore.Kept, error) {
	kept := objstore.Kept{}
	versioning, err := s.client.GetBucketVersioning(ctx, &s3.GetBucketVersioningInput{Bucket: &s.config.Bucket})
	if noVersions(err) || err == nil && versioning.Status == "" {
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

func noVersions(err error) bool {
	api := smithy.APIError(nil)
	return errors.As(err, &api) && client.NoVersions(api.ErrorCode())
}

func (s *Store) countVersions(ctx context.Context, kept *objstore.Kept) error {
	pages := s3.NewListObjectVersionsPaginator(s.client, &s3.ListObjectVersionsInput{
		Bucket: &s.config.Bucket, Prefix: aws.String(s.config.Key("")),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return s.fail("list versions", "", err)
		}
		for _, version := range page.Versions {
			count(kept, version)
		}
	}
	return nil
}

func count(kept *objstore.Kept, version types.ObjectVersion) {
	if !aws.ToBool(version.IsLatest) {
		kept.Objects++
		kept.Bytes += aws.ToInt64(version.Size)
	}
}
