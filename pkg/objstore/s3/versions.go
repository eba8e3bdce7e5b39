package s3

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/internal/client"
)

// KeepsVersions asks the bucket. One that has stopped to keep new ones still has old ones.
func (s *Store) KeepsVersions(ctx context.Context) (bool, error) {
	versioning, err := s.client.GetBucketVersioning(ctx, &s3.GetBucketVersioningInput{Bucket: &s.config.Bucket})
	if noVersions(err) {
		return false, nil
	}
	if err != nil {
		return false, s.fail("read versioning", "", err)
	}
	return versioning.Status != "", nil
}

// Versions asks for a page at a time.
func (s *Store) Versions(ctx context.Context, prefix, after string) iter.Seq2[objstore.Version, error] {
	input := &s3.ListObjectVersionsInput{Bucket: &s.config.Bucket, Prefix: aws.String(s.config.Key(prefix))}
	if after != "" {
		input.KeyMarker = aws.String(s.config.Key(after))
	}
	return func(yield func(objstore.Version, error) bool) {
		for pages := s3.NewListObjectVersionsPaginator(s.client, input); pages.HasMorePages(); {
			page, err := pages.NextPage(ctx)
			if err != nil {
				yield(objstore.Version{}, s.fail("list versions", prefix, err))
				return
			}
			if aws.ToBool(page.IsTruncated) && aws.ToString(page.NextKeyMarker) == "" {
				yield(objstore.Version{}, client.Mislisted(prefix, "the server lists a part of the versions, and doesn't say how to go on"))
				return
			}
			for _, version := range s.versionsOf(page) {
				if err := client.Listed(version.Key, prefix); err != nil {
					yield(objstore.Version{}, err)
					return
				}
				if version.Key > after && !yield(version, nil) {
					return
				}
			}
		}
	}
}

// versionsOf puts the versions of a page and its marks of deletions, which come apart, in the order of their keys.
func (s *Store) versionsOf(page *s3.ListObjectVersionsOutput) []objstore.Version {
	all := make([]objstore.Version, 0, len(page.Versions)+len(page.DeleteMarkers))
	for _, v := range page.Versions {
		all = append(all, objstore.Version{
			Info: objstore.Info{Key: client.Relative(s.config, aws.ToString(v.Key)), Size: aws.ToInt64(v.Size), Modified: aws.ToTime(v.LastModified)},
			ID:   aws.ToString(v.VersionId), Latest: aws.ToBool(v.IsLatest),
		})
	}
	for _, m := range page.DeleteMarkers {
		all = append(all, objstore.Version{
			Info: objstore.Info{Key: client.Relative(s.config, aws.ToString(m.Key)), Modified: aws.ToTime(m.LastModified)},
			ID:   aws.ToString(m.VersionId), Latest: aws.ToBool(m.IsLatest), Deleted: true,
		})
	}
	slices.SortStableFunc(all, func(a, b objstore.Version) int { return cmp.Compare(a.Key, b.Key) })
	return all
}

// GetVersion reads a whole version.
func (s *Store) GetVersion(ctx context.Context, key, id string, limit int64) ([]byte, error) {
	return s.get(ctx, key, id, limit)
}

// ReadVersionAt reads a range of a version.
func (s *Store) ReadVersionAt(ctx context.Context, key, id string, p []byte, off int64) (int, error) {
	return s.readAt(ctx, key, id, p, off)
}

func (s *Store) open(ctx context.Context, key, id, bytesRange string) (*s3.GetObjectOutput, error) {
	input := &s3.GetObjectInput{Bucket: &s.config.Bucket, Key: aws.String(s.config.Key(key))}
	if id != "" {
		input.VersionId = &id
	}
	if bytesRange != "" {
		input.Range = &bytesRange
	}
	return s.client.GetObject(ctx, input)
}

func (s *Store) get(ctx context.Context, key, id string, limit int64) ([]byte, error) {
	output, err := s.open(client.Want(ctx, limit+1), key, id, "")
	if err != nil {
		return nil, s.fail("get", key, err)
	}
	defer output.Body.Close()
	size := int64(-1)
	if output.ContentLength != nil {
		size = *output.ContentLength
	}
	body, err := client.ReadWhole(output.Body, size, limit)
	return body, s.fail("get", key, err)
}

func (s *Store) readAt(ctx context.Context, key, id string, p []byte, off int64) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	output, err := s.open(client.Want(ctx, int64(len(p))+1), key, id, fmt.Sprintf("bytes=%d-%d", off, off+int64(len(p))-1))
	if err != nil {
		return 0, s.fail("read", key, err)
	}
	defer output.Body.Close()
	n, err := io.ReadFull(output.Body, p)
	return n, s.fail("read", key, client.Torn(err, aws.ToInt64(output.ContentLength), int64(n)))
}
