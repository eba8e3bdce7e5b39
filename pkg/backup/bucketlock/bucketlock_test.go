package bucketlock

import (
	"errors"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/fault"
	"howdah.dev/howdah/pkg/objstore/mem"
)

func keys(t *testing.T, store objstore.Store) (all []string) {
	t.Helper()
	for info, err := range store.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, info.Key)
	}
	return all
}

func TestOneDeletesFromALineageAtATime(t *testing.T) {
	clock := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	store := mem.NewAt(func() time.Time { return clock })
	_, unlock, err := Lock(t.Context(), store, "7-g1", Holder{ID: "a", Name: "howdah-backup delete b1 on vault"})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = Lock(t.Context(), store, "7-g1", Holder{ID: "b"})
	if !errors.Is(err, ErrHeld) || err.Error() != "howdah-backup delete b1 on vault deletes from lineage 7-g1 since 2026-03-04T05:06:07Z; this ends at 2026-03-04T06:06:07Z at the latest" {
		t.Errorf("the second got %v", err)
	}
	if _, unlockOther, err := Lock(t.Context(), store, "8-g1", Holder{ID: "b"}); err != nil {
		t.Errorf("another lineage is locked, too: %v", err)
	} else {
		unlockOther()
	}
	unlock()
	_, unlock, err = Lock(t.Context(), store, "7-g1", Holder{ID: "b"})
	if err != nil {
		t.Fatal(err)
	}
	if unlock(); len(keys(t, store)) > 0 {
		t.Errorf("left are %v", keys(t, store))
	}
}

func TestWhoCouldNotUnlockTakesItsOwnLockOver(t *testing.T) {
	store := mem.New()
	for range 2 {
		if _, _, err := Lock(t.Context(), store, "7-g1", Holder{ID: "a"}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheLockOfAKilledProcessEndsByTheServersClock(t *testing.T) {
	clock := time.Now().Add(-1000 * time.Hour) // that of the server is wrong, which doesn't matter
	store := mem.NewAt(func() time.Time { return clock })
	begun := time.Now()
	held, _, err := Lock(t.Context(), store, "7-g1", Holder{ID: "killed"})
	if err != nil {
		t.Fatal(err)
	}
	if held.Until.Sub(begun) > Lasts-10*time.Minute {
		t.Errorf("the holder may delete until %v", held.Until)
	}
	clock = clock.Add(Lasts - time.Second)
	if _, _, err := Lock(t.Context(), store, "7-g1", Holder{ID: "b"}); !errors.Is(err, ErrHeld) {
		t.Errorf("before it ends, another got %v", err)
	}
	clock = clock.Add(time.Second)
	_, unlock, err := Lock(t.Context(), store, "7-g1", Holder{ID: "b"})
	if err != nil {
		t.Fatal(err)
	}
	if unlock(); len(keys(t, store)) > 0 {
		t.Errorf("left are %v", keys(t, store))
	}
}

// Whatever the order of what two do, they don't both get the lock.
func TestOfTwoWhoLockAtOnceOneIsRefused(t *testing.T) {
	for call := 1; call <= 3; call++ { // a put, a stat and a list
		store := mem.New()
		var errOther error
		between := fault.New(store, fault.Plan{Before: func(c fault.Call) error {
			if c.Number == call {
				_, _, errOther = Lock(t.Context(), store, "7-g1", Holder{ID: "b"})
			}
			return nil
		}})
		_, _, err := Lock(t.Context(), between, "7-g1", Holder{ID: "a"})
		if err == nil && errOther == nil {
			t.Errorf("both got the lock when the other came before call %d", call)
		}
	}
}

func TestABucketsWordsAboutALockAreCutAndDoNotDecide(t *testing.T) {
	for name, body := range map[string]string{
		"garbage": "garbage", "too long": `{"holder": "` + strings.Repeat("x", 5000) + `"}`, "odd": `{"holder": "\u001b[2J` + strings.Repeat("y", 1000) + `"}`,
	} {
		store := mem.New()
		if err := store.Put(t.Context(), layout.DeletionKey("7-g1", "c"), []byte(body), objstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		_, _, err := Lock(t.Context(), store, "7-g1", Holder{ID: "b"})
		if !errors.Is(err, ErrHeld) || len(err.Error()) > 400 || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%s: %q", name, err)
		}
		if left := keys(t, store); len(left) != 1 {
			t.Errorf("left are %v", left)
		}
	}
}

func TestWhatCanNotBeLookedAtIsNotLocked(t *testing.T) {
	for _, op := range []string{"put", "stat", "list"} {
		broken := fault.New(mem.New(), fault.Plan{Before: func(c fault.Call) error {
			if c.Op == op {
				return objstore.ErrUnavailable
			}
			return nil
		}})
		if _, _, err := Lock(t.Context(), broken, "7-g1", Holder{ID: "b"}); !errors.Is(err, objstore.ErrUnavailable) {
			t.Errorf("%s fails: %v", op, err)
		}
	}
}
