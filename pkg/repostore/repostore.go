// Package repostore opens the object store of a BackupRepository for a controller, with what is in its Secrets.
package repostore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/open"
	"howdah.dev/howdah/pkg/repostore/location"
)

// ErrSecret is a Secret with credentials or keys that isn't there or lacks a key.
var ErrSecret = errors.New("credentials")

// SecretName is the Secret with the credentials, or empty where they come from the environment.
func SecretName(repo *v1alpha1.BackupRepository) string { return location.SecretName(repo) }

// KeysSecretName is the Secret with the keys of a repository that is encrypted or signed, or empty where it is neither.
func KeysSecretName(repo *v1alpha1.BackupRepository) string { return location.KeysSecretName(repo) }

// PodConfig is the configuration for a pod that mounts the Secrets, as far as there are any, at agentapi.S3Dir and KeysDir.
func PodConfig(repo *v1alpha1.BackupRepository) objstore.Config { return location.PodConfig(repo) }

// Opener opens the store of a repository: Open, but for tests.
type Opener func(ctx context.Context, reader client.Reader, repo *v1alpha1.BackupRepository) (objstore.Store, error)

// Open opens the repository for a controller that has no cloud identity of its own. Errors: ErrSecret, objstore's.
func Open(ctx context.Context, reader client.Reader, repo *v1alpha1.BackupRepository) (objstore.Store, error) {
	return Opening(nil)(ctx, reader, repo)
}

// Opening is Open for a controller that may use its own cloud identity where that was granted, and nowhere else.
func Opening(grants location.Grants) Opener {
	return func(ctx context.Context, reader client.Reader, repo *v1alpha1.BackupRepository) (objstore.Store, error) {
		config := location.Config(repo)
		config.Dial, config.Frugal = objstore.InPod(os.Getenv), true
		if err := addCredentials(ctx, reader, repo, grants, &config); err != nil {
			return nil, err
		}
		if err := addKeys(ctx, reader, repo, config.Encryption); err != nil {
			return nil, err
		}
		return open.Open(ctx, config)
	}
}

// addCredentials reads the Secret with the credentials, where one is named.
func addCredentials(ctx context.Context, reader client.Reader, repo *v1alpha1.BackupRepository, grants location.Grants, config *objstore.Config) error {
	name := SecretName(repo)
	if name == "" {
		if !grants.Allow(repo) {
			return identityRefused(repo)
		}
		return nil
	}
	credentials, err := readCredentials(ctx, reader, repo.Namespace, name)
	config.Credentials = credentials
	return err
}

// Sealed encrypts what goes to a store as the repository asks for it, or refuses one that is encrypted. Errors: ErrSecret.
func Sealed(ctx context.Context, reader client.Reader, repo *v1alpha1.BackupRepository, store objstore.Store) (objstore.Store, error) {
	config := location.Config(repo)
	if err := addKeys(ctx, reader, repo, config.Encryption); err != nil {
		return nil, err
	}
	return open.Sealed(store, config.Encryption), nil
}

// addKeys reads the Secret with the keys, where there is encryption.
func addKeys(ctx context.Context, reader client.Reader, repo *v1alpha1.BackupRepository, encryption *objstore.Encryption) error {
	if encryption == nil {
		return nil
	}
	name := KeysSecretName(repo)
	secret, err := readSecret(ctx, reader, repo.Namespace, name)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: Secret %s does not exist in namespace %s; create it with the keys of the repository, "+
			"or name another in %s", ErrSecret, name, repo.Namespace, location.KeysField(repo))
	}
	if err != nil {
		return fmt.Errorf("read Secret %s: %w", name, err)
	}
	encryption.Entries = objstore.KeyEntries{}
	maps.Copy(encryption.Entries, secret.Data)
	return nil
}

func readSecret(ctx context.Context, reader client.Reader, namespace, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	return secret, reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret)
}

func readCredentials(ctx context.Context, reader client.Reader, namespace, name string) (*objstore.Credentials, error) {
	secret, err := readSecret(ctx, reader, namespace, name)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%w: Secret %s does not exist in namespace %s; create it with %s and %s, or name another in spec.s3.credentials.secretName",
			ErrSecret, name, namespace, objstore.AccessKeyIDFile, objstore.SecretAccessKeyFile)
	}
	if err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", name, err)
	}
	credentials := &objstore.Credentials{
		AccessKeyID:     string(secret.Data[objstore.AccessKeyIDFile]),
		SecretAccessKey: string(secret.Data[objstore.SecretAccessKeyFile]),
		SessionToken:    string(secret.Data[objstore.SessionTokenFile]),
	}
	if credentials.AccessKeyID == "" || credentials.SecretAccessKey == "" {
		return nil, fmt.Errorf("%w: Secret %s must have the keys %s and %s",
			ErrSecret, name, objstore.AccessKeyIDFile, objstore.SecretAccessKeyFile)
	}
	return credentials, nil
}
