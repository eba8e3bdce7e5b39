package location

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/objstore"
)

// A Job and a controller open a repository by the same configuration: what is missing in it is read by none of them.
func TestWhatASpecSaysOfABucketIsInTheConfigurationOfControllersAndPods(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC))
	repo := &v1alpha1.BackupRepository{}
	repo.Spec = v1alpha1.BackupRepositorySpec{ReadOnly: true, AsOf: &at, Authentication: &v1alpha1.AuthenticationSpec{SecretName: "keys", Key: "k1"}}
	repo.Spec.S3 = v1alpha1.S3Spec{Endpoint: "https://store", Bucket: "backups", Prefix: "shop", Region: "r1", Insecure: true, Client: v1alpha1.S3ClientMinio}
	for name, config := range map[string]objstore.Config{"controllers": Config(repo), "pods": PodConfig(repo)} {
		switch {
		case config.AsOf == nil || !config.AsOf.Equal(at.Time) || !config.ReadOnly:
			t.Errorf("%s: as of %v, read-only %t", name, config.AsOf, config.ReadOnly)
		case config.Driver != objstore.DriverMinIO || config.Endpoint != "https://store" || config.Bucket != "backups" || config.Prefix != "shop" ||
			config.Region != "r1" || !config.Insecure || !config.PathStyle:
			t.Errorf("%s: %+v", name, config)
		case config.Encryption == nil || config.Encryption.Key != "k1" || !config.Encryption.Sign:
			t.Errorf("%s: %+v", name, config.Encryption)
		}
	}
}
