package reading

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/howdah/cmd/db-controller/internal/component/statefulset"
	"howdah.dev/howdah/cmd/db-controller/internal/desired"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
)

// readCredentials looks whether the Secrets of the repository are there, when pods don't mount them yet.
func (r *Reader) readCredentials(ctx context.Context, o *observed.Cluster) error {
	set, missing := o.StatefulSet(), ""
	for name, mounted := range map[string]string{desired.S3Secret(o): statefulset.S3Secret(set), desired.KeysSecret(o): statefulset.KeysSecret(set)} {
		if name == "" || name == mounted || o.Own.Recall(observed.Key("Secret", name), seenAge) != nil {
			continue
		}
		secret := &metav1.PartialObjectMetadata{}
		secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		found, err := observed.Read(ctx, r.Live, o.Cluster.Namespace, name, secret)
		if err != nil {
			return err
		}
		if found {
			o.Own.Remember(observed.Key("Secret", name), secret)
		} else {
			missing = max(missing, name)
		}
	}
	o.MissingSecret = missing
	return nil
}
