package sealed

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
)

const (
	// refreshWriter is how old what is known of the data keys may be for new objects: a rotation makes a new one.
	refreshWriter = 5 * time.Minute
	// refreshReader is the least time between two looks for a data key that is not known.
	refreshReader = 5 * time.Second
	// defaultMemory is how many bytes of sealed copies are held at once. One larger object goes alone.
	defaultMemory = 48 << 20
	// headers is how many objects' headers are kept.
	headers = 4096
)

// Options bound what a store uses. Zero values mean the defaults.
type Options struct {
	// Memory for sealed copies of objects on their way, in bytes; 48 MiB.
	Memory int64
	// Now is the clock.
	Now func() time.Time
	// Sign leaves content as it is, and signs it. A repository is either encrypted or signed.
	Sign bool
	// Either reads both kinds.
	Either bool
}

// Store seals what goes to the store inside it, and opens what comes from there.
type Store struct {
	inner   objstore.Store
	source  Source
	kind    state // encrypted or signed
	either  bool
	now     func() time.Time
	memory  *semaphore.Weighted
	limit   int64
	buffers sync.Pool
	openers *openers
	loading chan struct{} // held by who reads the data keys
	ring    atomic.Pointer[ring]
}

// New wraps a store. It does not connect: keys that don't fit show at the first operation, before anything is written.
func New(inner objstore.Store, source Source, opts Options) *Store {
	if opts.Memory <= 0 {
		opts.Memory = defaultMemory
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	kind := encrypted
	if opts.Sign {
		kind = signed
	}
	return &Store{
		inner: inner, source: source, kind: kind, either: opts.Either, now: opts.Now, memory: semaphore.NewWeighted(opts.Memory), limit: opts.Memory,
		openers: newOpeners(headers), loading: make(chan struct{}, 1),
	}
}

// reserved says whether an object tells how to open the others.
func reserved(key string) bool { return key == markerKey || strings.HasPrefix(key, Prefix) }

// unsealed says whether an object is as it is.
func unsealed(key string) bool {
	return reserved(key) || strings.HasPrefix(key, layout.AllReadersPrefix)
}

// opener makes the opener of the object that starts with b.
func (s *Store) opener(ctx context.Context, r *ring, key string, b []byte) (*opener, error) {
	h, err := parseHeader(b)
	if err != nil {
		return nil, damaged(key, err)
	}
	with, err := s.dataKey(ctx, r, h.dataKey)
	if err != nil {
		return nil, fmt.Errorf("object %s: %w", key, &ringError{err})
	}
	if h.version != with.version() || h.cipher != r.cipher {
		return nil, damaged(key, errOtherKind)
	}
	return newOpener(with, h, key)
}

var errOtherKind = errors.New("it is not sealed as the objects of this repository are")

// buffer takes memory for this many bytes. It must be given back.
func (s *Store) buffer(ctx context.Context, size int64) ([]byte, func(), error) {
	weight := min(size, s.limit)
	if err := s.memory.Acquire(ctx, weight); err != nil {
		return nil, nil, err
	}
	kept, _ := s.buffers.Get().(*[]byte)
	if kept == nil || int64(cap(*kept)) < size {
		const step = 1 << 18
		fresh := make([]byte, (size+step-1)/step*step)
		kept = &fresh
	}
	return (*kept)[:size], func() {
		s.buffers.Put(kept)
		s.memory.Release(weight)
	}, nil
}

// Put seals the body under a key of its own.
func (s *Store) Put(ctx context.Context, key string, body []byte, opts objstore.PutOptions) error {
	if strings.HasPrefix(key, Prefix) {
		return fmt.Errorf("put %s: what is below %s are the data keys", key, Prefix)
	}
	if unsealed(key) && key != markerKey {
		return s.inner.Put(ctx, key, body, opts)
	}
	r, err := s.writer(ctx)
	if err != nil {
		return err
	}
	if key == markerKey {
		return s.inner.Put(ctx, key, body, objstore.PutOptions{IfAbsent: true}) // it is there by now, and stays
	}
	if r.newest() == "" {
		if r, err = s.renewed(ctx); err != nil {
			return err
		}
	}
	with := r.open[r.newest()]
	h := newHeader(with, r.cipher, len(body))
	o, err := newOpener(with, h, key)
	if err != nil {
		return err
	}
	buffer, release, err := s.buffer(ctx, sealedSize(h.size))
	if err != nil {
		return err
	}
	defer release()
	s.openers.forget(key)
	object, sum := o.seal(append(buffer[:0], h.marshal()...), body)
	opts.CRC32C = &sum
	return s.inner.Put(ctx, key, object, opts)
}

// Get opens a whole object.
func (s *Store) Get(ctx context.Context, key string, limit int64) ([]byte, error) {
	if unsealed(key) {
		return s.inner.Get(ctx, key, limit)
	}
	r, err := s.reader(ctx)
	if err != nil {
		return nil, err
	}
	object, err := s.inner.Get(ctx, key, sealedSize(limit))
	if err != nil {
		return nil, err
	}
	o, err := s.opener(ctx, r, key, object)
	if err != nil {
		return nil, err
	}
	content, err := o.openAll(object)
	if err != nil {
		return nil, damaged(key, err)
	}
	return content, nil
}

// Stat says how large the content is.
func (s *Store) Stat(ctx context.Context, key string) (objstore.Info, error) {
	if !unsealed(key) {
		if _, err := s.reader(ctx); err != nil {
			return objstore.Info{}, err
		}
	}
	info, err := s.inner.Stat(ctx, key)
	return plainInfo(info), err
}

func plainInfo(info objstore.Info) objstore.Info {
	if !unsealed(info.Key) {
		info.Size = contentSize(info.Size)
	}
	return info
}

// List says how large contents are.
func (s *Store) List(ctx context.Context, prefix, after string) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) {
		if _, err := s.reader(ctx); err != nil {
			yield(objstore.Info{}, err)
			return
		}
		for info, err := range s.inner.List(ctx, prefix, after) {
			if !yield(plainInfo(info), err) {
				return
			}
		}
	}
}

// Folders lists folders.
func (s *Store) Folders(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if _, err := s.reader(ctx); err != nil {
			yield("", err)
			return
		}
		s.inner.Folders(ctx, prefix)(yield)
	}
}

// Delete removes objects, but not what opens the others.
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	for _, key := range keys {
		if reserved(key) {
			return fmt.Errorf("delete %s: without it nothing in the repository can be read", key)
		}
	}
	if _, err := s.reader(ctx); err != nil {
		return err
	}
	s.openers.forget(keys...)
	return s.inner.Delete(ctx, keys...)
}

// Locks are those of the objects, also of the data keys.
func (s *Store) Locks() objstore.Locker { return s.inner.Locks() }

// Kept is what the bucket keeps, sealed as it is.
func (s *Store) Kept(ctx context.Context) (objstore.Kept, error) { return s.inner.Kept(ctx) }
