package backup

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// share makes files of the target of those that are present, where the file system lets two files have the same blocks until
// one of them is written to: nothing is copied then, and only what is other has to be written. That the file system can't do
// it shows with the first file.
func (r *restoring) share(ctx context.Context, present *present) error {
	if present == nil || r.opts.InPlace {
		return nil
	}
	r.had = map[*File]state{}
	for i := range r.manifest.Files {
		f := &r.manifest.Files[i]
		if f.Kind != Regular || len(f.Parts) == 0 {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if again, err := r.shareFile(f, present); err != nil || !again {
			return err
		}
	}
	return nil
}

// shareFile says whether to try it with other files, too. A file that isn't shared is made like any other.
func (r *restoring) shareFile(f *File, present *present) (again bool, err error) {
	source := present.openRegular(f)
	if source == nil {
		return true, nil
	}
	defer source.Close()
	root, name := r.locate(f.Path)
	target, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, madeMode)
	if err != nil {
		return false, err
	}
	defer target.Close()
	if err := shareBlocks(target, source); err != nil {
		return !unshareable(err), root.Remove(name)
	}
	info, err := target.Stat()
	if err != nil {
		return false, err
	}
	r.had[f] = state{mode: madeMode}
	return true, blank(f, root, name, info.Size())
}

// unshareable says that no file of these file systems can be shared, rather than that this one can't.
func unshareable(err error) bool {
	for _, no := range []error{errors.ErrUnsupported, unix.EXDEV, unix.ENOTTY, unix.EINVAL, unix.EPERM} {
		if errors.Is(err, no) {
			return true
		}
	}
	return false
}
