package backup

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"howdah.dev/howdah/pkg/backup/internal/codec"
	"howdah.dev/howdah/pkg/backup/internal/envelope"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
)

// packHeader is the meta data of a pack: it tells a pack that was put in another's place.
type packHeader struct {
	Lineage string `json:"lineage"`
	Backup  string `json:"backup"`
	Name    string `json:"name"`
}

// packer gathers frames into packs and uploads those that are full, several at a time. All its
// memory are the buffers that it starts with: who adds to it waits while every one is on its way.
type packer struct {
	ctx     context.Context // of the uploads
	store   objstore.Store
	header  packHeader // without the name
	attempt string     // makes the names differ from those of another run of the same backup
	digests codec.Digester

	mu      sync.Mutex // guards what follows
	free    chan []byte
	current []byte
	sum     uint32 // CRC-32C of it, combined from those of the frames
	packs   []Pack
	names   int64 // bytes that the packs take in the header of the manifest

	uploads sync.WaitGroup
	failure onceError
	stored  atomic.Int64 // bytes uploaded
}

// onceError keeps the first error, and cancels a context with it.
type onceError struct {
	cancel context.CancelCauseFunc
	once   sync.Once
	err    error
}

func (o *onceError) set(err error) {
	o.once.Do(func() {
		o.err = err
		o.cancel(err)
	})
}

// newPacker returns a packer of this many buffers of size bytes. Uploads run in ctx; cancel is called
// with the error when one fails.
func newPacker(ctx context.Context, cancel context.CancelCauseFunc, store objstore.Store, header packHeader, attempt string, buffers int, size int64) *packer {
	p := &packer{ctx: ctx, store: store, header: header, attempt: attempt, free: make(chan []byte, buffers), failure: onceError{cancel: cancel}}
	p.digests = codec.NewDigester(digestSecret(header.Lineage, header.Backup, attempt))
	for range buffers {
		p.free <- make([]byte, 0, size)
	}
	return p
}

// add puts a frame, which has that checksum, into the current pack, and says where it is. The context ends the wait for a
// buffer.
func (p *packer) add(ctx context.Context, frame []byte, crc uint32) (pack, offset uint32, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current != nil && len(p.current)+len(frame) > cap(p.current) {
		p.ship()
	}
	if p.current == nil {
		if err := p.begin(ctx); err != nil {
			return 0, 0, err
		}
	}
	if len(p.current)+len(frame) > cap(p.current) {
		return 0, 0, fmt.Errorf("a frame of %d bytes does not fit into a pack", len(frame))
	}
	offset = uint32(len(p.current))
	p.current, p.sum = append(p.current, frame...), codec.Combine(p.sum, crc, int64(len(frame)))
	return uint32(len(p.packs) - 1), offset, nil
}

// digestSecret is what the digests of frames are made with. Nobody who only writes rows knows the name of a run, so nobody
// can aim at the digest of what was backed up.
func digestSecret(lineage, backup, attempt string) string {
	return lineage + "/" + backup + "/" + attempt
}

// secret is that of the frames in the pack.
func (p Pack) secret(lineage string) string {
	attempt, _, _ := strings.Cut(p.Name, "-")
	return digestSecret(lineage, p.Backup, attempt)
}

// begin starts the next pack in a free buffer.
func (p *packer) begin(ctx context.Context) error {
	select {
	case buffer := <-p.free:
		header := p.header
		header.Name = packName(p.attempt, len(p.packs))
		sealed, err := envelope.Seal(envelope.Pack, header)
		if err != nil {
			return err
		}
		p.names += p.nameSize()
		if err := checkPackCount(p.names); err != nil {
			return err
		}
		p.packs = append(p.packs, Pack{Backup: header.Backup, Name: header.Name})
		p.current, p.sum = append(buffer[:0], sealed...), codec.CRC(sealed)
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func packName(attempt string, number int) string { return fmt.Sprintf("%s-%06d", attempt, number) }

// nameSize is what one more pack takes in the header of the manifest.
func (p *packer) nameSize() int64 {
	return namesOf([]Pack{{Backup: p.header.Backup, Name: packName(p.attempt, len(p.packs))}})
}

// ship uploads the current pack in the background.
func (p *packer) ship() {
	pack := &p.packs[len(p.packs)-1]
	pack.Size = int64(len(p.current))
	key := layout.PackKey(p.header.Lineage, pack.Backup, pack.Name)
	body, sum := p.current, p.sum
	p.current = nil
	p.uploads.Go(func() {
		if err := p.store.Put(p.ctx, key, body, objstore.PutOptions{CRC32C: &sum}); err != nil {
			p.failure.set(err)
		}
		p.stored.Add(int64(len(body)))
		p.free <- body
	})
}

// flush uploads what is left, without waiting for it.
func (p *packer) flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current != nil {
		p.ship()
	}
}

// wait returns when no upload is on its way, with the first error of one.
func (p *packer) wait() error {
	p.uploads.Wait()
	return p.failure.err
}

// release gives the buffers back when everything is uploaded: the manifest of many files takes memory, too.
func (p *packer) release() {
	for len(p.free) > 0 {
		<-p.free
	}
}

// keys are those of all packs that were begun.
func (p *packer) keys() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var keys []string
	for _, pack := range p.packs {
		keys = append(keys, layout.PackKey(p.header.Lineage, pack.Backup, pack.Name))
	}
	return keys
}
