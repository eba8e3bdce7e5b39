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

// Locks are the store's own.
func (s *Store) Locks() objstore.Locker { return s }

// LockRule asks the bucket.
func (s *Store) LockRule(ctx context.Context) (objstore.LockRule, error) {
	found, err := s.client.GetObjectLockConfiguration(ctx, &s3.GetObjectLockConfigurationInput{Bucket: &s.config.Bucket})
	if noVersions(err) {
		return objstore.LockRule{}, nil
	}
	if err != nil {
		return objstore.LockRule{}, s.fail("read object lock", "", err)
	}
	if found.ObjectLockConfiguration == nil || found.ObjectLockConfiguration.Rule == nil || found.ObjectLockConfiguration.Rule.DefaultRetention == nil {
		return objstore.LockRule{}, nil
	}
	rule := found.ObjectLockConfiguration.Rule.DefaultRetention
	return objstore.LockRule{Mode: string(rule.Mode), For: client.LockTime(int(aws.ToInt32(rule.Days)), int(aws.ToInt32(rule.Years)))}, nil
}

// LockOf asks for the lock of the object.
func (s *Store) LockOf(ctx context.Context, key string) (objstore.Lock, error) {
	found, err := s.client.GetObjectRetention(ctx, &s3.GetObjectRetentionInput{Bucket: &s.config.Bucket, Key: aws.String(s.config.Key(key))})
	if api := smithy.APIError(nil); errors.As(err, &api) && client.NoLock(api.ErrorCode()) || err == nil && found.Retention == nil {
		return objstore.Lock{}, nil
	}
	if err != nil {
		return objstore.Lock{}, s.fail("read the lock of", key, err)
	}
	return objstore.Lock{Mode: string(found.Retention.Mode), Until: aws.ToTime(found.Retention.RetainUntilDate)}, nil
}

// Lock puts a lock on the object.
func (s *Store) Lock(ctx context.Context, key string, lock objstore.Lock) error {
	_, err := s.client.PutObjectRetention(ctx, &s3.PutObjectRetentionInput{
		Bucket: &s.config.Bucket, Key: aws.String(s.config.Key(key)),
		Retention: &types.ObjectLockRetention{Mode: types.ObjectLockRetentionMode(lock.Mode), RetainUntilDate: aws.Time(lock.Until)},
	})
	return s.fail("lock", key, err)
}
