package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// server is an API server with an etcd in memory.
type server struct {
	environment *envtest.Environment
	config      *rest.Config
	kubeconfig  string
	folder      string
	// second is the API server after the first one was killed; nil: it was not.
	second *exec.Cmd
}

func startServer() (*server, error) {
	folder, err := os.MkdirTemp("/dev/shm", "howdah-scale-")
	if err != nil {
		return nil, err
	}
	e := &envtest.Environment{
		CRDDirectoryPaths: []string{filepath.Join("config", "crd")}, ErrorIfCRDPathMissing: true,
		ControlPlaneStartTimeout: 3 * time.Minute, ControlPlaneStopTimeout: time.Minute,
	}
	e.ControlPlane.GetAPIServer().Configure().Set("service-cluster-ip-range", "10.96.0.0/12").Set("advertise-address", "10.255.255.254").
		Set("max-requests-inflight", "2000").Set("max-mutating-requests-inflight", "1000")
	e.ControlPlane.Etcd = &envtest.Etcd{DataDir: filepath.Join(folder, "etcd")}
	e.ControlPlane.Etcd.Configure().Set("quota-backend-bytes", "8000000000").Set("unsafe-no-fsync", "true")
	if err := os.Mkdir(filepath.Join(folder, "etcd"), 0o700); err != nil {
		return nil, err
	}
	config, err := e.Start()
	if err != nil {
		return nil, fmt.Errorf("start the API server: %w", err)
	}
	config.QPS, config.Burst = 2000, 4000
	s := &server{environment: e, config: config, folder: folder, kubeconfig: filepath.Join(folder, "kubeconfig")}
	return s, os.WriteFile(s.kubeconfig, e.KubeConfig, 0o600)
}

func (s *server) stop() {
	if s.second != nil {
		_ = s.second.Process.Kill()
		_ = s.second.Wait()
	}
	if err := s.environment.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "scale: stop the API server:", err)
	}
	os.RemoveAll(s.folder)
}

// leave kills the API server, starts it again after a while, and waits until it serves.
func (s *server) leave(ctx context.Context, d time.Duration) error {
	pid, err := child("kube-apiserver")
	if err != nil {
		return err
	}
	command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return err
	}
	if s.second != nil {
		_ = s.second.Wait()
	}
	if err := pause(ctx, d); err != nil {
		return err
	}
	argv := strings.Split(strings.TrimSuffix(string(command), "\x00"), "\x00")
	s.second = exec.Command(argv[0], argv[1:]...)
	s.second.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.second.Start(); err != nil {
		return err
	}
	return s.awaitReady(ctx)
}

// child is the process of this name that this one has started.
func child(name string) (int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		end := bytes.LastIndexByte(stat, ')')
		begin := bytes.IndexByte(stat, '(')
		if begin < 0 || end < begin {
			continue
		}
		fields := strings.Fields(string(stat[end+1:]))
		// Kubernetes' names are longer than the kernel keeps.
		if len(fields) > 1 && strings.HasPrefix(name, string(stat[begin+1:end])) && fields[0] != "Z" && fields[1] == strconv.Itoa(os.Getpid()) {
			return strconv.Atoi(filepath.Base(filepath.Dir(path)))
		}
	}
	return 0, fmt.Errorf("no %s was started by this process", name)
}

func (s *server) awaitReady(ctx context.Context) error {
	asker, err := rest.HTTPClientFor(s.config)
	if err != nil {
		return err
	}
	defer asker.CloseIdleConnections()
	url := s.environment.ControlPlane.GetAPIServer().SecureServing.URL("https", "/readyz").String()
	deadline := time.Now().Add(s.environment.ControlPlaneStartTimeout)
	for time.Now().Before(deadline) {
		if ready(ctx, asker, url) {
			return nil
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	return errors.New("the API server does not become ready again")
}

func ready(ctx context.Context, asker *http.Client, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	response, err := asker.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}
