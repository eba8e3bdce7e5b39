package pgtest

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"howdah.dev/howdah/pkg/postgres"
)

// Exec is postgres.Exec, but for initdb: what that makes is a copy of what it made before with the same arguments, with a system identifier
// of its own. initdb takes two seconds of processor time, a copy a tenth of one.
func Exec(ctx context.Context, name string, args ...string) ([]byte, error) {
	const dataDir = "--pgdata"
	at := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, dataDir) })
	if filepath.Base(name) != "initdb" || at < 0 {
		return postgres.Exec(ctx, name, args...)
	}
	target, joined := strings.CutPrefix(args[at], dataDir+"=")
	others := slices.Delete(slices.Clone(args), at, at+1)
	if !joined {
		target, others = args[at+1], slices.Delete(others, at, at+1)
	}
	return nil, initialize(target, name, others, os.Geteuid(), func() error {
		_, err := postgres.Exec(ctx, name, args...)
		return err
	})
}

// initdb gives the server a data directory as initdb makes it.
func (s *Server) initdb(args []string) {
	s.t.Helper()
	owner := os.Geteuid()
	if who := unprivileged(s.t); who != nil {
		owner = int(who.Uid)
	}
	err := initialize(s.DataDir, filepath.Join(s.BinDir, "initdb"), args, owner, func() error {
		s.Run(s.t, "initdb", append([]string{"--pgdata", s.DataDir}, args...)...)
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// initialize makes a data directory from a template. run makes that with initdb where it isn't there yet, in the place of the data
// directory. The template stays when the tests have ended, for the next ones of the same owner: the user postgres of an image has another
// number than this machine's.
func initialize(dataDir, program string, args []string, owner int, run func() error) error {
	info, err := os.Stat(program)
	if err != nil {
		return err
	}
	key := sha256.Sum256(fmt.Appendf(nil, "%s %d %s %q %d %d", program, info.Size(), info.ModTime(), args, os.Geteuid(), owner))
	template := filepath.Join(os.TempDir(), fmt.Sprintf("howdah-initdb-%x", key[:8]))
	lock, err := os.Create(template + ".lock")
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	if _, err := os.Stat(template); err != nil {
		unfinished := template + ".new"
		err := errors.Join(os.RemoveAll(unfinished), run()) // the former of a run that was killed
		if err != nil {
			return err
		}
		return errors.Join(copyTree(dataDir, unfinished), os.Rename(unfinished, template))
	}
	return errors.Join(copyTree(template, dataDir), identify(dataDir, rand.Uint64()>>1))
}

// copyTree makes to what from is, with owners. to may be an empty folder.
func copyTree(from, to string) error {
	if out, err := exec.Command("cp", "-aT", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
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
