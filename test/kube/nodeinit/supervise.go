package nodeinit

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// restartAfter is how long a failed process stays away: long enough not to spin, short enough not to be noticed.
const restartAfter = time.Second

// supervisor owns every process of the node. As the first process it reaps all of them, its own children and those
// that were re-parented to it, in one place: two callers of wait would steal each other's results.
type supervisor struct {
	config   Config
	log      *slog.Logger
	mutex    sync.Mutex
	services map[string]*service // all of them, from before the first starts
	byPID    map[int]*service
}

// service is a process of the config.
type service struct {
	process Process
	wanted  bool
	pid     int // 0 while it doesn't run
	gone    chan struct{}
}

func supervise(ctx context.Context, config Config) error {
	s := &supervisor{
		config:   config,
		log:      slog.New(slog.NewJSONHandler(os.Stderr, nil)),
		services: map[string]*service{},
		byPID:    map[int]*service{},
	}
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	for _, process := range config.Processes {
		s.services[process.Name] = &service{process: process, wanted: true}
	}
	for name := range s.services {
		go s.startBehindGate(ctx, name)
	}
	failed := make(chan error, 1)
	go func() { failed <- s.listen(ctx) }()
	for {
		select {
		case <-children:
			s.reap(ctx)
		case err := <-failed:
			return err
		}
	}
}

// startBehindGate starts a process as soon as what it needs answers.
func (s *supervisor) startBehindGate(ctx context.Context, name string) {
	s.mutex.Lock()
	gate := s.services[name].process.After
	s.mutex.Unlock()
	if err := gate.wait(ctx); err != nil {
		s.log.Error("gate", "process", name, "error", err)
		return
	}
	if err := s.start(name); err != nil {
		s.log.Error("start", "process", name, "error", err)
	}
}

// start starts a process if it is wanted and doesn't run. The lock is held while it forks, so that reap never meets
// a child that is not known yet.
func (s *supervisor) start(name string) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	service := s.services[name]
	if service == nil || !service.wanted || service.pid != 0 {
		return nil
	}
	pid, err := s.fork(service.process)
	if err != nil {
		return err
	}
	service.pid, service.gone = pid, make(chan struct{})
	s.byPID[pid] = service
	s.log.Info("started", "process", name, "pid", pid)
	return nil
}

func (s *supervisor) fork(process Process) (int, error) {
	program, err := exec.LookPath(process.Args[0])
	if err != nil {
		return 0, err
	}
	log, err := os.OpenFile(filepath.Join(s.config.LogDir, process.Name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	return syscall.ForkExec(program, process.Args, &syscall.ProcAttr{
		Dir:   "/",
		Env:   os.Environ(),
		Files: []uintptr{0, log.Fd(), log.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
}

func (s *supervisor) reap(ctx context.Context) {
	for {
		var status syscall.WaitStatus
		s.mutex.Lock()
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			s.mutex.Unlock()
			continue
		}
		if err != nil || pid <= 0 {
			s.mutex.Unlock()
			return
		}
		if ended := s.byPID[pid]; ended != nil {
			delete(s.byPID, pid)
			ended.pid = 0
			close(ended.gone)
			s.log.Info("ended", "process", ended.process.Name, "pid", pid, "status", int(status), "restart", ended.wanted)
			if ended.wanted {
				time.AfterFunc(restartAfter, func() { s.startBehindGate(ctx, ended.process.Name) })
			}
		}
		s.mutex.Unlock()
	}
}

// stop kills a process and returns when it is gone.
func (s *supervisor) stop(ctx context.Context, name string) error {
	s.mutex.Lock()
	service := s.services[name]
	if service == nil {
		s.mutex.Unlock()
		return fmt.Errorf("no process %q on this node", name)
	}
	service.wanted = false
	pid, gone := service.pid, service.gone
	if pid != 0 {
		// Under the lock the number can't have been reaped and given to somebody else.
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	s.mutex.Unlock()
	if pid == 0 {
		return nil
	}
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// resume starts a process that stop stopped.
func (s *supervisor) resume(name string) error {
	s.mutex.Lock()
	service := s.services[name]
	if service == nil {
		s.mutex.Unlock()
		return fmt.Errorf("no process %q on this node", name)
	}
	service.wanted = true
	s.mutex.Unlock()
	return s.start(name)
}
