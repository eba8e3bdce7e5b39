package minio

import (
	"context"
	"io"
	"iter"

	"github.com/minio/minio-go/v7"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/internal/client"
)

// KeepsVersions asks the bucket. One that has stopped to keep new ones still has old ones.
func (s *Store) KeepsVersions(ctx context.Context) (bool, error) {
	versioning, err := s.client.GetBucketVersioning(ctx, s.config.Bucket)
	if err != nil && client.NoVersions(minio.ToErrorResponse(err).Code) {
		return false, nil
	}
	return versioning.Status != "", s.fail("read versioning", "", err)
}

// Versions asks for a page at a time. The client can't begin after a key, so what comes before is left out here.
func (s *Store) Versions(ctx context.Context, prefix, after string) iter.Seq2[objstore.Version, error] {
	options := minio.ListObjectsOptions{Prefix: s.config.Key(prefix), Recursive: true, WithVersions: true}
	return func(yield func(objstore.Version, error) bool) {
		for o := range s.client.ListObjectsIter(ctx, s.config.Bucket, options) {
			if o.Err != nil {
				yield(objstore.Version{}, s.fail("list versions", prefix, o.Err))
				return
			}
			key := client.Relative(s.config, o.Key)
			if key <= after {
				continue
			}
			if err := client.Listed(key, prefix); err != nil {
				yield(objstore.Version{}, err)
				return
			}
			version := objstore.Version{
				Info: objstore.Info{Key: key, Size: o.Size, Modified: o.LastModified}, ID: o.VersionID, Latest: o.IsLatest, Deleted: o.IsDeleteMarker,
			}
			if !yield(version, nil) {
				return
			}
		}
		if err := ctx.Err(); err != nil { // the client ends a cancelled list as if it were whole
			yield(objstore.Version{}, s.fail("list versions", prefix, err))
		}
	}
}

// GetVersion reads a whole version.
func (s *Store) GetVersion(ctx context.Context, key, id string, limit int64) ([]byte, error) {
	return s.get(ctx, key, minio.GetObjectOptions{VersionID: id}, limit)
}

// ReadVersionAt reads a range of a version.
func (s *Store) ReadVersionAt(ctx context.Context, key, id string, p []byte, off int64) (int, error) {
	return s.readAt(ctx, key, minio.GetObjectOptions{VersionID: id}, p, off)
}

func (s *Store) get(ctx context.Context, key string, options minio.GetObjectOptions, limit int64) ([]byte, error) {
	body, info, _, err := s.client.GetObject(client.Want(ctx, limit+1), s.config.Bucket, s.config.Key(key), options)
	if err != nil {
		return nil, s.fail("get", key, err)
	}
	defer body.Close()
	content, err := client.ReadWhole(body, info.Size, limit)
	return content, s.fail("get", key, err)
}

func (s *Store) readAt(ctx context.Context, key string, options minio.GetObjectOptions, p []byte, off int64) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if err := options.SetRange(off, off+int64(len(p))-1); err != nil {
		return 0, s.fail("read", key, err)
	}
	body, info, _, err := s.client.GetObject(client.Want(ctx, int64(len(p))+1), s.config.Bucket, s.config.Key(key), options)
	if err != nil {
		return 0, s.fail("read", key, err)
	}
	defer body.Close()
	n, err := io.ReadFull(body, p)
	return n, s.fail("read", key, client.Torn(err, info.Size, int64(n)))
}
