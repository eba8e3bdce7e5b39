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

// KeysSecretName is the Secret with the keys of a repository that is encrypted or signed, or empty where it is neither.
func KeysSecretName(repo *v1alpha1.BackupRepository) string {
	switch {
	case repo.Spec.Encryption != nil:
		return repo.Spec.Encryption.SecretName
	case repo.Spec.Authentication != nil:
		return repo.Spec.Authentication.SecretName
	}
	return ""
}

// KeysField is the field of a repository with keys that names their Secret.
func KeysField(repo *v1alpha1.BackupRepository) string {
	if repo.Spec.Authentication != nil {
		return "spec.authentication.secretName"
	}
	return "spec.encryption.secretName"
}

// PodConfig is the configuration for a pod that mounts the Secrets, as far as there are any, at agentapi.S3Dir and KeysDir.
func PodConfig(repo *v1alpha1.BackupRepository) objstore.Config {
	config := Config(repo)
	if SecretName(repo) != "" {
		config.CredentialsDir = agentapi.S3Dir
	}
	if config.Encryption != nil {
		config.Encryption.KeysDir = agentapi.KeysDir
	}
	return config
}

// Config is the configuration without credentials and keys.
func Config(repo *v1alpha1.BackupRepository) objstore.Config {
	s3 := repo.Spec.S3
	config := objstore.Config{
		Driver: objstore.DriverAWS, Endpoint: s3.Endpoint, Insecure: s3.Insecure, Region: s3.Region, Bucket: s3.Bucket,
		Prefix: s3.Prefix, CABundle: s3.CABundle, PathStyle: s3.Endpoint != "",
	}
	if s3.Client == v1alpha1.S3ClientMinio {
		config.Driver = objstore.DriverMinIO
	}
	if s3.ForcePathStyle != nil {
		config.PathStyle = *s3.ForcePathStyle
	}
	config.ReadOnly = repo.Spec.ReadOnly
	if at := repo.Spec.AsOf; at != nil {
		config.AsOf = &at.Time
	}
	if by := s3.ServerSideEncryption; by != nil {
		config.ServerSide = &objstore.ServerSide{KMS: by.Type == v1alpha1.EncryptionKMS, Key: by.KMSKey}
	}
	switch {
	case repo.Spec.Encryption != nil:
		config.Encryption = &objstore.Encryption{Key: repo.Spec.Encryption.Key}
	case repo.Spec.Authentication != nil:
		config.Encryption = &objstore.Encryption{Key: repo.Spec.Authentication.Key, Sign: true}
	}
	return config
}
