package secret

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component"
	"howdah.dev/howdah/cmd/db-controller/internal/component/certificate"
	"howdah.dev/howdah/pkg/agentapi"
)

// Keys of the Secret of database pods, beside KeyAuthority.
const (
	KeyServerCertificate      = "server.crt"
	KeyServerPrivate          = "server.key"
	KeyReplicationCertificate = "replication.crt"
	KeyReplicationPrivate     = "replication.key"
	KeyRoles                  = "roles.json"
)

// AnnotationRevision on the Secret of database pods is another word for each content of KeyRoles. It says nothing about
// the content, as a hash would.
const AnnotationRevision = "howdah.dev/revision"

// Instance is the Secret of database pods: the server's certificate, the one by which agents and replicas know each other,
// and the passwords of declared roles. It is one, since kubelets watch each that a pod mounts, and passwords are one key of
// it, so that the first of them restarts nothing and the last one doesn't stay.
func Instance(cluster *v1alpha1.PostgresCluster, live *corev1.Secret, authority *certificate.Authority,
	passwords agentapi.Passwords, now time.Time,
) (*corev1.Secret, error) {
	server, err := issued(ServerRequest(cluster), pairIn(live, KeyServerCertificate, KeyServerPrivate), authority, now)
	if err != nil {
		return nil, err
	}
	replication, err := issued(certificate.Request{CommonName: agentapi.ReplicationRole},
		pairIn(live, KeyReplicationCertificate, KeyReplicationPrivate), authority, now)
	if err != nil {
		return nil, err
	}
	if passwords == nil {
		passwords = agentapi.Passwords{}
	}
	roles, err := json.Marshal(passwords)
	if err != nil {
		return nil, fmt.Errorf("marshal passwords: %w", err)
	}
	secret := &corev1.Secret{
		ObjectMeta: component.Meta(cluster, component.NamesOf(cluster).InstanceSecret(), component.Access),
		Data: map[string][]byte{
			KeyServerCertificate: server.Certificate, KeyServerPrivate: server.Key,
			KeyReplicationCertificate: replication.Certificate, KeyReplicationPrivate: replication.Key,
			KeyAuthority: authority.Bundle, KeyRoles: roles,
		},
	}
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, AnnotationRevision, revision(live, roles))
	return secret, nil
}

// revision of passwords: that of before, if they are what they were.
func revision(live *corev1.Secret, roles []byte) string {
	if live != nil && bytes.Equal(live.Data[KeyRoles], roles) && live.Annotations[AnnotationRevision] != "" {
		return live.Annotations[AnnotationRevision]
	}
	return rand.Text()
}
