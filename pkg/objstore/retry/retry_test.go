package retry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/fault"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/objstore/retry"
)

var errAway = &objstore.Error{Op: "x", Kind: objstore.ErrUnavailable}

// clock is a policy whose time passes only by its pauses.
func clock() (retry.Policy, *[]time.Duration) {
	now, pauses := time.Unix(0, 0), &[]time.Duration{}
	return retry.Policy{
		Now: func() time.Time { return now },
		Sleep: func(_ context.Context, d time.Duration) error {
			now = now.Add(d)
			*pauses = append(*pauses, d)
			return nil
		},
	}, pauses
}

// failing makes the first n calls fail.
func failing(n int, err error) *fault.Store {
	return fault.New(mem.New(), fault.Plan{Before: func(c fault.Call) error {
		if c.Number <= n {
			return err
		}
		return nil
	}})
}

func TestWhatMayPassIsTriedAgainWithGrowingPauses(t *testing.T) {
	policy, pauses := clock()
	store := retry.New(failing(8, errAway), policy)
	if err := store.Put(t.Context(), "k", []byte("x"), objstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	full := 100 * time.Millisecond
	for i, pause := range *pauses {
		if pause < full/2 || pause > full {
			t.Errorf("pause %d is %v, want between half of %v and all of it", i, pause, full)
		}
		full = min(2*full, 5*time.Second)
	}
	if len(*pauses) != 8 {
		t.Errorf("%d pauses", len(*pauses))
	}
}

func TestItGivesUpAfterABoundedTime(t *testing.T) {
	policy, pauses := clock()
	store := retry.New(failing(1<<30, errAway), policy)
	err := store.Put(t.Context(), "k", nil, objstore.PutOptions{})
	total := time.Duration(0)
	for _, pause := range *pauses {
		total += pause
	}
	if !errors.Is(err, objstore.ErrUnavailable) || total > time.Minute || total < 50*time.Second {
		t.Errorf("gave up after %v with %v", total, err)
	}
}

func TestWhatTookLongBeforeItFailedIsTriedAgain(t *testing.T) {
	policy, pauses := clock()
	now := policy.Now
	begun := now()
	slow := time.Duration(0)
	policy.Now = func() time.Time { return now().Add(slow) }
	store := retry.New(fault.New(mem.New(), fault.Plan{Before: func(c fault.Call) error {
		if c.Number == 1 { // a large body over a slow line, and then the connection breaks
			slow = 5 * time.Minute
			return errAway
		}
		return nil
	}}), policy)
	if err := store.Put(t.Context(), "k", []byte("x"), objstore.PutOptions{}); err != nil || len(*pauses) != 1 {
		t.Errorf("after %v and %d pauses: %v", policy.Now().Sub(begun), len(*pauses), err)
	}
}

func TestWhatIsFinalIsNotTriedAgain(t *testing.T) {
	for _, kind := range []error{objstore.ErrDenied, objstore.ErrNotFound, objstore.ErrExists, objstore.ErrNoBucket, objstore.ErrTorn, objstore.ErrConfig} {
		policy, pauses := clock()
		store := retry.New(failing(1, kind), policy)
		if _, err := store.Stat(t.Context(), "k"); !errors.Is(err, kind) || len(*pauses) != 0 {
			t.Errorf("%v: got %v after %d pauses", kind, err, len(*pauses))
		}
	}
}

func TestAListGoesOnWhereItBroke(t *testing.T) {
	inner := mem.New()
	for i := range 10 {
		if err := inner.Put(t.Context(), fmt.Sprintf("f%d/x", i), nil, objstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	policy, _ := clock()
	store := retry.New(fault.New(inner, fault.Plan{After: func(c fault.Call) error {
		if c.Number%3 != 0 {
			return errAway
		}
		return nil
	}}), policy)
	var keys, folders []string
	for info, err := range store.List(t.Context(), "f", "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	for name, err := range store.Folders(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		folders = append(folders, name)
	}
	if len(keys) != 10 || keys[9] != "f9/x" || len(folders) != 10 || folders[9] != "f9" {
		t.Errorf("listed %q and %q", keys, folders)
	}
}

func TestAReadGoesOnBehindTheBytesThatCame(t *testing.T) {
	inner, body := mem.New(), []byte("0123456789")
	if err := inner.Put(t.Context(), "k", body, objstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	policy, _ := clock()
	asked := []int{}
	p := make([]byte, 8)
	n, err := retry.New(halves{inner, &asked}, policy).ReadAt(t.Context(), "k", p, 1)
	if err != nil || n != 8 || !bytes.Equal(p, body[1:9]) || asked[len(asked)-1] != 1 {
		t.Errorf("got %d bytes %q, %v, asked for %v", n, p, err, asked)
	}
}

// halves reads half of what is asked for, and then breaks.
type halves struct {
	objstore.Store
	asked *[]int
}

func (h halves) ReadAt(ctx context.Context, key string, p []byte, off int64) (int, error) {
	*h.asked = append(*h.asked, len(p))
	n, err := h.Store.ReadAt(ctx, key, p[:(len(p)+1)/2], off)
	if err == nil && n < len(p) {
		err = errAway
	}
	return n, err
}
