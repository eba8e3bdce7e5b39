package minio

import (
	"context"

	"github.com/minio/minio-go/v7"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/internal/client"
)

// Locks are the store's own.
func (s *Store) Locks() objstore.Locker { return s }

// LockRule asks the bucket.
func (s *Store) LockRule(ctx context.Context) (objstore.LockRule, error) {
	_, mode, validity, unit, err := s.client.GetObjectLockConfig(ctx, s.config.Bucket)
	if err != nil && client.NoVersions(minio.ToErrorResponse(err).Code) || err == nil && (mode == nil || validity == nil) {
		return objstore.LockRule{}, nil
	}
	if err != nil {
		return objstore.LockRule{}, s.fail("read object lock", "", err)
	}
	days, years := int(*validity), 0
	if *unit == minio.Years {
		days, years = 0, days
	}
	return objstore.LockRule{Mode: mode.String(), For: client.LockTime(days, years)}, nil
}

// LockOf asks for the lock of the object.
func (s *Store) LockOf(ctx context.Context, key string) (objstore.Lock, error) {
	mode, until, err := s.client.GetObjectRetention(ctx, s.config.Bucket, s.config.Key(key), "")
	if err != nil && client.NoLock(minio.ToErrorResponse(err).Code) || err == nil && (mode == nil || until == nil) {
		return objstore.Lock{}, nil
	}
	if err != nil {
		return objstore.Lock{}, s.fail("read the lock of", key, err)
	}
	return objstore.Lock{Mode: mode.String(), Until: *until}, nil
}

// Lock puts a lock on the object.
func (s *Store) Lock(ctx context.Context, key string, lock objstore.Lock) error {
	mode, until := minio.RetentionMode(lock.Mode), lock.Until
	return s.fail("lock", key, s.client.PutObjectRetention(ctx, s.config.Bucket, s.config.Key(key), minio.PutObjectRetentionOptions{
		Mode: &mode, RetainUntilDate: &until,
	}))
}
