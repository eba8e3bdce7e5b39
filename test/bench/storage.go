package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/open"
)

const (
	bucket    = "bench"
	region    = "us-east-1"
	accessKey = "howdahbench"
)

// storage is a MinIO that this program has started.
type storage struct {
	address string
	caFile  string
	secret  string
	cmd     *exec.Cmd
	store   objstore.Store
}

// startStorage starts a MinIO with an empty bucket.
func (b *bench) startStorage(ctx context.Context) (*storage, error) {
	folder := filepath.Join(b.folder, "minio")
	if err := os.RemoveAll(folder); err != nil {
		return nil, err
	}
	// A folder beside MinIO's own is a bucket.
	if err := os.MkdirAll(filepath.Join(folder, "data", bucket), 0o755); err != nil {
		return nil, err
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	s := &storage{address: address, secret: rand.Text(), caFile: filepath.Join(folder, "certs", "public.crt")}
	if err := makeCertificate(filepath.Join(folder, "certs")); err != nil {
		return nil, err
	}
	if err := os.Chmod(b.folder, 0o755); err != nil { // others than root read the certificate
		return nil, err
	}
	if err := s.launch(b.minio, folder); err != nil {
		return nil, err
	}
	if s.store, err = open.Open(ctx, s.config("")); err == nil {
		_, err = s.store.Stat(ctx, "nothing") // with retries, until it answers
	}
	if !errors.Is(err, objstore.ErrNotFound) {
		s.stop()
		return nil, fmt.Errorf("MinIO doesn't respond: %w", err)
	}
	return s, nil
}

func (s *storage) launch(program, folder string) error {
	log, err := os.Create(filepath.Join(folder, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	s.cmd = exec.Command(program, "server", filepath.Join(folder, "data"), "--address", s.address,
		"--certs-dir", filepath.Join(folder, "certs"), "--quiet")
	s.cmd.Env = append(os.Environ(), "MINIO_ROOT_USER="+accessKey, "MINIO_ROOT_PASSWORD="+s.secret, "MINIO_BROWSER=off", "MINIO_UPDATE=off")
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return s.cmd.Start()
}

func (s *storage) stop() {
	_ = s.cmd.Process.Kill() // it holds nothing that is needed again
	_ = s.cmd.Wait()
}

// config is how our own worker comes to the store, and this program to count.
func (s *storage) config(prefix string) objstore.Config {
	authority, _ := os.ReadFile(s.caFile) // without it nothing is trusted, which shows at once
	return objstore.Config{
		Driver: setting("DRIVER", objstore.DriverMinIO), Endpoint: "https://" + s.address, Region: region, Bucket: bucket,
		PathStyle: true, Prefix: prefix, CABundle: string(authority),
		Credentials: &objstore.Credentials{AccessKeyID: accessKey, SecretAccessKey: s.secret},
	}
}

// count leaves out WAL, which others archive beside a backup, unless it is what is counted.
func (s *storage) count(ctx context.Context, prefix string, wal bool) (bytes int64, objects int, err error) {
	for info, err := range s.store.List(ctx, prefix, "") {
		if err != nil {
			return 0, 0, err
		}
		if wal || !strings.Contains(info.Key, "/wal/") {
			bytes, objects = bytes+info.Size, objects+1
		}
	}
	return bytes, objects, nil
}

// clear empties the bucket.
func (s *storage) clear(ctx context.Context, prefix string) error {
	var keys []string
	for info, err := range s.store.List(ctx, prefix, "") {
		if err != nil {
			return err
		}
		keys = append(keys, info.Key)
	}
	return s.store.Delete(ctx, keys...)
}

// freeAddress is one that nobody listens at.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		return "", err
	}
	// By name: pgBackRest finds no addresses in certificates.
	return fmt.Sprintf("localhost:%d", listener.Addr().(*net.TCPAddr).Port), listener.Close()
}

// makeCertificate makes one for this machine that vouches for itself.
func makeCertificate(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(0, 0, 7),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost"},
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := writePEM(filepath.Join(folder, "public.crt"), "CERTIFICATE", certificate, 0o644); err != nil {
		return err
	}
	return writePEM(filepath.Join(folder, "private.key"), "PRIVATE KEY", secret, 0o600)
}

func writePEM(path, kind string, content []byte, mode os.FileMode) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), mode)
}
