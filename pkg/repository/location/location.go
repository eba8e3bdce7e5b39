// Package location says where a BackupRepository is, as the configuration of a store. It links no client of one, so that
// a controller that never looks into a bucket can pass it on.
package location

import (
	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/objstore"
)

// SecretName is the Secret with the credentials, or empty where they come from the environment.
func SecretName(repo *v1alpha1.BackupRepository) string {
	if repo.Spec.S3.Credentials == nil {
		return ""
	}
	return repo.Spec.S3.Credentials.SecretName
}

// PodConfig is the configuration for a pod that mounts the Secret, if there is one, at agentapi.S3Dir.
func PodConfig(repo *v1alpha1.BackupRepository) objstore.Config {
	config := Config(repo)
	if SecretName(repo) != "" {
		config.CredentialsDir = agentapi.S3Dir
	}
	return config
}

// Config is the configuration without credentials.
func Config(repo *v1alpha1.BackupRepository) objstore.Config {
	s3 := repo.Spec.S3
	config := objstore.Config{
		Driver: objstore.DriverAWS, Endpoint: s3.Endpoint, Region: s3.Region, Bucket: s3.Bucket,
		Prefix: s3.Prefix, CABundle: s3.CABundle, PathStyle: s3.Endpoint != "",
	}
	if s3.Client == v1alpha1.S3ClientMinio {
		config.Driver = objstore.DriverMinIO
	}
	if s3.ForcePathStyle != nil {
		config.PathStyle = *s3.ForcePathStyle
	}
	return config
}
