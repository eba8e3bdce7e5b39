package repostore

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/protocol"
)

// Secrets are the logins that a backup keeps, for the cluster of this name that is made of it: those of declared roles under
// the names that its spec has, those that Howdah makes itself under the names that they have for this cluster. A backup in a
// repository that is not encrypted keeps none. Whoever makes them gives them an owner, and leaves those that are there.
func Secrets(header *backup.Header, namespace, cluster string) []*corev1.Secret {
	var secrets []*corev1.Secret
	for _, kept := range header.Cluster.Secrets {
		name := kept.Name
		switch kept.Purpose {
		case backup.SecretApplication:
			name = protocol.AppSecret(cluster)
		case backup.SecretSuperuser:
			name = protocol.SuperuserSecret(cluster)
		}
		secrets = append(secrets, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: kept.Data,
		})
	}
	return secrets
}
