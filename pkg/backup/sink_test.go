package backup

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// TestWhatIsWrittenPastThePageCacheIsTheSame writes one file in runs of all kinds, past the page cache and through it.
func TestWhatIsWrittenPastThePageCacheIsTheSame(t *testing.T) {
	content := make([]byte, 3<<20+8192+100)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(content)
	unaligned := append(make([]byte, 1, len(content)+1), content...)[1:]
	for name, buffered := range map[string]bool{"past": false, "through": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			r := &restoring{manifest: &Manifest{}, places: map[string]*place{}}
			defer r.close()
			must(t, r.openPlace("", dir))
			r.buffered.Store(buffered)
			sink, file := &fileSink{restoring: r}, &File{Path: "16384"}
			put := func(from []byte, offset, length int) {
				part := &Part{FileOffset: int64(offset), Length: uint32(length)}
				must(t, sink.write(partRef{file: file, part: part}, from[offset:offset+length]))
			}
			put(content, 2<<20, 1<<20)     // after a hole
			put(unaligned, 1<<20, 1<<20)   // at an address that is not aligned
			put(content, 3<<20, 8192)      // small
			put(content, 3<<20+8192, 100)  // the end
			put(content, 4096, 1<<20-4096) // shares a unit with what comes before it
			put(content, 0, 4096)
			direct := sink.direct != nil && !r.buffered.Load()
			must(t, sink.close())
			got, err := os.ReadFile(filepath.Join(dir, "16384"))
			if err != nil || !bytes.Equal(got, content) {
				t.Errorf("%d bytes came of %d, %v", len(got), len(content), err)
			}
			if buffered && direct {
				t.Error("it was written past the page cache")
			}
			t.Logf("past the page cache: %v", direct)
		})
	}
}
