package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
)

const (
	repository = "minio"
	fromImage  = "registry.local/postgresql:15"
	// scaleFactor of pgbench: 100,000 accounts each.
	scaleFactor = 5
)

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: namespace}
}

// clear deletes what an earlier run left, in an order in which nothing has to wait for what is already gone.
func (s *story) clear(ctx context.Context) error {
	for _, list := range []client.ObjectList{
		&v1alpha1.UpgradeList{}, &v1alpha1.RestoreList{}, &v1alpha1.BackupScheduleList{}, &v1alpha1.PostgresClusterList{},
		&v1alpha1.BackupList{}, &v1alpha1.BackupRepositoryList{},
	} {
		if err := s.deleteAll(ctx, list); err != nil {
			return err
		}
	}
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := client.IgnoreNotFound(s.kube.Delete(ctx, space)); err != nil {
		return err
	}
	return s.awaitGone(ctx, space)
}

func (s *story) deleteAll(ctx context.Context, list client.ObjectList) error {
	if err := s.kube.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return err
	}
	var objects []client.Object
	err := meta.EachListItem(list, func(item runtime.Object) error {
		object := item.(client.Object)
		objects = append(objects, object)
		s.say("delete %s %s", kindOf(object), object.GetName())
		return client.IgnoreNotFound(s.kube.Delete(ctx, object))
	})
	if err != nil {
		return err
	}
	for _, object := range objects {
		if err := s.awaitGone(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

func (s *story) makeRepository(ctx context.Context) error {
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{
		"pod-security.kubernetes.io/enforce": "restricted",
	}}}
	secret := &corev1.Secret{ObjectMeta: named(repository), StringData: map[string]string{
		"AWS_ACCESS_KEY_ID":     s.storeEnv["AWS_ACCESS_KEY_ID"],
		"AWS_SECRET_ACCESS_KEY": s.storeEnv["AWS_SECRET_ACCESS_KEY"],
	}}
	authority, err := os.ReadFile(s.storeEnv["S3_CA_FILE"])
	if err != nil {
		return err
	}
	repo := &v1alpha1.BackupRepository{ObjectMeta: named(repository), Spec: v1alpha1.BackupRepositorySpec{S3: v1alpha1.S3Spec{
		Client: v1alpha1.S3ClientMinio, Endpoint: s.storeEnv["S3_ENDPOINT"], Region: s.storeEnv["AWS_REGION"],
		Bucket: s.storeEnv["S3_BUCKET"], Prefix: "demo/", CABundle: string(authority),
		Credentials: &v1alpha1.S3Credentials{SecretName: repository},
	}}}
	for _, object := range []client.Object{space, secret, repo} {
		if err := s.kube.Create(ctx, object); err != nil {
			return err
		}
	}
	return s.await(ctx, repo, v1alpha1.ConditionReady)
}

func (s *story) makeShop(ctx context.Context) error {
	shop := &v1alpha1.PostgresCluster{ObjectMeta: named("shop"), Spec: v1alpha1.PostgresClusterSpec{
		Version: 15,
		Storage: v1alpha1.StorageSpec{Size: resource.MustParse("2Gi")},
		PostgreSQL: v1alpha1.PostgreSQLSpec{Parameters: map[string]v1alpha1.ParameterValue{
			"shared_buffers": "128MB", "max_wal_size": "1GB",
			"archive_timeout": "10s", // so that the mistake is in the bucket soon, and with it the way to before it
		}},
		Bootstrap: &v1alpha1.Bootstrap{Initdb: &v1alpha1.BootstrapInitdb{Database: "shop", Owner: "shop"}},
		Archive: &v1alpha1.ArchiveSpec{
			Repository: v1alpha1.LocalReference{Name: repository}, WALShipIntervalSeconds: ptr.To[int32](2), // the restore need not wait for a whole segment
		},
		// The demo begins anew each time and wants nothing back.
		DeletionPolicy: v1alpha1.DeletionPolicy{FinalBackup: ptr.To(false), Volumes: v1alpha1.VolumesDelete},
	}}
	if err := s.kube.Create(ctx, shop); err != nil {
		return err
	}
	if err := s.await(ctx, shop, v1alpha1.ConditionReady); err != nil {
		return err
	}
	return s.makeClient(ctx, "shop")
}

func (s *story) makeClient(ctx context.Context, cluster string) error {
	if err := s.kube.Create(ctx, clientPod(cluster, fromImage)); err != nil {
		return err
	}
	return s.awaitPod(ctx, cluster+"-client")
}

func (s *story) load(ctx context.Context) error {
	if _, err := s.inClient(ctx, "shop", "pgbench", "-q", "-i", "-s", fmt.Sprint(scaleFactor)); err != nil {
		return err
	}
	if _, err := s.sql(ctx, "shop", "CREATE TABLE notes (id bigint PRIMARY KEY, written timestamptz DEFAULT clock_timestamp())"); err != nil {
		return err
	}
	count, err := s.sql(ctx, "shop", "SELECT count(*) FROM pgbench_accounts")
	s.say("%s accounts", count)
	return err
}

// backUp backs up while pgbench writes.
func (s *story) backUp(ctx context.Context) error {
	writing, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		_, err := s.inClient(writing, "shop", "sh", "-c", "while [ ! -e /tmp/enough ]; do pgbench -n -c 4 -T 1 >/dev/null || exit 1; done")
		done <- err
	}()
	defer stop()
	backup := &v1alpha1.Backup{ObjectMeta: named("shop-first"), Spec: v1alpha1.BackupSpec{Cluster: v1alpha1.LocalReference{Name: "shop"}}}
	if err := s.kube.Create(ctx, backup); err != nil {
		return err
	}
	if err := s.await(ctx, backup, v1alpha1.ConditionSucceeded); err != nil {
		return err
	}
	if _, err := s.inClient(ctx, "shop", "touch", "/tmp/enough"); err != nil {
		return err
	}
	if err := <-done; err != nil {
		return fmt.Errorf("pgbench, while the backup was taken: %w", err)
	}
	written, err := s.sql(ctx, "shop", "SELECT count(*) FROM pgbench_history")
	s.say("%d bytes of files are %d bytes in the bucket; %s transactions were written meanwhile",
		backup.Status.LogicalBytes, backup.Status.StoredBytes, written)
	return err
}

func (s *story) writeOn(ctx context.Context) (err error) {
	if _, err := s.inClient(ctx, "shop", "pgbench", "-n", "-c", "4", "-T", "3"); err != nil {
		return err
	}
	if _, err := s.sql(ctx, "shop", "INSERT INTO notes SELECT generate_series(1, 1000)"); err != nil {
		return err
	}
	if s.beforeNote, err = s.fingerprint(ctx, "shop"); err != nil {
		return err
	}
	s.noted, err = s.clock(ctx, "shop")
	s.say("noted %s; %s accounts", s.noted.Format(time.RFC3339Nano), s.beforeNote.accounts())
	return err
}

func (s *story) makeMistake(ctx context.Context) error {
	if _, err := s.sql(ctx, "shop", "DELETE FROM pgbench_accounts WHERE aid % 2 = 0"); err != nil {
		return err
	}
	left, err := s.sql(ctx, "shop", "SELECT count(*) FROM pgbench_accounts")
	s.say("%s accounts are left", left)
	return err
}

func (s *story) restore(ctx context.Context) error {
	restore := &v1alpha1.Restore{ObjectMeta: named("shop-before"), Spec: v1alpha1.RestoreSpec{
		Source:      v1alpha1.RestoreSource{Backup: &v1alpha1.LocalReference{Name: "shop-first"}},
		Target:      &v1alpha1.RestoreTarget{Time: s.noted.UTC().Format(time.RFC3339Nano)},
		Destination: v1alpha1.RestoreDestination{NewCluster: &v1alpha1.NewCluster{Name: "shop-before"}},
	}}
	if err := s.kube.Create(ctx, restore); err != nil {
		return err
	}
	if err := s.await(ctx, restore, v1alpha1.ConditionSucceeded); err != nil {
		return err
	}
	cluster := &v1alpha1.PostgresCluster{ObjectMeta: named("shop-before")}
	if err := s.await(ctx, cluster, v1alpha1.ConditionReady); err != nil {
		return err
	}
	return s.makeClient(ctx, "shop-before")
}

func (s *story) compareRestored(ctx context.Context) error {
	restored, err := s.fingerprint(ctx, "shop-before")
	if err != nil {
		return err
	}
	if err := same(restored, s.beforeNote); err != nil {
		return err
	}
	s.say("every row is as it was: %s accounts", restored.accounts())
	if s.beforeLeap, err = s.fingerprint(ctx, "shop"); err != nil {
		return err
	}
	if s.beforeLeap == restored {
		return fmt.Errorf("shop still has every row, so that the restore proves nothing")
	}
	return nil
}

func (s *story) upgrade(ctx context.Context) error {
	upgrade := &v1alpha1.Upgrade{ObjectMeta: named("shop-to-17"), Spec: v1alpha1.UpgradeSpec{
		Cluster: v1alpha1.LocalReference{Name: "shop"}, Version: 17,
	}}
	if err := s.kube.Create(ctx, upgrade); err != nil {
		return err
	}
	if err := s.await(ctx, upgrade, v1alpha1.ConditionSucceeded); err != nil {
		return err
	}
	if down, up := upgrade.Status.DownAt, upgrade.Status.UpAt; down != nil && up != nil {
		s.downtime = up.Sub(down.Time)
	}
	return s.await(ctx, &v1alpha1.PostgresCluster{ObjectMeta: named("shop")}, v1alpha1.ConditionReady)
}

func (s *story) compareUpgraded(ctx context.Context) error {
	version, err := s.sql(ctx, "shop", "SHOW server_version")
	if err != nil {
		return err
	}
	if !strings.HasPrefix(version, "17") {
		return fmt.Errorf("shop runs PostgreSQL %s, want 17", version)
	}
	upgraded, err := s.fingerprint(ctx, "shop")
	if err != nil {
		return err
	}
	s.say("PostgreSQL %s, %s accounts", version, upgraded.accounts())
	return same(upgraded, s.beforeLeap)
}
