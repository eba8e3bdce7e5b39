package backup

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"howdah.dev/howdah/pkg/objstore/mem"
)

// control makes a control file as a version of PostgreSQL does that has its checksum there.
func control(at int) []byte {
	content := append(randomBytes(at, 9), make([]byte, 8192-at)...)
	binary.LittleEndian.PutUint32(content[at:], crc32.Checksum(content[:at], crc32.MakeTable(crc32.Castagnoli)))
	return content
}

func TestAControlFileThatIsDamagedIsNotBackedUp(t *testing.T) {
	leaveOutForRaces(t)
	flipped := control(288)
	flipped[100] ^= 1
	for name, test := range map[string]struct {
		content []byte
		good    bool
	}{
		"of PostgreSQL 17": {control(288), true}, "of another version": {control(296), true}, "with a flipped bit": {flipped, false},
		"cut off": {control(288)[:4096], false}, "empty": {nil, false}, "of zeroes": {make([]byte, 8192), false},
	} {
		t.Run(name, func(t *testing.T) {
			store, dir := mem.New(), pgdata(t)
			write(t, dir, controlFile, test.content, 0o600)
			src := source(t, store, dir)
			src.CheckControl = true
			_, err := Write(t.Context(), store, src, Options{ID: "b1"})
			if (err == nil) != test.good || err != nil && !errors.Is(err, ErrControl) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// readSoFar is how many bytes this process has read with system calls.
func readSoFar(t *testing.T) int64 {
	t.Helper()
	content, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Skip("this system doesn't count what is read")
	}
	_, after, _ := strings.Cut(string(content), "rchar: ")
	n, err := strconv.ParseInt(strings.Fields(after)[0], 10, 64)
	must(t, err)
	return n
}

// File systems have reported holes where there was data, for files that had just been written.
func TestWhatTheFileSystemCallsAHoleIsRead(t *testing.T) {
	store, dir := mem.New(), pgdata(t)
	const size = 64 << 20
	write(t, dir, "base/5/30000", nil, 0o600)
	must(t, os.Truncate(filepath.Join(dir, "base/5/30000"), size))
	src := source(t, store, dir)
	before := readSoFar(t)
	_, err := Write(t.Context(), store, src, Options{ID: "b1"})
	must(t, err)
	if n := readSoFar(t) - before; n < size {
		t.Errorf("only %d MiB were read of a file of %d MiB", n>>20, size>>20)
	}
}
