package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/objstore"
)

const (
	// bucketAddress of MinIO: no cluster has that.
	bucketAddress = "10.255.255.253"
	bucketPort    = 9000
	bucketName    = "scale"
	repository    = "repo"
)

// bucket is a MinIO that this program has started.
type bucket struct {
	cmd       *exec.Cmd
	folder    string
	authority string
	secret    string
}

// ensureBucket starts MinIO, unless it runs already.
func (b *bench) ensureBucket(ctx context.Context) error {
	if b.bucket != nil {
		return nil
	}
	made := &bucket{folder: filepath.Join(b.settings.binaries, "..", "scale-minio"), secret: rand.Text()}
	if err := os.RemoveAll(made.folder); err != nil {
		return err
	}
	// A folder beside MinIO's own is a bucket.
	for _, folder := range []string{filepath.Join("data", bucketName), "certs"} {
		if err := os.MkdirAll(filepath.Join(made.folder, folder), 0o755); err != nil {
			return err
		}
	}
	certificate, key, err := cert.GenerateSelfSignedCertKey(bucketAddress, nil, nil)
	if err != nil {
		return err
	}
	made.authority = string(certificate)
	if err := os.WriteFile(filepath.Join(made.folder, "certs", "public.crt"), certificate, 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(made.folder, "certs", "private.key"), key, 0o600); err != nil {
		return err
	}
	if err := made.launch(b.settings.minio); err != nil {
		return fmt.Errorf("start MinIO: %w", err)
	}
	b.bucket = made
	_, err = b.await(ctx, "MinIO responds; it says why in scale-minio.log", func() bool {
		connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", fmt.Sprintf("%s:%d", bucketAddress, bucketPort))
		if err == nil {
			connection.Close()
		}
		return err == nil
	})
	return err
}

func (m *bucket) launch(program string) error {
	log, err := os.Create(filepath.Join(m.folder, "..", "logs", "scale-minio.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	m.cmd = exec.Command(program, "server", filepath.Join(m.folder, "data"), "--address", fmt.Sprintf("%s:%d", bucketAddress, bucketPort),
		"--certs-dir", filepath.Join(m.folder, "certs"), "--quiet")
	m.cmd.Env = append(os.Environ(), "MINIO_ROOT_USER=howdahscale", "MINIO_ROOT_PASSWORD="+m.secret, "MINIO_BROWSER=off", "MINIO_UPDATE=off")
	m.cmd.Stdout, m.cmd.Stderr = log, log
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return m.cmd.Start()
}

func (m *bucket) stop() {
	if m == nil {
		return
	}
	_ = m.cmd.Process.Kill() // it holds nothing that is needed again
	_ = m.cmd.Wait()
	os.RemoveAll(m.folder)
}

// makeRepositories creates a BackupRepository in each of the namespaces that has none, and waits until all are Ready.
func (b *bench) makeRepositories(ctx context.Context, namespaces []string) error {
	if err := b.ensureBucket(ctx); err != nil {
		return err
	}
	err := each(ctx, len(namespaces), func(ctx context.Context, i int) error {
		where := metav1.ObjectMeta{Namespace: namespaces[i], Name: repository}
		secret := &corev1.Secret{ObjectMeta: where, StringData: map[string]string{
			objstore.AccessKeyIDFile: "howdahscale", objstore.SecretAccessKeyFile: b.bucket.secret,
		}}
		repo := &v1alpha1.BackupRepository{ObjectMeta: where, Spec: v1alpha1.BackupRepositorySpec{S3: v1alpha1.S3Spec{
			Endpoint: fmt.Sprintf("https://%s:%d", bucketAddress, bucketPort), Bucket: bucketName, Prefix: namespaces[i],
			CABundle: b.bucket.authority, Credentials: &v1alpha1.S3Credentials{SecretName: repository},
		}}}
		for _, object := range []client.Object{secret, repo} {
			if err := b.live.Create(ctx, object); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	_, err = b.await(ctx, "all BackupRepositories are Ready", func() bool {
		repositories, readyOnes := &v1alpha1.BackupRepositoryList{}, 0
		if b.client.List(ctx, repositories, client.UnsafeDisableDeepCopy) != nil {
			return false
		}
		for i := range repositories.Items {
			if meta.IsStatusConditionTrue(repositories.Items[i].Status.Conditions, v1alpha1.ConditionReady) {
				readyOnes++
			}
		}
		return readyOnes > 0 && readyOnes == len(repositories.Items)
	})
	return err
}
