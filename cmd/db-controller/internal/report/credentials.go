package report

import (
	"fmt"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/repository/location"
)

func MissingCredentials(o *observed.Cluster) string {
	if o.MissingSecret == location.KeysSecretName(o.Repository) {
		return fmt.Sprintf("there is no Secret %s in namespace %s, which BackupRepository %s names: make it with the keys that the repository is encrypted with, or name another in its spec.encryption.secretName",
			o.MissingSecret, o.Cluster.Namespace, o.Repository.Name)
	}
	return fmt.Sprintf("there is no Secret %s in namespace %s, which BackupRepository %s names: make it with %s and %s, or name another in its spec.s3.credentials.secretName",
		o.MissingSecret, o.Cluster.Namespace, o.Repository.Name, objstore.AccessKeyIDFile, objstore.SecretAccessKeyFile)
}

func MissingRepository(cluster *v1alpha1.PostgresCluster) string {
	return fmt.Sprintf("there is no BackupRepository %s in namespace %s: make it, or name another in spec.archive.repository.name",
		cluster.Spec.Archive.Repository.Name, cluster.Namespace)
}

func ReadOnlyRepository(cluster *v1alpha1.PostgresCluster) string {
	return fmt.Sprintf("BackupRepository %s is read-only (spec.readOnly), so nothing can be archived to it: name another in spec.archive.repository.name",
		cluster.Spec.Archive.Repository.Name)
}
