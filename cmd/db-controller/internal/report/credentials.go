package report

import (
	"fmt"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/repostore/location"
)

// MissingCredentials is the sentence for a Secret of the repository that doesn't exist.
func MissingCredentials(o *observed.Cluster) string {
	if o.MissingSecret == location.KeysSecretName(o.Repository) {
		return fmt.Sprintf("There is no Secret %s in namespace %s, which BackupRepository %s names. Create it with the keys of the repository, or name another one in its %s.",
			o.MissingSecret, o.Cluster.Namespace, o.Repository.Name, location.KeysField(o.Repository))
	}
	return fmt.Sprintf("There is no Secret %s in namespace %s, which BackupRepository %s names. Create it with the keys %s and %s, or name another one in its spec.s3.credentials.secretName.",
		o.MissingSecret, o.Cluster.Namespace, o.Repository.Name, objstore.AccessKeyIDFile, objstore.SecretAccessKeyFile)
}

// MissingRepository is the sentence for a repository that doesn't exist.
func MissingRepository(cluster *v1alpha1.PostgresCluster) string {
	return fmt.Sprintf("There is no BackupRepository %s in namespace %s. Create it, or name another one in spec.archive.repository.name.",
		cluster.Spec.Archive.Repository.Name, cluster.Namespace)
}

// ReadOnlyRepository is the sentence for a repository that nothing may be written to.
func ReadOnlyRepository(cluster *v1alpha1.PostgresCluster) string {
	return fmt.Sprintf("BackupRepository %s is read-only (spec.readOnly), so nothing can be archived to it. Name another one in spec.archive.repository.name.",
		cluster.Spec.Archive.Repository.Name)
}
