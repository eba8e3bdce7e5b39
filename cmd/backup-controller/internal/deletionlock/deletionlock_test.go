package deletionlock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/backup/bucketlock"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
)

func TestALineageIsLockedUntilAllWhoLockedItHaveUnlockedIt(t *testing.T) {
	locks := &Locks{}
	first, second := locks.Lock("a"), locks.Lock("a")
	first()
	first()
	if !locks.Locked("a") || locks.Locked("b") {
		t.Error("unlocked too early, or the wrong one locked")
	}
	if second(); locks.Locked("a") {
		t.Error("still locked")
	}
}

func repository() *v1alpha1.BackupRepository {
	return &v1alpha1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "minio", UID: "0d9e7d3c-8a6b-4a54-9a39-3f2d9f8f5e11"}}
}

func held(t *testing.T, store objstore.Store) (locks []string) {
	t.Helper()
	for info, err := range store.List(t.Context(), layout.DeletionsPrefix("7-g1"), "") {
		if err != nil {
			t.Fatal(err)
		}
		locks = append(locks, info.Key)
	}
	return locks
}

// A leader was frozen while it deleted, and another process leads now, for the same repository and perhaps in a pod of the same name.
func TestAFrozenLeaderAndItsSuccessorNeverDeleteAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, former, next, third := mem.NewAt(time.Now), &Locks{}, &Locks{}, &Locks{}
		frozen, unlockFormer, err := former.LockBucket(t.Context(), store, repository(), "7-g1")
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := next.LockBucket(t.Context(), store, repository(), "7-g1"); !errors.Is(err, bucketlock.ErrHeld) {
			t.Errorf("the successor got %v while the former leader may delete", err)
		}
		time.Sleep(bucketlock.Lasts)
		deletes, unlockNext, err := next.LockBucket(t.Context(), store, repository(), "7-g1")
		if err != nil {
			t.Fatal(err)
		}
		if frozen.Err() == nil || deletes.Err() != nil {
			t.Errorf("the former leader may delete: %v; its successor: %v", frozen.Err(), deletes.Err())
		}
		unlockFormer() // which is not that of its successor
		if _, _, err := third.LockBucket(t.Context(), store, repository(), "7-g1"); !errors.Is(err, bucketlock.ErrHeld) {
			t.Errorf("after the former leader has unlocked, another got %v", err)
		}
		if unlockNext(); len(held(t, store)) > 0 {
			t.Errorf("left are %v", held(t, store))
		}
	})
}

func TestDeletionsOfOneProcessHoldTheLockOfABucketTogether(t *testing.T) {
	store, locks := mem.New(), &Locks{}
	_, first, err := locks.LockBucket(t.Context(), store, repository(), "7-g1")
	if err != nil {
		t.Fatal(err)
	}
	_, second, err := locks.LockBucket(t.Context(), store, repository(), "7-g1")
	if err != nil {
		t.Fatal(err)
	}
	other := repository()
	other.UID = "another"
	if _, _, err := locks.LockBucket(t.Context(), store, other, "7-g1"); !errors.Is(err, bucketlock.ErrHeld) {
		t.Errorf("another repository of the same place got %v", err)
	}
	first()
	if len(held(t, store)) != 1 {
		t.Errorf("the second deletion has the locks %v", held(t, store))
	}
	if second(); len(held(t, store)) > 0 {
		t.Errorf("left are %v", held(t, store))
	}
}

func TestAProcessEndsWhenItHasUnlockedAllBuckets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, locks := mem.New(), &Locks{}
		ctx, stop := context.WithCancel(t.Context())
		_, unlock, err := locks.LockBucket(ctx, store, repository(), "7-g1")
		if err != nil {
			t.Fatal(err)
		}
		ended := false
		go func() {
			if err := locks.Start(ctx); err != nil {
				t.Error(err)
			}
			ended = true
		}()
		synctest.Wait()
		if ended {
			t.Error("it ended before it was told to")
		}
		stop()
		synctest.Wait()
		if ended {
			t.Error("it ended while it had a bucket locked")
		}
		unlock()
		synctest.Wait()
		if !ended || len(held(t, store)) > 0 {
			t.Errorf("ended: %t; left are %v", ended, held(t, store))
		}
	})
}
