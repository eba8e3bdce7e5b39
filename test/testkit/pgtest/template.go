package pgtest

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// initdb gives the server a data directory as initdb makes it. That takes two seconds of processor time, so it is done once for the same
// program and arguments; everybody gets a copy, with a system identifier of its own.
func (s *Server) initdb(args []string) {
	s.t.Helper()
	template := s.template(args)
	if out, err := exec.Command("cp", "-a", template, s.DataDir).CombinedOutput(); err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
	if err := identify(s.DataDir, rand.Uint64()>>1); err != nil {
		s.t.Fatal(err)
	}
}

// template is a data directory that nobody changes. It stays when the tests have ended, for the next ones.
func (s *Server) template(args []string) string {
	s.t.Helper()
	program := filepath.Join(s.BinDir, "initdb")
	info, err := os.Stat(program)
	if err != nil {
		s.t.Fatal(err)
	}
	name := fmt.Sprintf("howdah-initdb-%x", sha256.Sum256(fmt.Appendf(nil, "%s %s %d %s %q %d", program, s.Version, info.Size(), info.ModTime(), args, os.Geteuid())))[:30]
	template := filepath.Join(os.TempDir(), name)
	lock, err := os.Create(template + ".lock")
	if err != nil {
		s.t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		s.t.Fatal(err)
	}
	if _, err := os.Stat(template); err == nil {
		return template
	}
	s.Run(s.t, "initdb", append([]string{"--pgdata", s.DataDir}, args...)...)
	unfinished := template + ".new"
	if err := os.RemoveAll(unfinished); err != nil { // of a run that was killed
		s.t.Fatal(err)
	}
	if out, err := exec.Command("cp", "-a", s.DataDir, unfinished).CombinedOutput(); err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
	if err := errors.Join(os.Rename(unfinished, template), os.RemoveAll(s.DataDir)); err != nil {
		s.t.Fatal(err)
	}
	return template
}

// identify writes another system identifier where PostgreSQL keeps it: first in pg_control, and in the first page of each segment of WAL.
func identify(dataDir string, identifier uint64) error {
	path := filepath.Join(dataDir, "global", "pg_control")
	control, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	end, err := endOfControl(control)
	if err != nil {
		return err
	}
	binary.LittleEndian.PutUint64(control, identifier)
	binary.LittleEndian.PutUint32(control[end:], crc32.Checksum(control[:end], castagnoli))
	if err := os.WriteFile(path, control, 0o600); err != nil {
		return err
	}
	segments, err := filepath.Glob(filepath.Join(dataDir, "pg_wal", "[0-9A-F]*"))
	if err != nil {
		return err
	}
	for _, segment := range segments {
		if err := writeAt(segment, 24, binary.LittleEndian.AppendUint64(nil, identifier)); err != nil {
			return err
		}
	}
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// endOfControl is where the checksum of pg_control is, which depends on the version.
func endOfControl(control []byte) (int, error) {
	for end := 200; end < 512; end += 4 {
		if crc32.Checksum(control[:end], castagnoli) == binary.LittleEndian.Uint32(control[end:]) {
			return end, nil
		}
	}
	return 0, errors.New("pg_control has no checksum where one is expected")
}

func writeAt(path string, offset int64, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(content, offset)
	return errors.Join(err, f.Close())
}
