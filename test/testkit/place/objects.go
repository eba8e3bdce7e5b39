package place

import (
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/open"
)

// MakeRepository makes a BackupRepository with credentials of its own, once change has changed it.
func (p *Place) MakeRepository(name, secretKey string, change ...func(*v1alpha1.BackupRepositorySpec)) *v1alpha1.BackupRepository {
	p.Helper()
	authority, err := os.ReadFile(p.Store["S3_CA_FILE"])
	p.Must(err)
	p.Must(p.Create(p.Context(), &corev1.Secret{ObjectMeta: p.Meta(name), StringData: map[string]string{
		objstore.AccessKeyIDFile: p.Store["AWS_ACCESS_KEY_ID"], objstore.SecretAccessKeyFile: secretKey,
	}}))
	repo := &v1alpha1.BackupRepository{ObjectMeta: p.Meta(name), Spec: v1alpha1.BackupRepositorySpec{S3: v1alpha1.S3Spec{
		Endpoint: p.Store["S3_ENDPOINT"], Bucket: p.Store["S3_BUCKET"], Prefix: p.Namespace + "/" + name,
		CABundle: string(authority), Credentials: &v1alpha1.S3Credentials{SecretName: name},
	}}}
	for _, do := range change {
		do(&repo.Spec)
	}
	p.Must(p.Create(p.Context(), repo))
	return repo
}

// Bucket opens what the repository `repo` writes to.
func (p *Place) Bucket() objstore.Store { return p.BucketOf("repo") }

// BucketOf opens what a repository writes to, as it lies there, encrypted or not.
func (p *Place) BucketOf(repository string) objstore.Store {
	p.Helper()
	store, err := open.Plain(p.Context(), p.ConfigOf(repository))
	p.Must(err)
	return store
}

// ConfigOf says where a repository is that MakeRepository makes.
func (p *Place) ConfigOf(repository string) objstore.Config {
	p.Helper()
	authority, err := os.ReadFile(p.Store["S3_CA_FILE"])
	p.Must(err)
	return objstore.Config{
		Driver: objstore.DriverMinIO, Endpoint: p.Store["S3_ENDPOINT"], Bucket: p.Store["S3_BUCKET"],
		Prefix: p.Namespace + "/" + repository, CABundle: string(authority), PathStyle: true,
		Credentials: &objstore.Credentials{AccessKeyID: p.Store["AWS_ACCESS_KEY_ID"], SecretAccessKey: p.Store["AWS_SECRET_ACCESS_KEY"]},
	}
}

// NewCluster describes a cluster that archives to `repo`.
func (p *Place) NewCluster(name string, version int32) *v1alpha1.PostgresCluster {
	return &v1alpha1.PostgresCluster{ObjectMeta: p.Meta(name), Spec: v1alpha1.PostgresClusterSpec{
		Version: version, Storage: v1alpha1.StorageSpec{Size: resource.MustParse("4Gi")},
		Archive: &v1alpha1.ArchiveSpec{Repository: v1alpha1.LocalReference{Name: "repo"}},
	}}
}

// Cluster makes one and waits until it is Ready.
func (p *Place) Cluster(name string, version int32) *v1alpha1.PostgresCluster {
	p.Helper()
	cluster := p.NewCluster(name, version)
	p.Must(p.Create(p.Context(), cluster))
	p.AwaitTrue(cluster, v1alpha1.ConditionReady)
	return cluster
}

// Backup makes one and waits until it is done.
func (p *Place) Backup(name, cluster string) *v1alpha1.Backup {
	p.Helper()
	backup := &v1alpha1.Backup{ObjectMeta: p.Meta(name), Spec: v1alpha1.BackupSpec{Cluster: v1alpha1.LocalReference{Name: cluster}}}
	p.Must(p.Create(p.Context(), backup))
	p.AwaitTrue(backup, v1alpha1.ConditionSucceeded)
	return backup
}
