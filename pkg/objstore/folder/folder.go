// Package folder is a store in a folder: for a bucket that was copied to a disk by any tool, which needs no server then. It is
// there to read and to delete; what is put is not made durable.
package folder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"

	"howdah.dev/howdah/pkg/objstore"
)

// Store keeps each object in a file of its key's name.
type Store struct {
	root *os.Root
	path string
}

// Open returns the store in a folder that is there.
func Open(path string) (*Store, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("%w: the folder: %w", objstore.ErrConfig, err)
	}
	return &Store{root: root, path: path}, nil
}

// temporary is how the names of files begin that are being written; it is no part of any key.
const temporary = ".howdah-new-"

func (s *Store) fail(op, key string, err error) error {
	fault := &objstore.Error{Op: op, Key: key, Bucket: s.path, Err: err}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		fault.Kind = objstore.ErrNotFound
	case errors.Is(err, fs.ErrExist):
		fault.Kind = objstore.ErrExists
	case errors.Is(err, fs.ErrPermission):
		fault.Kind = objstore.ErrDenied
	}
	return fault
}

// Put writes a file beside and renames it, or links it where none may be replaced.
func (s *Store) Put(ctx context.Context, key string, body []byte, opts objstore.PutOptions) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.put(key, body, opts.IfAbsent); err != nil {
		return s.fail("put", key, err)
	}
	return nil
}

func (s *Store) put(key string, body []byte, ifAbsent bool) error {
	if err := s.root.MkdirAll(path.Dir(key), 0o755); err != nil {
		return err
	}
	file, name, err := s.create(path.Dir(key))
	if err != nil {
		return err
	}
	defer func() { _ = s.root.Remove(name) }() // gone already where all went well
	_, err = file.Write(body)
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if ifAbsent {
		return s.root.Link(name, key)
	}
	return s.root.Rename(name, key)
}

func (s *Store) create(dir string) (*os.File, string, error) {
	name := path.Join(dir, fmt.Sprintf("%s%x", temporary, rand.Uint64()))
	file, err := s.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	return file, name, err
}

// Get reads a whole file.
func (s *Store) Get(ctx context.Context, key string, limit int64) ([]byte, error) {
	info, err := s.Stat(ctx, key)
	if err != nil {
		return nil, err
	}
	if info.Size > limit {
		return nil, &objstore.Error{Op: "get", Key: key, Bucket: s.path, Kind: objstore.ErrTooLarge}
	}
	body, err := s.root.ReadFile(key)
	if err != nil {
		return nil, s.fail("get", key, err)
	}
	return body, nil
}

// ReadAt reads a part of a file.
func (s *Store) ReadAt(ctx context.Context, key string, p []byte, off int64) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	file, err := s.root.Open(key)
	if err != nil {
		return 0, s.fail("read", key, err)
	}
	defer file.Close()
	n, err := file.ReadAt(p, off)
	if errors.Is(err, io.EOF) && n < len(p) {
		return n, &objstore.Error{Op: "read", Key: key, Bucket: s.path, Kind: objstore.ErrTorn}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return n, s.fail("read", key, err)
	}
	return n, nil
}

// Stat returns a file's size. A folder is no object.
func (s *Store) Stat(ctx context.Context, key string) (objstore.Info, error) {
	if err := ctx.Err(); err != nil {
		return objstore.Info{}, err
	}
	info, err := s.root.Stat(key)
	if err == nil && info.IsDir() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return objstore.Info{}, s.fail("stat", key, err)
	}
	return objstore.Info{Key: key, Size: info.Size(), Modified: info.ModTime()}, nil
}

// List walks the folders in the order of the keys.
func (s *Store) List(ctx context.Context, prefix, after string) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) {
		w := &walk{Store: s, prefix: prefix, after: after, yield: yield}
		if err := w.dir(ctx, folderOf(prefix)); err != nil && !errors.Is(err, errEnough) {
			yield(objstore.Info{}, err)
		}
	}
}

// folderOf is the deepest folder that holds all keys of a prefix, with a slash after it; empty is the root.
func folderOf(prefix string) string { return prefix[:strings.LastIndexByte(prefix, '/')+1] }

var errEnough = errors.New("the caller has enough")

type walk struct {
	*Store
	prefix, after string
	yield         func(objstore.Info, error) bool
}

func (w *walk) dir(ctx context.Context, dir string) error {
	children, err := w.children(ctx, dir)
	if err != nil {
		return err
	}
	for _, child := range children {
		key := dir + child
		isFolder := strings.HasSuffix(key, "/")
		wanted := strings.HasPrefix(key, w.prefix) || isFolder && strings.HasPrefix(w.prefix, key)
		switch {
		case !wanted:
		case isFolder && (key > w.after || strings.HasPrefix(w.after, key)):
			if err := w.dir(ctx, key); err != nil {
				return err
			}
		case !isFolder && key > w.after:
			info, err := w.Stat(ctx, key)
			if errors.Is(err, objstore.ErrNotFound) {
				continue // deleted meanwhile
			}
			if err != nil {
				return err
			}
			if !w.yield(info, nil) {
				return errEnough
			}
		}
	}
	return nil
}

// children are the names in a folder, folders with a slash after them: so they sort as keys do.
func (s *Store) children(ctx context.Context, dir string) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	entries, err := fs.ReadDir(s.root.FS(), path.Clean("./"+dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, s.fail("list", dir, err)
	}
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		switch name := entry.Name(); {
		case entry.IsDir():
			names = append(names, name+"/")
		case !strings.HasPrefix(name, temporary):
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// Folders lists the folders in one.
func (s *Store) Folders(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		children, err := s.children(ctx, prefix)
		if err != nil {
			yield("", err)
			return
		}
		for _, child := range children {
			if name, isFolder := strings.CutSuffix(child, "/"); isFolder && s.holds(ctx, prefix+child) && !yield(name, nil) {
				return
			}
		}
	}
}

// holds says whether there is an object below a folder: a bucket has no empty ones.
func (s *Store) holds(ctx context.Context, dir string) bool {
	for _, err := range s.List(ctx, dir, "") {
		return err == nil
	}
	return false
}

// Delete removes files. Folders stay.
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	for _, key := range keys {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.root.Remove(key); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return s.fail("delete", key, err)
		}
	}
	return nil
}

// Locks are none.
func (s *Store) Locks() objstore.Locker { return objstore.NoLocks{} }

// Kept is nothing.
func (s *Store) Kept(ctx context.Context) (objstore.Kept, error) { return objstore.Kept{}, ctx.Err() }
