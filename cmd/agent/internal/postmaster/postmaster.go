// Package postmaster runs one PostgreSQL server as a child: it starts it, relays its log, tells when it ended, and sees
// to it that nothing of it is left before the next one starts.
package postmaster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/child"
	"howdah.dev/howdah/pkg/postgres"
)

// Spec says what to start.
type Spec struct {
	BinDir string
	PGData string
	// Args for the program, besides -D.
	Args []string
	// Socket is the path of the Unix socket; empty: it is not looked at.
	Socket string
	// Lock is handed down to every process of the server; see generation.Volume.Lock.
	Lock *os.File
	// LDAPConfFile is what each server process reads after the image's own ldap.conf, when a client logs in at a directory; empty: nothing.
	LDAPConfFile string
	// Log takes the server's messages, without literals of SQL unless Literals says that they are wanted. nil: they never are.
	Log      *slog.Logger
	Literals func() bool
}

// Server is a running, or ended, postmaster.
type Server struct {
	spec  Spec
	cmd   *exec.Cmd
	relay *relay
	done  chan struct{} // closed when the postmaster has ended
	err   error         // how it ended; valid once done is closed
}

// environment of the server. A variable that the pod has for libldap stays. LDAPTLS_CACERT would go before the image's ldap.conf also where
// there are no CAs of a person's own, and can't change while the server runs.
func environment(pod []string, ldapConf string) []string {
	const variable = "LDAPCONF="
	own := []string{"LC_ALL=C", "PGTZ=UTC", "TZ=UTC"}
	if ldapConf != "" && !slices.ContainsFunc(pod, func(set string) bool { return strings.HasPrefix(set, variable) }) {
		own = append(own, variable+ldapConf)
	}
	return append(slices.Clone(pod), own...)
}

// Start starts the server. Nobody else may run one on this data directory, which the lock in spec guarantees; what a
// dead one left there is removed first.
func Start(spec Spec) (*Server, error) {
	if err := errors.Join(RemoveStalePID(spec.PGData), removeStaleLock(spec.Socket)); err != nil {
		return nil, err
	}
	cmd := exec.Command(filepath.Join(spec.BinDir, "postgres"), append([]string{"-D", spec.PGData}, spec.Args...)...)
	cmd.Dir = spec.PGData // where it goes by itself: who kills all that works there must not miss one that has just begun
	cmd.Env = environment(os.Environ(), spec.LDAPConfFile)
	// A group of its own, so that no signal to the agent's group reaches it; and no server outlives its agent.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGQUIT}
	if spec.Lock != nil {
		cmd.ExtraFiles = []*os.File{spec.Lock}
	}
	s := &Server{spec: spec, cmd: cmd, done: make(chan struct{})}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = write, write
	err = child.Start(cmd, func(err error) {
		s.err = err
		close(s.done)
	})
	write.Close()
	if err != nil {
		read.Close()
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	s.relay = startRelay(read, spec.Log, spec.Literals, newLimit())
	return s, nil
}

// Done is closed when the postmaster has ended.
func (s *Server) Done() <-chan struct{} { return s.done }

// PID of the postmaster.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Ended says how the postmaster ended, once Done is closed: nil after a clean shutdown.
func (s *Server) Ended() error { return s.err }

// Complaint is the last message of the server that says why it can't continue, or empty.
func (s *Server) Complaint() string { return s.relay.complaint() }

// Accepting says whether the server accepts connections by now.
func (s *Server) Accepting() bool {
	content, err := os.ReadFile(filepath.Join(s.spec.PGData, "postmaster.pid"))
	if err != nil {
		return false
	}
	pid, err := postgres.ParsePostmasterPID(content)
	return err == nil && pid.PID == s.PID() && pid.Accepting()
}

// Reload makes the server read its configuration again.
func (s *Server) Reload() error { return s.signal(syscall.SIGHUP) }

func (s *Server) signal(sig syscall.Signal) error {
	err := s.cmd.Process.Signal(sig)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// Stop shuts the server down fast: sessions are ended, everything is written, WAL is archived, the replicas get all of it, and so do
// other clients of replication unless that takes long. When patience ends the server is stopped immediately, which the next start
// recovers from. It returns nil after a clean shutdown.
func (s *Server) Stop(patience context.Context) error {
	if err := s.signal(syscall.SIGINT); err != nil {
		return err
	}
	go s.endReceivers()
	select {
	case <-s.done:
	case <-patience.Done():
		if err := s.signal(syscall.SIGQUIT); err != nil {
			return err
		}
		s.awaitQuit()
	}
	return s.finish()
}

// quitTime is how long a postmaster may take to end at once.
const quitTime = 3 * time.Second

func (s *Server) awaitQuit() {
	select {
	case <-s.done:
	case <-time.After(quitTime):
		_ = s.signal(syscall.SIGKILL) // it is gone, or cleanUp finds what is left
		<-s.done
	}
}

// finish waits for what is left of the server after its postmaster.
func (s *Server) finish() error {
	<-s.done
	return errors.Join(s.err, s.CleanUp())
}

// CleanUp kills the processes that a dead postmaster left behind, and waits until they are gone and the log is relayed.
// They would hold the shared memory that the next server must not share.
func (s *Server) CleanUp() error {
	<-s.done
	deadline := time.Now().Add(orphanTime)
	for {
		left, err := orphansIn(s.spec.PGData)
		if err != nil {
			return err
		}
		if len(left) == 0 {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d processes of the former server don't end", len(left))
		}
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may be gone by itself
		}
		time.Sleep(20 * time.Millisecond)
	}
	s.relay.wait(time.Second)
	return nil
}

const orphanTime = 30 * time.Second

// RemoveStalePID removes the postmaster.pid of a server that is dead: after a crash of the container its process id
// may be that of anything. A live server on this very directory is refused.
func RemoveStalePID(pgdata string) error {
	path := filepath.Join(pgdata, "postmaster.pid")
	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if pid, err := postgres.ParsePostmasterPID(content); err == nil && worksIn(max(pid.PID, -pid.PID), pgdata) {
		return fmt.Errorf("another PostgreSQL (process %d) runs on %s", pid.PID, pgdata)
	}
	return os.Remove(path)
}

// removeStaleLock removes the lock of a socket whose server is dead. It outlives a container that was killed, as
// postmaster.pid does; PostgreSQL would take any process with that number for the server.
func removeStaleLock(socket string) error {
	if socket == "" {
		return nil
	}
	path := socket + ".lock"
	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if pid, err := postgres.ParsePostmasterPID(content); err == nil && worksIn(max(pid.PID, -pid.PID), pid.DataDir) {
		return fmt.Errorf("another PostgreSQL (process %d, on %s) has the socket %s", pid.PID, pid.DataDir, socket)
	}
	return os.Remove(path)
}

// Frozen says whether the postmaster was stopped by a signal: its sessions continue, and nobody new gets in.
func (s *Server) Frozen() bool {
	state, _, err := readStat(s.PID())
	return err == nil && state == "T"
}

// Kill kills the postmaster, and leaves its processes to whoever notices.
func (s *Server) Kill() error { return s.signal(syscall.SIGKILL) }

// Freeze stops the postmaster by a signal, until a limit at most: then it continues, unless it has ended. Should this process end before,
// the container ends with it, and outside of one the watchdog kills the server.
func (s *Server) Freeze(limit time.Duration) error {
	if err := s.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	time.AfterFunc(limit, func() { _ = s.signal(syscall.SIGCONT) })
	return nil
}
