package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"howdah.dev/howdah/pkg/backup/internal/codec"
	"howdah.dev/howdah/pkg/backup/internal/envelope"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
)

const (
	// maxRange is how much is asked for at a time; maxGap is how much that isn't wanted is read
	// along rather than asking twice.
	maxRange = 4 << 20
	maxGap   = 128 << 10
	// fetchersPerWorker makes some wait for the network while others use the CPU.
	fetchersPerWorker = 2
)

// partRef is one part of one file.
type partRef struct {
	file *File
	part *Part
}

// sink takes in the content of a part. It is called by several goroutines, each with a sink of its
// own.
type sink interface {
	write(w partRef, content []byte) error
	close() error
}

// fetcher reads frames, checks them and hands their content to sinks.
type fetcher struct {
	store   objstore.Store
	header  *Header
	newSink func() sink
	present *present // nil: everything is fetched

	decoders codec.Decoders
	stored   atomic.Int64 // bytes downloaded
	content  atomic.Int64 // bytes handed on, of the store or of what is present
}

// batch is a run of bytes of one pack, with the partRefs in it.
type batch struct {
	pack     uint32
	from, to int64
	partRefs []partRef // by the offset of their frames
}

// partRefs are all parts of all files, in the order in which they lie in the packs.
func partRefs(files []File) []partRef {
	count := 0
	for i := range files {
		count += len(files[i].Parts)
	}
	all := make([]partRef, 0, count)
	for i := range files {
		for j := range files[i].Parts {
			all = append(all, partRef{file: &files[i], part: &files[i].Parts[j]})
		}
	}
	slices.SortFunc(all, inPacks)
	return all
}

// inPacks is the order in which partRefs lie in the packs.
func inPacks(a, b partRef) int {
	return cmp.Or(cmp.Compare(a.part.Frame.Pack, b.part.Frame.Pack), cmp.Compare(a.part.Frame.Offset, b.part.Frame.Offset),
		cmp.Compare(a.part.Skip, b.part.Skip))
}

// contentBytes is what there is to fetch of files: all but the zeroes that are left out.
func contentBytes(files []File) (total int64) {
	for i := range files {
		for _, part := range files[i].Parts {
			total += int64(part.Length)
		}
	}
	return total
}

// batches joins neighbouring frames of a pack into ranges. A range near a pack's start includes its
// header.
func batches(all []partRef) iter.Seq[batch] {
	return func(yield func(batch) bool) {
		current := batch{}
		for i, w := range all {
			f := w.part.Frame
			from, to := int64(f.Offset), int64(f.Offset)+int64(f.Stored)
			joins := len(current.partRefs) > 0 && f.Pack == current.pack && from-current.to <= maxGap && to-current.from <= maxRange
			if !joins {
				if len(current.partRefs) > 0 && !yield(current) {
					return
				}
				if from <= maxGap {
					from = 0
				}
				current = batch{pack: f.Pack, from: from, to: to, partRefs: all[i:i:i]}
			}
			current.to = max(current.to, to)
			current.partRefs = all[i-len(current.partRefs) : i+1]
		}
		if len(current.partRefs) > 0 {
			yield(current)
		}
	}
}

// run fetches all with this many goroutines.
func (f *fetcher) run(ctx context.Context, all []partRef, fetchers int) error {
	_, err := f.feed(ctx, all, fetchers, 0, f.work)
	return err
}

// feed is run with other work than handing content to sinks, until limit bytes were read (0: everything). It says whether it
// read everything.
func (f *fetcher) feed(ctx context.Context, all []partRef, fetchers int, limit int64, work func(context.Context, <-chan batch) error) (whole bool, err error) {
	group, ctx := errgroup.WithContext(ctx)
	queue := make(chan batch)
	group.Go(func() error {
		defer close(queue)
		for b := range batches(all) {
			if limit > 0 && f.stored.Load() >= limit {
				return nil
			}
			select {
			case queue <- b:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		whole = true
		return nil
	})
	for range fetchers {
		group.Go(func() error { return work(ctx, queue) })
	}
	err = group.Wait()
	return whole && err == nil, err
}

// fetching is one goroutine of a fetcher, with its buffers.
type fetching struct {
	*fetcher
	to         sink
	taker      taker
	raw, plain []byte // frames as they are stored, and their content
}

func (f *fetcher) work(ctx context.Context, queue <-chan batch) (err error) {
	g := &fetching{
		fetcher: f, to: f.newSink(), taker: taker{present: f.present},
		raw: make([]byte, 0, maxRange+maxGap), plain: make([]byte, 0, minFrame),
	}
	defer func() {
		g.taker.close()
		err = errors.Join(err, g.to.close())
	}()
	for b := range queue {
		if err := g.serve(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// serve takes what is present of a batch, and fetches the rest.
func (g *fetching) serve(ctx context.Context, b batch) (err error) {
	if g.present == nil {
		return g.fetch(ctx, b)
	}
	left, plain, taken, err := g.taker.take(ctx, b.partRefs, g.plain, g.to)
	g.plain = plain
	g.content.Add(taken)
	if err != nil {
		return err
	}
	for rest := range batches(left) {
		if err := g.fetch(ctx, rest); err != nil {
			return err
		}
	}
	return nil
}

func (g *fetching) fetch(ctx context.Context, b batch) (err error) {
	g.raw = slices.Grow(g.raw[:0], int(b.to-b.from))[:b.to-b.from]
	if err := g.read(ctx, b, g.raw); err != nil {
		return err
	}
	g.plain, err = g.unpack(ctx, b, g.raw, g.plain, g.to)
	return err
}

func (f *fetcher) key(pack uint32) string {
	p := f.header.Packs[pack]
	return layout.PackKey(f.header.Lineage, p.Backup, p.Name)
}

func (f *fetcher) corrupt(b batch, w partRef, detail string, err error) error {
	return &CorruptError{Object: f.key(b.pack), File: w.file.Path, Detail: detail, Err: err}
}

// read fills stored with the batch's bytes.
func (f *fetcher) read(ctx context.Context, b batch, stored []byte) error {
	n, err := f.store.ReadAt(ctx, f.key(b.pack), stored, b.from)
	f.stored.Add(int64(n))
	switch {
	case errors.Is(err, objstore.ErrNotFound):
		return f.corrupt(b, b.partRefs[0], "it is missing", err)
	case errors.Is(err, objstore.ErrTorn):
		return f.corrupt(b, f.beyond(b, int64(n)), fmt.Sprintf("it ends after %d bytes", b.from+int64(n)), err)
	case errors.Is(err, objstore.ErrCorrupt):
		return f.corrupt(b, b.partRefs[0], "it is not what was stored", err)
	}
	return err
}

// beyond is the first partRef that a batch of only n bytes can't fulfil.
func (f *fetcher) beyond(b batch, n int64) partRef {
	for _, w := range b.partRefs {
		if int64(w.part.Frame.Offset)+int64(w.part.Frame.Stored)-b.from > n {
			return w
		}
	}
	return b.partRefs[0]
}

// unpack checks and decompresses the frames of a batch. It returns the buffer for the next one.
func (f *fetcher) unpack(ctx context.Context, b batch, stored, content []byte, to sink) ([]byte, error) {
	if err := f.checkHeader(b, stored); err != nil {
		return content, err
	}
	decoded, last := content, int64(-1)
	for _, w := range b.partRefs {
		if err := ctx.Err(); err != nil {
			return content, context.Cause(ctx)
		}
		frame := w.part.Frame
		if int64(frame.Offset) != last {
			last = int64(frame.Offset)
			at := last - b.from
			content = slices.Grow(content[:0], int(frame.Content))[:frame.Content]
			var err error
			if decoded, err = f.open(b, w, stored[at:at+int64(frame.Stored)], content); err != nil {
				return content, err
			}
		}
		if int(w.part.Skip)+int(w.part.Length) > len(decoded) {
			return content, f.corrupt(b, w, "the manifest contradicts itself", nil)
		}
		if err := to.write(w, decoded[w.part.Skip:w.part.Skip+w.part.Length]); err != nil {
			return content, err
		}
		f.content.Add(int64(w.part.Length))
	}
	return content, nil
}

// open checks one frame and returns its content, in the given buffer unless it is stored raw.
func (f *fetcher) open(b batch, w partRef, stored, content []byte) ([]byte, error) {
	frame := w.part.Frame
	where := fmt.Sprintf("frame at byte %d: ", frame.Offset)
	if codec.CRC(stored) != frame.StoredCRC {
		return nil, f.corrupt(b, w, where+"its bytes are not what was stored", nil)
	}
	if frame.Coding == codec.Raw {
		content = stored
	} else if err := f.decoders.DecodeFrame(frame.Coding, stored, content); err != nil {
		return nil, f.corrupt(b, w, where+"it does not decompress", err)
	}
	if codec.CRC(content) != frame.ContentCRC {
		return nil, f.corrupt(b, w, where+"the checksum of its content is wrong", nil)
	}
	return content, nil
}

// checkHeader checks a pack's header when the batch holds it.
func (f *fetcher) checkHeader(b batch, stored []byte) error {
	if b.from != 0 {
		return nil
	}
	header := packHeader{}
	size, err := envelope.Open(stored, envelope.Pack, &header)
	if err != nil {
		return f.corrupt(b, b.partRefs[0], "its header can't be read", err)
	}
	pack := f.header.Packs[b.pack]
	if header != (packHeader{Lineage: f.header.Lineage, Backup: pack.Backup, Name: pack.Name}) || int64(b.partRefs[0].part.Frame.Offset) < int64(size) {
		return f.corrupt(b, b.partRefs[0], fmt.Sprintf("it is pack %s of backup %s", header.Name, header.Backup), nil)
	}
	return nil
}
