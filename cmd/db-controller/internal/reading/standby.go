package reading

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/repostore/location"
)

// standbySource is the repository that a standby follows.
type standbySource struct{ cache, live client.Reader }

// read looks at it. The cache is enough: whether the archive can be read, the Job finds out.
func (r standbySource) read(ctx context.Context, o *observed.Cluster) error {
	if !observed.StandsBy(o) {
		return nil
	}
	repository := &v1alpha1.BackupRepository{}
	found, err := observed.Read(ctx, r.cache, o.Cluster.Namespace, o.Cluster.Spec.Standby.Source.Repository.Name, repository)
	if err != nil || !found {
		return err
	}
	o.StandbyRepository = repository
	for _, name := range []string{location.SecretName(repository), location.KeysSecretName(repository)} {
		if name == "" || o.Own.Recall(observed.Key("Secret", name), seenAge) != nil {
			continue
		}
		secret := &metav1.PartialObjectMetadata{}
		secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		there, err := observed.Read(ctx, r.live, o.Cluster.Namespace, name, secret)
		if err != nil {
			return err
		}
		if there {
			o.Own.Remember(observed.Key("Secret", name), secret)
		} else {
			o.StandbyMissing = name
		}
	}
	return nil
}
