// Package heartbeat notices a disk that doesn't respond. A write or fsync that never returns is no error: whoever waits for it hangs, and
// nobody else learns of it. So a small file is written and synced again and again, by a goroutine that does nothing else.
package heartbeat

import (
	"context"
	"encoding/binary"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Pause is between the end of one beat and the next.
const Pause = time.Second

// Heart beats on one disk. Any goroutine may use it.
type Heart struct {
	beat func() error
	now  func() time.Duration

	mu      sync.Mutex
	beating bool
	begun   time.Duration // when the beat that continues was, or the last one
	took    time.Duration // for the last one
	err     error         // of the last one
}

// New makes a heart that doesn't beat yet. beat writes and syncs; now is a clock that doesn't stop.
func New(beat func() error, now func() time.Duration) *Heart { return &Heart{beat: beat, now: now} }

// Run beats until ctx ends. A disk that doesn't respond is waited for even then.
func (h *Heart) Run(ctx context.Context) {
	for ctx.Err() == nil {
		h.begin()
		h.end(h.beat())
		select {
		case <-ctx.Done():
		case <-time.After(Pause):
		}
	}
}

func (h *Heart) begin() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.beating, h.begun = true, h.now()
}

func (h *Heart) end(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.beating, h.took, h.err = false, h.now()-h.begun, err
}

// Waiting is for how long the disk has not answered, and zero if it isn't asked just now.
func (h *Heart) Waiting() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.beating {
		return 0
	}
	return h.now() - h.begun
}

// Took is how long the last beat took, or how long the one that continues has taken if that is longer. An error is that of the last:
// the disk answers, but not as it should.
func (h *Heart) Took() (time.Duration, error) {
	waiting := h.Waiting()
	h.mu.Lock()
	defer h.mu.Unlock()
	return max(waiting, h.took), h.err
}

// block is what is written: a sector of any disk.
const block = 4096

// File writes over the same block of a file each time and syncs it, as PostgreSQL does with its WAL. It needs space only for the first
// time, and doesn't wait for what else is to be written to the same filesystem, as it changes nothing but the block.
func File(path string) (beat func() error) {
	var file *os.File
	var count uint64
	return func() (err error) {
		if file == nil {
			if file, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
				return err
			}
		}
		count++
		if _, err := file.WriteAt(binary.LittleEndian.AppendUint64(make([]byte, 0, block), count)[:block], 0); err != nil {
			return err
		}
		return unix.Fdatasync(int(file.Fd()))
	}
}
