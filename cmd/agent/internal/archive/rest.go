package archive

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/postgres"
)

// Rest archives what a server that was shut down has left in its pg_wal. One goroutine uses it.
type Rest struct {
	walDir string
	t      *target
}

// NewRest is for the WAL in walDir, which goes to a target.
func NewRest(walDir string, to Target) *Rest {
	return &Rest{walDir: walDir, t: newTarget(to, time.Now)}
}

// firstRecord is where the first record of a segment begins, after the header of its first page.
const firstRecord = 40

// Open is the segment that a server which was shut down has left open, and whether it has records other than that of the shutdown. PostgreSQL
// begins a segment for that one, unless it archives nothing.
func Open(control postgres.ControlData) (segment postgres.Segment, written bool) {
	segment = postgres.SegmentOf(control.Timeline, control.Checkpoint, control.SegSize)
	return segment, control.Checkpoint > segment.Start()+firstRecord
}

// Finish archives what the server has left that was shut down, and returns the files that are not archived all the same. A server that hands
// over ends without its archive, because others wait for its end; where nobody takes over, only its volume has these files. An error
// without files: what is not archived isn't known.
func (a *Archiver) Finish(ctx context.Context, control postgres.ControlData) (left []string, err error) {
	a.mu.Lock()
	t := a.target
	a.mu.Unlock()
	if t == nil {
		return nil, errors.New("the archiver has not been told of an archive yet")
	}
	names, err := Wanted(a.walDir, control.SegSize)
	if err != nil {
		return nil, err
	}
	open, written := Open(control)
	if written {
		names = append(names, open.Name())
	}
	rest := &Rest{walDir: a.walDir, t: t}
	for i, name := range names {
		if err := rest.within(ctx, func(ctx context.Context) error {
			if written && i == len(names)-1 {
				return rest.PutOpen(ctx, open, control.Checkpoint)
			}
			return rest.Put(ctx, name)
		}); err != nil {
			return names[i:], err
		}
	}
	return nil, nil
}

// within gives one file some time, so that a store that doesn't respond doesn't keep the pod from ending, and a slow one is given all files.
func (r *Rest) within(ctx context.Context, put func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, fileTime)
	defer cancel()
	err := put(ctx)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("the store takes too long: %w", err)
	}
	return err
}

const fileTime = 20 * time.Second

// Wanted lists the files that the server still wanted to be archived, as Ready does, but for those that an Archiver would take for
// archived without a push.
func Wanted(walDir string, segSize uint64) ([]string, error) {
	names, err := Ready(walDir)
	return slices.DeleteFunc(names, func(name string) bool {
		file, err := postgres.ParseWALFile(name, segSize)
		return err == nil && (file.Kind == postgres.WALHistory && isSkipped(walDir, name) || wasLeft(walDir, file))
	}), err
}

// Put archives a file that is complete.
func (r *Rest) Put(ctx context.Context, name string) error {
	return r.t.put(ctx, filepath.Join(r.walDir, name), name, wal.Thorough)
}

// PutOpen archives a segment that the server had not switched, up to end. That doesn't keep a server that continues with it from
// archiving the whole.
func (r *Rest) PutOpen(ctx context.Context, segment postgres.Segment, end postgres.LSN) error {
	from, err := r.t.shippedTo(ctx, segment)
	if to := end.Sub(segment.Start()); err == nil && from < to {
		return r.t.ship(ctx, filepath.Join(r.walDir, segment.Name()), segment, from, to)
	}
	return err
}
