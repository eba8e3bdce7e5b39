package secret

import (
	"bytes"
	"crypto/rand"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component"
)

// AnnotationRevision on the Secret with passwords of roles is another word for each content. It says nothing about the
// content, as a hash would.
const AnnotationRevision = "howdah.dev/revision"

// Roles is the Secret with the passwords of declared roles. It is always there, and pods always mount it, so that the
// first password restarts nothing.
func Roles(cluster *v1alpha1.PostgresCluster, live *corev1.Secret, passwords map[string][]byte) *corev1.Secret {
	secret := &corev1.Secret{
		ObjectMeta: component.Meta(cluster, component.NamesOf(cluster).Roles(), component.Access),
		Data:       map[string][]byte{},
	}
	maps.Copy(secret.Data, passwords)
	revision := ""
	if live != nil && maps.EqualFunc(live.Data, secret.Data, bytes.Equal) {
		revision = live.Annotations[AnnotationRevision]
	}
	if revision == "" {
		revision = rand.Text()
	}
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, AnnotationRevision, revision)
	return secret
}
