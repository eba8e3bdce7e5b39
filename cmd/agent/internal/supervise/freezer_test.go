//go:build postgres

package supervise

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// freezerSocket names the socket of a freezer.
const freezerSocket = "TEST_FREEZER"

// freezer is a file system whose disk can be made not to answer: whatever writes to it waits in the kernel, and can't be killed. Only
// root can make one, so the tests ask for it.
type freezer struct{ dir string }

const (
	freezerSize = 512 << 20
	// freezeLimit is how long one stays frozen if nobody thaws it: a test that waits for it in the kernel can't be ended.
	freezeLimit = 2 * time.Minute
	fiFreeze    = 0xc0045877 // FIFREEZE and FITHAW of linux/fs.h
	fiThaw      = 0xc0045878
)

// mountFreezer makes one and listens.
func mountFreezer() (unmount func()) {
	dir, err := os.MkdirTemp("", "freezer")
	if err != nil {
		fmt.Fprintln(os.Stderr, "no disk can be stalled:", err)
		return func() {}
	}
	f := freezer{dir}
	if err := f.mount(); err != nil {
		fmt.Fprintln(os.Stderr, "no disk can be stalled:", err)
		_ = os.RemoveAll(dir)
		return func() {}
	}
	listener, err := f.listen()
	if err != nil {
		fmt.Fprintln(os.Stderr, "no disk can be stalled:", err)
	}
	return func() {
		if listener != nil {
			listener.Close()
		}
		f.control(fiThaw)
		_ = unix.Unmount(f.folder(), unix.MNT_DETACH)
		_ = os.RemoveAll(dir)
	}
}

func (f freezer) folder() string { return filepath.Join(f.dir, "disk") }

func (f freezer) mount() error {
	image := filepath.Join(f.dir, "image")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		return err
	}
	if err := errors.Join(os.Truncate(image, freezerSize), os.Mkdir(f.folder(), 0o700), os.Chmod(f.dir, 0o755)); err != nil {
		return err
	}
	for _, command := range [][]string{{"mkfs.ext4", "-q", "-F", image}, {"mount", "-o", "loop", image, f.folder()}} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w: %s", command, err, out)
		}
	}
	return os.Chmod(f.folder(), 0o777)
}

func (f freezer) listen() (net.Listener, error) {
	path := filepath.Join(f.dir, "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			f.obey(conn)
		}
	}()
	return listener, errors.Join(os.Chmod(path, 0o777), os.Setenv(freezerSocket, path))
}

// obey one request, and say when it is done.
func (f freezer) obey(conn net.Conn) {
	defer conn.Close()
	word, _ := bufio.NewReader(conn).ReadString('\n')
	request := map[string]uint{"freeze\n": fiFreeze, "thaw\n": fiThaw}[word]
	f.control(request)
	if request == fiFreeze {
		time.AfterFunc(freezeLimit, func() { f.control(fiThaw) })
	}
	fmt.Fprintln(conn, "done")
}

func (f freezer) control(request uint) {
	folder, err := os.Open(f.folder())
	if err != nil {
		return
	}
	defer folder.Close()
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, folder.Fd(), uintptr(request), 0) // one that is thawed can't be thawed
}

// frozenVolume is a folder on a disk that freeze stalls, until thaw.
func frozenVolume(t *testing.T) (volume string, freeze, thaw func()) {
	t.Helper()
	socket := os.Getenv(freezerSocket)
	if socket == "" {
		t.Skip("needs root and a loop device, to make a disk that stalls")
	}
	tell := func(word string) {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintln(conn, word)
		if answer, err := bufio.NewReader(conn).ReadString('\n'); err != nil || answer != "done\n" {
			t.Fatalf("the disk can't be told to %s: %q, %v", word, answer, err)
		}
	}
	volume = filepath.Join(filepath.Dir(socket), "disk", "volume")
	t.Cleanup(func() { os.RemoveAll(volume) })
	thaw = sync.OnceFunc(func() { tell("thaw") })
	return volume, func() {
		tell("freeze")
		t.Cleanup(thaw) // before the agents end
	}, thaw
}
