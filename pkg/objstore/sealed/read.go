package sealed

import (
	"context"
	"errors"
	"fmt"

	"howdah.dev/howdah/pkg/objstore"
)

// ReadAt reads and opens the chunks that the range is in. Without the object's header it is read first; a range that begins
// in the first chunk is read with it.
func (s *Store) ReadAt(ctx context.Context, key string, p []byte, off int64) (int, error) {
	if unsealed(key) {
		return s.inner.ReadAt(ctx, key, p, off)
	}
	if off < 0 {
		return 0, fmt.Errorf("read %s: negative offset %d", key, off)
	}
	r, err := s.reader(ctx)
	if err != nil || len(p) == 0 {
		return 0, err
	}
	if known := s.openers.get(key); known != nil {
		n, err := s.readChunks(ctx, known, key, p, off)
		if err == nil || !errors.Is(err, objstore.ErrCorrupt) {
			return n, err
		}
		s.openers.forget(key) // it may have been replaced
	}
	return s.readUnknown(ctx, r, key, p, off)
}

// readUnknown reads of an object whose header is not known.
func (s *Store) readUnknown(ctx context.Context, r *ring, key string, p []byte, off int64) (int, error) {
	if off >= chunkSize {
		start := make([]byte, headerSize)
		o, _, err := s.readHeader(ctx, r, key, start)
		if err != nil {
			return 0, err
		}
		return s.readChunks(ctx, o, key, p, off)
	}
	last := (off + int64(len(p)) - 1) / chunkSize
	buffer, release, err := s.buffer(ctx, headerSize+(last+1)*stride)
	if err != nil {
		return 0, err
	}
	defer release()
	o, n, err := s.readHeader(ctx, r, key, buffer)
	if err != nil {
		return 0, err
	}
	return o.read(key, p, buffer[headerSize:n], off)
}

// readHeader fills start with the beginning of an object, and notes its header.
func (s *Store) readHeader(ctx context.Context, r *ring, key string, start []byte) (*opener, int, error) {
	n, err := s.inner.ReadAt(ctx, key, start, 0)
	if err != nil && !errors.Is(err, objstore.ErrTorn) {
		return nil, 0, err
	}
	o, err := s.opener(ctx, r, key, start[:n])
	if err == nil {
		s.openers.add(key, o)
	}
	return o, n, err
}

// readChunks reads of an object whose header is known.
func (s *Store) readChunks(ctx context.Context, o *opener, key string, p []byte, off int64) (int, error) {
	end := min(off+int64(len(p)), o.size)
	if off >= end {
		return o.read(key, p, nil, off)
	}
	from, to := o.at(off/chunkSize), o.at((end-1)/chunkSize+1)
	buffer, release, err := s.buffer(ctx, to-from)
	if err != nil {
		return 0, err
	}
	defer release()
	n, err := s.inner.ReadAt(ctx, key, buffer, from)
	if err != nil && !errors.Is(err, objstore.ErrTorn) {
		return 0, err
	}
	return o.read(key, p, buffer[:n], off)
}

// read opens stored, which begins with the chunk that off is in, into p. As much as there should be must be there.
func (o *opener) read(key string, p, stored []byte, off int64) (int, error) {
	end := min(off+int64(len(p)), o.size)
	n := max(0, end-off)
	if n > 0 {
		if to := o.at((end-1)/chunkSize + 1); o.at(off/chunkSize)+int64(len(stored)) < to {
			return 0, damaged(key, fmt.Errorf("it is cut off before byte %d of %d", to, sealedSize(o.size)))
		}
		if err := o.openRange(p[:n], stored, off); err != nil {
			return 0, damaged(key, err)
		}
	}
	if n < int64(len(p)) {
		return int(n), &objstore.Error{Op: "read", Key: key, Kind: objstore.ErrTorn}
	}
	return int(n), nil
}
