// Package walsocket is how archive_command and restore_command reach the process that knows the archive: the running
// agent, or a restore's worker. Each call is one connection to a local socket, with one line of JSON there and back.
package walsocket

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Name of the socket in its folder, which is agentapi.SocketDir in a pod.
const Name = ".howdah-wal.sock"

// ErrNotArchived says that the archive doesn't hold the file that was asked for.
var ErrNotArchived = errors.New("not in the archive")

// ErrGivenUp says that a file is not archived and that the server shall not ask again, as it ends.
var ErrGivenUp = errors.New("not archived by a server that ends")

// Handler does what is asked for. Both methods may be called at the same time.
type Handler interface {
	// Archive returns nil once the file at path is safe in the archive, and ErrGivenUp if that is not waited for.
	Archive(ctx context.Context, path string) error
	// Fetch puts a file of the archive at path. ErrNotArchived means that there is none, and nothing else: recovery
	// takes it for the archive's end.
	Fetch(ctx context.Context, name, path string) error
}

const (
	archive = "archive"
	fetch   = "fetch"

	maxLine     = 16 << 10
	connectTime = 10 * time.Second
)

type request struct {
	Do   string `json:"do"`
	Name string `json:"name,omitempty"`
	Path string `json:"path"` // absolute
}

type answer struct {
	Error       string `json:"error,omitempty"`
	NotArchived bool   `json:"notArchived,omitempty"`
	GivenUp     bool   `json:"givenUp,omitempty"`
}

// Archive asks the process behind the socket in dir to archive the file at path. ErrGivenUp: it is not to be asked again.
func Archive(ctx context.Context, dir, path string) error {
	return call(ctx, dir, request{Do: archive, Path: path})
}

// Fetch asks the process behind the socket in dir to put an archived file at path. ErrNotArchived: there is none.
func Fetch(ctx context.Context, dir, name, path string) error {
	return call(ctx, dir, request{Do: fetch, Name: name, Path: path})
}

func call(ctx context.Context, dir string, r request) error {
	path, err := filepath.Abs(r.Path)
	if err != nil {
		return err
	}
	r.Path = path
	dialer := net.Dialer{Timeout: connectTime}
	conn, err := dialer.DialContext(ctx, "unix", filepath.Join(dir, Name))
	if err != nil {
		return fmt.Errorf("the agent doesn't respond: %w", err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if err := json.NewEncoder(conn).Encode(r); err != nil {
		return fmt.Errorf("ask the agent: %w", err)
	}
	var a answer
	if err := json.NewDecoder(io.LimitReader(conn, maxLine)).Decode(&a); err != nil {
		return fmt.Errorf("the agent ended before it answered: %w", err)
	}
	switch {
	case a.NotArchived:
		return fmt.Errorf("%s: %w", r.Name, ErrNotArchived)
	case a.GivenUp:
		return fmt.Errorf("%s: %w", filepath.Base(r.Path), ErrGivenUp)
	case a.Error != "":
		return errors.New(a.Error)
	}
	return nil
}

// Listen makes the socket in dir. What a dead process left there is replaced. Only processes of the same user are
// answered.
func Listen(dir string) (net.Listener, error) {
	path := filepath.Join(dir, Name)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		listener.Close()
		return nil, err
	}
	return listener, nil
}

// Serve answers until ctx ends, and then closes the listener. What is being done is told that ctx has ended.
func Serve(ctx context.Context, listener net.Listener, handler Handler) error {
	stop := context.AfterFunc(ctx, func() { listener.Close() })
	defer stop()
	for {
		conn, err := listener.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("local socket: %w", err)
		}
		go serve(ctx, conn.(*net.UnixConn), handler)
	}
}

func serve(ctx context.Context, conn *net.UnixConn, handler Handler) {
	defer conn.Close()
	a := answer{}
	if err := serveOne(ctx, conn, handler); err != nil {
		a = answer{Error: err.Error(), NotArchived: errors.Is(err, ErrNotArchived), GivenUp: errors.Is(err, ErrGivenUp)}
	}
	_ = json.NewEncoder(conn).Encode(a) // who asked may be gone
}

func serveOne(ctx context.Context, conn *net.UnixConn, handler Handler) error {
	if err := sameUser(conn); err != nil {
		return err
	}
	_ = conn.SetReadDeadline(time.Now().Add(connectTime))
	line, err := bufio.NewReader(io.LimitReader(conn, maxLine)).ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read the request: %w", err)
	}
	var r request
	if err := json.Unmarshal(line, &r); err != nil {
		return fmt.Errorf("read the request: %w", err)
	}
	switch {
	case !filepath.IsAbs(r.Path):
		return fmt.Errorf("path %q is not absolute", r.Path)
	case r.Do == archive:
		return handler.Archive(ctx, r.Path)
	case r.Do == fetch:
		return handler.Fetch(ctx, r.Name, r.Path)
	}
	return fmt.Errorf("unknown request %q", r.Do)
}

// sameUser refuses other users of the pod: who can read WAL can read everything.
func sameUser(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	var errPeer error
	if err := raw.Control(func(fd uintptr) { peer, errPeer = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return err
	}
	if errPeer != nil {
		return errPeer
	}
	if int(peer.Uid) != os.Geteuid() {
		return fmt.Errorf("user %d may not ask", peer.Uid)
	}
	return nil
}
