package main

import (
	"fmt"
	"os"
	"path/filepath"
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
	if err := s.environment.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "scale: stop the API server:", err)
	}
	os.RemoveAll(s.folder)
}
