package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"howdah.dev/howdah/pkg/backup/internal/codec"
	"howdah.dev/howdah/pkg/postgres"
)

// copier reads files and turns them into frames in packs.
type copier struct {
	packer    *packer
	checker   *pageChecker // nil if the cluster has no checksums
	level     codec.Level
	frameSize int64
	throttle  *throttle
	// checkControl refuses a control file without its checksum.
	checkControl bool

	mu     sync.Mutex // guards the entries' Parts, reach and vanished
	frames atomic.Int64
	done   atomic.Int64 // bytes of content read
	zeroes atomic.Int64 // of them, bytes that no frame holds
}

// run copies all files but the control file, with several workers.
func (c *copier) run(ctx context.Context, entries []*entry, workers int) error {
	group, ctx := errgroup.WithContext(ctx)
	queue := make(chan []frameJob)
	group.Go(func() error {
		defer close(queue)
		for piece := range pieces(entries, c.frameSize) {
			select {
			case queue <- piece:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	})
	for range workers {
		group.Go(func() error { return c.work(ctx, queue) })
	}
	return group.Wait()
}

func (c *copier) work(ctx context.Context, queue <-chan []frameJob) error {
	w, err := c.newWorker()
	if err != nil {
		return err
	}
	defer w.close()
	for piece := range queue {
		for i, job := range piece {
			if i == 0 || job[0].file != piece[i-1][0].file {
				w.encoder.Turn()
			}
			if err := w.copy(ctx, job); err != nil {
				return err
			}
		}
	}
	return nil
}

// worker has the buffers for one frame at a time, and the file that it read last.
type worker struct {
	*copier
	encoder *codec.FrameEncoder
	content []byte
	stored  []byte
	slack   int64 // room in content that the job doesn't need
	parts   []placed
	open    *os.File
	opened  *entry
}

// placed is where a run of a file is in the frame that is being made.
type placed struct {
	file *entry
	part Part
}

func (c *copier) newWorker() (*worker, error) {
	encoder, err := codec.NewFrameEncoder(c.level, int(c.frameSize))
	if err != nil {
		return nil, err
	}
	return &worker{
		copier: c, encoder: encoder,
		content: make([]byte, 0, c.frameSize+c.frameSize/4),
		stored:  make([]byte, 0, c.frameSize+c.frameSize/4),
	}, nil
}

func (w *worker) close() {
	if w.open != nil {
		w.open.Close()
	}
	w.open, w.opened = nil, nil
}

// copy makes one frame of what the job names.
func (w *worker) copy(ctx context.Context, job frameJob) error {
	w.content, w.parts = w.content[:0], w.parts[:0]
	w.slack = int64(cap(w.content))
	for _, s := range job {
		w.slack -= s.length
	}
	for _, s := range job {
		if err := w.read(ctx, s); err != nil {
			return fmt.Errorf("read %s: %w", s.file.at, err)
		}
		w.done.Add(s.length)
	}
	if len(w.content) == 0 {
		return context.Cause(ctx)
	}
	return w.emit(ctx)
}

// read appends one run to the content. A file that vanished or shrank gives what there is, and zeroes are left out. Whether a
// run is zero is read, and not asked of the file system: some have called a hole what had just been written.
func (w *worker) read(ctx context.Context, s span) error {
	there, err := w.access(s.file)
	if err != nil || !there {
		return err
	}
	if err := w.throttle.take(ctx, s.length); err != nil {
		return err
	}
	skip := len(w.content)
	buffer := w.content[skip : int64(skip)+w.room(s)]
	n, err := w.open.ReadAt(buffer, s.offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if n == 0 {
		return nil
	}
	if postgres.AllZero(buffer[:n]) {
		w.leaveOut(s, int64(n))
		return nil
	}
	w.slack -= max(0, int64(n)-s.length)
	if w.checker != nil && s.file.pages {
		if err := w.checker.check(ctx, s.file, w.open, buffer[:n], s.offset); err != nil {
			return err
		}
	}
	w.content = w.content[:skip+n]
	w.parts = append(w.parts, placed{file: s.file, part: Part{FileOffset: s.offset, Length: uint32(n), Skip: uint32(skip)}})
	return nil
}

// access opens a file, unless it was the last one already. It says whether the file is there.
func (w *worker) access(e *entry) (bool, error) {
	if w.opened == e {
		return true, nil
	}
	w.close()
	file, err := os.Open(e.at)
	if errors.Is(err, fs.ErrNotExist) {
		w.setVanished(e)
		return false, nil
	}
	if err != nil {
		return false, err
	}
	w.open, w.opened = file, e
	return true, nil
}

// leaveOut notes that so much of a run is there, and zero.
func (c *copier) leaveOut(s span, length int64) {
	c.zeroes.Add(length)
	c.mu.Lock()
	defer c.mu.Unlock()
	s.file.reach = max(s.file.reach, s.offset+length)
}

// room is how much of a run to read: of a small file that isn't made of pages a little more than it
// held when it was listed, because it may have been replaced by a longer one.
func (w *worker) room(s span) int64 {
	if s.file.pages || s.offset > 0 || s.length != s.file.listed {
		return s.length
	}
	return s.length + min(w.slack, w.frameSize/16)
}

func (c *copier) setVanished(e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.vanished = true
}

// emit compresses the content, puts it into a pack and notes where it is.
func (w *worker) emit(ctx context.Context) error {
	stored, coding := w.encoder.Encode(w.content, w.stored)
	frame := &Frame{
		Stored: uint32(len(stored)), Content: uint32(len(w.content)),
		ContentCRC: codec.CRC(w.content), Coding: coding, Digest: w.packer.digests.Digest(w.content),
	}
	frame.StoredCRC = frame.ContentCRC
	if coding != codec.Raw {
		frame.StoredCRC = codec.CRC(stored)
	}
	var err error
	if frame.Pack, frame.Offset, err = w.packer.add(ctx, stored, frame.StoredCRC); err != nil {
		return err
	}
	w.frames.Add(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.parts {
		p.part.Frame = frame
		p.file.Parts = append(p.file.Parts, p.part)
	}
	return nil
}

// control copies the control file, when everything else has been read.
func (c *copier) control(ctx context.Context, e *entry) error {
	before, err := c.readControl(ctx, e.at)
	if err != nil {
		return err
	}
	w, err := c.newWorker()
	if err != nil {
		return err
	}
	w.content = append(w.content, before...)
	w.parts = []placed{{file: e, part: Part{Length: uint32(len(before))}}}
	c.done.Add(int64(len(before)))
	return w.emit(ctx)
}
