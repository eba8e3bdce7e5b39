// Package repository turns a BackupRepository into the configuration of a store, and opens it for a controller.
package repository

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/open"
	"howdah.dev/howdah/pkg/repository/location"
)

// ErrSecret is a Secret with credentials that isn't there or lacks a key.
var ErrSecret = errors.New("credentials")

// SecretName is the Secret with the credentials, or empty where they come from the environment.
func SecretName(repo *v1alpha1.BackupRepository) string { return location.SecretName(repo) }

// PodConfig is the configuration for a pod that mounts the Secret, if there is one, at agentapi.S3Dir.
func PodConfig(repo *v1alpha1.BackupRepository) objstore.Config { return location.PodConfig(repo) }

// Open opens the repository for a controller. Errors: ErrSecret, objstore's.
func Open(ctx context.Context, reader client.Reader, repo *v1alpha1.BackupRepository) (objstore.Store, error) {
	config := location.Config(repo)
	if name := SecretName(repo); name != "" {
		credentials, err := readCredentials(ctx, reader, repo.Namespace, name)
		if err != nil {
			return nil, err
		}
		config.Credentials = credentials
	}
	return open.Open(ctx, config)
}

func readCredentials(ctx context.Context, reader client.Reader, namespace, name string) (*objstore.Credentials, error) {
	secret := &corev1.Secret{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%w: there is no Secret %s in namespace %s; make it with %s and %s, or name another in spec.s3.credentials.secretName",
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
