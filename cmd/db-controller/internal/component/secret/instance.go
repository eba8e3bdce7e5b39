package secret

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component"
	"howdah.dev/howdah/cmd/db-controller/internal/component/certificate"
	"howdah.dev/howdah/cmd/db-controller/internal/servertls"
	"howdah.dev/howdah/pkg/agentapi"
)

// Keys of the Secret of database pods, beside KeyAuthority.
const (
	KeyServerCertificate      = "server.crt"
	KeyServerPrivate          = "server.key"
	KeyReplicationCertificate = "replication.crt"
	KeyReplicationPrivate     = "replication.key"
	KeyRoles                  = "roles.json"
	// KeyServerAuthority is what clients of the servers trust.
	KeyServerAuthority = "server-ca.crt"
	KeyAppPassword     = "app.password"
)

// Passwords that database pods are to know.
type Passwords struct {
	// App is that of the application, empty as long as there is none.
	App []byte
	// Roles are those of declared roles.
	Roles agentapi.Passwords
	// Server is what they are to have of a person's own for TLS.
	Server servertls.Kept
}

// AnnotationRevision on the Secret of database pods is another word for each content of KeyRoles and KeyAppPassword. It says
// nothing about the content, as a hash would.
const AnnotationRevision = "howdah.dev/revision"

// Instance is the Secret of database pods: the server's certificate, the one by which agents and replicas know each other,
// and passwords, those of declared roles as one key, so that the first of them restarts nothing and the last one doesn't stay. It
// is one Secret, since kubelets watch each that a pod mounts.
func Instance(cluster *v1alpha1.PostgresCluster, live *corev1.Secret, authority *certificate.Authority,
	passwords Passwords, now time.Time,
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
	known, err := passwords.keys()
	if err != nil {
		return nil, err
	}
	secret := &corev1.Secret{
		ObjectMeta: component.Meta(cluster, component.NamesOf(cluster).InstanceSecret(), component.Access),
		Data: map[string][]byte{
			KeyServerCertificate: server.Certificate, KeyServerPrivate: server.Key,
			KeyReplicationCertificate: replication.Certificate, KeyReplicationPrivate: replication.Key,
			KeyAuthority: authority.Bundle, KeyServerAuthority: authority.ForClients(),
		},
	}
	maps.Copy(secret.Data, known)
	if since := passwords.Server.Since; !since.IsZero() {
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, annotationTrustedSince, since.UTC().Format(time.RFC3339))
	}
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, AnnotationRevision, revision(live, known))
	return secret, nil
}

// keys of the Secret with the passwords. They are all there, since a pod can't mount one that isn't.
func (p Passwords) keys() (map[string][]byte, error) {
	all := agentapi.Passwords{}
	maps.Copy(all, p.Roles)
	for key, content := range map[string][]byte{
		agentapi.ServerCertificateKey: p.Server.Pair.Certificate, agentapi.ServerPrivateKey: p.Server.Pair.Key, agentapi.ServerTrustKey: p.Server.Trust,
		agentapi.LDAPTrustKey: p.Server.LDAP, agentapi.ClientTrustKey: p.Server.Clients,
	} {
		if len(content) > 0 {
			all[key] = content
		}
	}
	roles, err := json.Marshal(all)
	if err != nil {
		return nil, fmt.Errorf("marshal passwords: %w", err)
	}
	return map[string][]byte{KeyRoles: roles, KeyAppPassword: append([]byte{}, p.App...)}, nil
}

// annotationTrustedSince on the Secret of database pods is when the last CA of a person's own was added.
const annotationTrustedSince = "howdah.dev/trusted-since"

// KeptIn is what the Secret of database pods has of a person's own for TLS.
func KeptIn(cluster *v1alpha1.PostgresCluster, live *corev1.Secret) (kept servertls.Kept) {
	all := agentapi.Passwords{}
	if live == nil || !metav1.IsControlledBy(live, cluster) || json.Unmarshal(live.Data[KeyRoles], &all) != nil {
		return kept
	}
	kept.Pair = certificate.Pair{Certificate: all[agentapi.ServerCertificateKey], Key: all[agentapi.ServerPrivateKey]}
	kept.Trust, kept.LDAP, kept.Clients = all[agentapi.ServerTrustKey], all[agentapi.LDAPTrustKey], all[agentapi.ClientTrustKey]
	kept.Since, _ = time.Parse(time.RFC3339, live.Annotations[annotationTrustedSince])
	return kept
}

// revision of passwords: the previous one, if they are what they were.
func revision(live *corev1.Secret, known map[string][]byte) string {
	if live == nil || live.Annotations[AnnotationRevision] == "" {
		return rand.Text()
	}
	for key, password := range known {
		if !bytes.Equal(live.Data[key], password) {
			return rand.Text()
		}
	}
	return live.Annotations[AnnotationRevision]
}
