package sealed

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/fault"
	"howdah.dev/howdah/pkg/objstore/mem"
)

// clock advances by a minute with each look.
func clock() func() time.Time {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return func() time.Time { now = now.Add(time.Minute); return now }
}

// vault is a repository whose Secret is changed by its owner.
type vault struct {
	*testing.T
	inner   *mem.Store
	entries map[string][]byte
	current string
	now     func() time.Time
}

func newVault(t *testing.T) *vault {
	return &vault{T: t, inner: mem.New(), entries: map[string][]byte{"k1": secret(1)}, now: clock()}
}

func (v *vault) open() *Store { return v.openOn(v.inner) }

func (v *vault) openOn(inner objstore.Store) *Store {
	return New(inner, func() (Keys, error) { return ParseKeys(v.entries, v.current) }, Options{Now: v.now})
}

func (v *vault) rotate() *State {
	v.Helper()
	state, err := Rotate(v.Context(), v.open())
	if err != nil {
		v.Fatal(err)
	}
	return state
}

func (v *vault) identity() string {
	v.Helper()
	_, identity, err := readState(v.Context(), v.inner)
	if err != nil || identity == "" {
		v.Fatalf("the repository has no identity: %v", err)
	}
	return identity
}

func (v *vault) wraps() []string {
	var names []string
	for info := range v.inner.List(v.Context(), Prefix, "") {
		names = append(names, info.Key[strings.LastIndex(info.Key, "/")+1:])
	}
	slices.Sort(names)
	return names
}

func (v *vault) expect(wraps ...string) {
	v.Helper()
	if got := v.wraps(); !slices.Equal(got, wraps) {
		v.Errorf("there are wraps %q, want %q", got, wraps)
	}
}

func TestARotationWrapsDataKeysAnewAndLeavesTheData(t *testing.T) {
	v := newVault(t)
	put(t, v.open(), "o/old", noise(100_000))
	stored := get(t, v.inner, "o/old")
	if state := v.rotate(); state.Current != "k1" || len(state.Spare) > 0 || state.DataKeys != 1 {
		t.Errorf("before: %+v", state)
	}
	v.entries["k2"], v.current = secret(2), "k2"
	for range 2 {
		state := v.rotate()
		if state.Current != "k2" || !slices.Equal(state.Needed, []string{"k2"}) || !slices.Equal(state.Spare, []string{"k1"}) || state.DataKeys != 2 {
			t.Errorf("got %+v", state)
		}
		v.expect("k1", "k2", "k2")
	}
	put(t, v.open(), "o/new", noise(10))
	delete(v.entries, "k1")
	v.rotate()
	v.expect("k2", "k2")
	if !bytes.Equal(get(t, v.open(), "o/old"), noise(100_000)) || !bytes.Equal(get(t, v.open(), "o/new"), noise(10)) {
		t.Error("something is another")
	}
	if !bytes.Equal(get(t, v.inner, "o/old"), stored) {
		t.Error("data was written again")
	}
}

func TestWhoKnowsOnlyAFormerKeyCannotReadWhatCameLater(t *testing.T) {
	v := newVault(t)
	put(t, v.open(), "o/old", nil)
	v.entries["k2"], v.current = secret(2), "k2"
	v.rotate()
	put(t, v.open(), "o/new", nil)
	former := New(v.inner, Fixed(one(t)), Options{})
	get(t, former, "o/old")
	if _, err := former.Get(t.Context(), "o/new", 10); !errors.Is(err, ErrKeyNotFound) || !strings.Contains(err.Error(), "k2") {
		t.Errorf("got %v", err)
	}
}

func TestAKeyTakenAwayTooEarlyIsNamed(t *testing.T) {
	v := newVault(t)
	put(t, v.open(), "o/old", nil)
	v.entries, v.current = map[string][]byte{"k2": secret(2)}, ""
	_, err := Rotate(t.Context(), v.open())
	if !errors.Is(err, ErrKeyNotFound) || !strings.Contains(err.Error(), "with key k1") {
		t.Errorf("got %v", err)
	}
	v.expect("k1")
}

func TestARenamedKeyIsTheSameKey(t *testing.T) {
	v := newVault(t)
	put(t, v.open(), "o/old", noise(7))
	v.entries = map[string][]byte{"better-name": secret(1)}
	v.rotate()
	v.expect("better-name")
	if !bytes.Equal(get(t, v.open(), "o/old"), noise(7)) {
		t.Error("it is another")
	}
}

func TestARunningProcessSealsWithTheNewDataKeySoonAfterARotation(t *testing.T) {
	v := newVault(t)
	running := v.open()
	put(t, running, "o/1", nil)
	v.entries["k2"], v.current = secret(2), "k2"
	v.rotate()
	for range 10 {
		v.now() // minutes
	}
	put(t, running, "o/2", nil)
	first, _ := parseHeader(get(t, v.inner, "o/1"))
	second, _ := parseHeader(get(t, v.inner, "o/2"))
	if first.dataKey >= second.dataKey {
		t.Errorf("sealed with %s after %s", second.dataKey, first.dataKey)
	}
}

func TestARunningProcessReadsWhatWasSealedWithADataKeyThatIsNew(t *testing.T) {
	v := newVault(t)
	running := v.open()
	put(t, running, "o/1", nil)
	v.entries["k2"], v.current = secret(2), "k2"
	v.rotate()
	put(t, v.open(), "o/2", noise(5))
	if !bytes.Equal(get(t, running, "o/2"), noise(5)) {
		t.Error("it is another")
	}
}

func TestARotationThatIsKilledAnywhereLosesNothingAndIsFinishedByTheNext(t *testing.T) {
	for dies := 1; dies < 40; dies++ {
		v := newVault(t)
		put(t, v.open(), "o/old", noise(99))
		v.entries["k2"], v.current = secret(2), "k2"
		v.rotate()
		v.entries["k3"], v.current = secret(3), "k3"
		delete(v.entries, "k1")
		faulty := fault.New(v.inner, fault.Plan{Before: func(call fault.Call) error {
			if call.Number >= dies {
				return &objstore.Error{Op: call.Op, Key: call.Key, Kind: objstore.ErrUnavailable}
			}
			return nil
		}})
		_, err := Rotate(t.Context(), v.openOn(faulty))
		if !bytes.Equal(get(t, v.open(), "o/old"), noise(99)) {
			t.Fatalf("killed at operation %d: it is another", dies)
		}
		v.rotate()
		delete(v.entries, "k2")
		v.rotate()
		v.expect("k3", "k3", "k3")
		if !bytes.Equal(get(t, v.open(), "o/old"), noise(99)) {
			t.Fatalf("killed at operation %d: it is another in the end", dies)
		}
		if err == nil {
			return
		}
	}
	t.Error("the rotation never came to its end")
}

func TestTwoOwnersWithDifferentKeysNeverTakeAwayTheLastWrapOfADataKey(t *testing.T) {
	v := newVault(t)
	put(t, v.open(), "o/old", noise(9))
	behind := New(v.inner, Fixed(one(t)), Options{Now: v.now})
	ring, err := behind.writer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	v.entries["k2"], v.current = secret(2), "k2"
	v.rotate()
	if err := behind.rewrap(t.Context(), ring); err != nil { // it knows nothing of k2
		t.Fatal(err)
	}
	v.expect("k1", "k2", "k2")
}

// TestADataKeyThatIsDeletedWhileItIsLookedForIsNoMissingObject: a rotation deletes wraps, and what is not found counts as deleted.
func TestADataKeyThatIsDeletedWhileItIsLookedForIsNoMissingObject(t *testing.T) {
	for _, rotated := range []bool{false, true} {
		v := newVault(t)
		put(t, v.open(), "o/old", noise(9))
		old := ""
		for info := range v.inner.List(t.Context(), Prefix, "") {
			old = info.Key
		}
		if rotated {
			v.entries["k2"], v.current = secret(2), "k2"
			v.rotate()
		}
		away := true
		store := v.openOn(fault.New(v.inner, fault.Plan{Before: func(call fault.Call) error {
			if away && call.Op == "get" && strings.HasPrefix(call.Key, old[:strings.LastIndex(old, "/")]) {
				return &objstore.Error{Op: "get", Key: call.Key, Kind: objstore.ErrNotFound}
			}
			return nil
		}}))
		_, errGet := store.Get(t.Context(), "o/old", 100)
		_, errRead := store.ReadAt(t.Context(), "o/old", make([]byte, 5), 0)
		for _, err := range []error{errGet, errRead} {
			if err == nil || errors.Is(err, objstore.ErrNotFound) || !strings.Contains(err.Error(), "no such object") {
				t.Errorf("rotated %v: %v", rotated, err)
			}
		}
		away = false
		if _, err := store.Get(t.Context(), "o/old", 100); err != nil {
			t.Errorf("rotated %v, afterwards: %v", rotated, err)
		}
		if _, err := store.Get(t.Context(), "o/none", 100); !errors.Is(err, objstore.ErrNotFound) {
			t.Errorf("an object that isn't there: %v", err)
		}
	}
}

// TestADataKeyThatWasPlantedSealsNothingAfterARotation: who knew a former key, and could write to the bucket, has left a data key there
// whose id is the largest of those that somebody could have made by then.
func TestADataKeyThatWasPlantedSealsNothingAfterARotation(t *testing.T) {
	for name, origin := range map[string][]byte{"of the former key": secret(1), "of the key that comes": secret(2)} {
		t.Run(name, func(t *testing.T) {
			v := newVault(t)
			put(t, v.open(), "o/old", nil)
			both := keys(t, "k1", map[string][]byte{"k1": secret(1), "origin": origin})
			planted := fmt.Sprintf("%08x", v.now().Add(maxSkew/2).Unix()) + strings.Repeat("f", keyNameSize-8)
			plant := func() {
				w, err := wrapKey(dataKey{id: planted, origin: fingerprint(both.byName["origin"]), secret: secret(9)[:keySize], repository: v.identity()}, both, "k1", v.now())
				if err == nil {
					_, err = w.put(t.Context(), v.inner, both)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			expect := func(when string) {
				t.Helper()
				put(t, v.open(), "o/new", nil)
				if h, err := parseHeader(get(t, v.inner, "o/new")); err != nil || h.dataKey >= planted {
					t.Errorf("%s: what was put is sealed with %s, and data key %s was planted; %v", when, h.dataKey, planted, err)
				}
			}
			plant()
			v.entries["k2"], v.current = secret(2), "k2"
			expect("before the rotation")
			v.rotate()
			plant()
			expect("after the rotation")
			delete(v.entries, "k1")
			v.rotate()
			v.rotate()
			expect("without the former key")
		})
	}
}

// Whoever has the current key for an hour could else have all that is written in the next years sealed with a data key that they know.
func TestADataKeyFromTheFutureSealsNothingAndStillReads(t *testing.T) {
	v := newVault(t)
	put(t, v.open(), "o/old", nil)
	later := v.now().Add(2 * maxSkew)
	early := newDataKey(v.identity(), keys(t, "k1", map[string][]byte{"k1": secret(1)}), later)
	w, err := wrapKey(early, keys(t, "k1", map[string][]byte{"k1": secret(1)}), "k1", later)
	if err == nil {
		_, err = w.put(t.Context(), v.inner, keys(t, "k1", map[string][]byte{"k1": secret(1)}))
	}
	if err != nil {
		t.Fatal(err)
	}
	sealedBy := func(object string) string {
		put(t, v.open(), object, nil)
		h, err := parseHeader(get(t, v.inner, object))
		if err != nil {
			t.Fatal(err)
		}
		return h.dataKey
	}
	if by := sealedBy("o/now"); by == early.id {
		t.Errorf("%s seals two hours before it is created", by)
	}
	v.now = func() time.Time { return later }
	if by := sealedBy("o/later"); by != early.id {
		t.Errorf("a data key that is the newest is not used: %s", by)
	}
	v.now = func() time.Time { return later.Add(-2 * maxSkew) }
	get(t, v.open(), "o/later")
}
