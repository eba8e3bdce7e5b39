package repostore

import (
	"fmt"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/objstore"
)

// identityError says that a repository may not use the cloud identity of the controller. It is an objstore.ErrDenied.
type identityError struct{ sentence string }

func (e *identityError) Error() string { return e.sentence }
func (e *identityError) Unwrap() error { return objstore.ErrDenied }

func identityRefused(repo *v1alpha1.BackupRepository) error {
	s3, server := repo.Spec.S3, "AWS"
	if s3.Endpoint != "" {
		server = s3.Endpoint
	}
	return &identityError{fmt.Sprintf("spec.s3.credentials is missing, and the controller may not use its own cloud identity for namespace %s, "+
		"bucket %s and prefix %q at %s: name a Secret in spec.s3.credentials.secretName, or have the administrator of Howdah allow it in "+
		"cloudIdentity.grants of the chart's values.", repo.Namespace, s3.Bucket, s3.Prefix, server)}
}
