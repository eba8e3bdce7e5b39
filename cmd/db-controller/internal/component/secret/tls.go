// Package secret builds the Secrets of a cluster. What was generated once is kept from the Secret that is there; all the
// rest follows from the cluster.
package secret

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component"
	"howdah.dev/howdah/cmd/db-controller/internal/component/certificate"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/protocol"
)

// Keys of a Secret with a certificate.
const (
	KeyCertificate = corev1.TLSCertKey
	KeyPrivate     = corev1.TLSPrivateKeyKey
	KeyAuthority   = "ca.crt"
	// KeyAuthorityKey is in the Secret of the CA only.
	KeyAuthorityKey = "ca.key"
)

// Authority is the Secret with the CA: the one that is there while it is good, else a new one, which trusts what the database pods trust
// by now: a server whose certificate is of the previous CA continues. It returns the CA with it.
func Authority(cluster *v1alpha1.PostgresCluster, live, instance *corev1.Secret, now time.Time) (*corev1.Secret, *certificate.Authority, error) {
	var before []byte
	if instance != nil && metav1.IsControlledBy(instance, cluster) {
		before = instance.Data[KeyAuthority]
	}
	if live != nil && len(live.Data[KeyAuthority]) > 0 {
		before = live.Data[KeyAuthority]
		authority, err := certificate.ParseAuthority(before, live.Data[KeyAuthorityKey])
		if err == nil && !authority.Due(now) {
			return authoritySecret(cluster, authority), authority, nil
		}
	}
	authority, err := certificate.NewAuthority(fmt.Sprintf("Howdah CA of %s/%s", cluster.Namespace, cluster.Name), before, now)
	if err != nil {
		return nil, nil, err
	}
	return authoritySecret(cluster, authority), authority, nil
}

func authoritySecret(cluster *v1alpha1.PostgresCluster, authority *certificate.Authority) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: component.Meta(cluster, component.NamesOf(cluster).Authority(), component.Access),
		Data:       map[string][]byte{KeyAuthority: authority.Bundle, KeyAuthorityKey: authority.Key},
	}
}

// ServerRequest is what the server's certificate is for: every Service, each pod by its own name, and the names that spec adds.
// PostgreSQL and the agent beside it share it.
func ServerRequest(cluster *v1alpha1.PostgresCluster) certificate.Request {
	names := component.NamesOf(cluster)
	request := certificate.Request{CommonName: cluster.Name}
	services := []string{names.Primary(), names.Replicas(), names.Any()}
	for _, additional := range cluster.Spec.Services.Additional {
		services = append(services, names.Additional(additional.Name))
	}
	for _, service := range services {
		host := component.Host(cluster, service)
		request.DNSNames = append(request.DNSNames, service, service+"."+cluster.Namespace, host, host+".cluster.local")
	}
	for _, domain := range []string{names.Pods(), names.Any()} {
		pods := "*." + component.Host(cluster, domain)
		request.DNSNames = append(request.DNSNames, pods, pods+".cluster.local")
	}
	request.DNSNames = append(request.DNSNames, "localhost")
	for _, name := range cluster.Spec.TLS.DNSNames {
		if !slices.Contains(request.DNSNames, string(name)) {
			request.DNSNames = append(request.DNSNames, string(name))
		}
	}
	return request
}

// ServedNames are those that a certificate of a person's own has to be for: those of Services, and that of each pod, by which replicas and
// Jobs know whom they talk to.
func ServedNames(cluster *v1alpha1.PostgresCluster) []string {
	names, services := component.NamesOf(cluster), cluster.Spec.Services
	all := []string{component.Host(cluster, names.Primary())}
	if ptr.Deref(services.RO.Enabled, true) {
		all = append(all, component.Host(cluster, names.Replicas()))
	}
	if ptr.Deref(services.R.Enabled, true) {
		all = append(all, component.Host(cluster, names.Any()))
	}
	for _, additional := range services.Additional {
		all = append(all, component.Host(cluster, names.Additional(additional.Name)))
	}
	return append(all, "*."+component.Host(cluster, names.Pods()))
}

// ClientTLS is the Secret with the client certificate of a role.
func ClientTLS(cluster *v1alpha1.PostgresCluster, name, role string, live *corev1.Secret, authority *certificate.Authority, now time.Time) (*corev1.Secret, error) {
	return pairTLS(cluster, name, certificate.Request{CommonName: role}, live, authority, now)
}

// PoolerTLS is the Secret with the certificate of the poolers of a cluster: they are servers for clients, and clients of the agents.
func PoolerTLS(cluster *v1alpha1.PostgresCluster, poolers []string, live *corev1.Secret, authority *certificate.Authority, now time.Time) (*corev1.Secret, error) {
	request := certificate.Request{CommonName: agentapi.PoolerRole, Both: true}
	for _, name := range poolers {
		request.DNSNames = append(request.DNSNames, protocol.PoolerHosts(cluster.Namespace, name)...)
	}
	secret, err := pairTLS(cluster, protocol.PoolerSecret(cluster.Name), request, live, authority, now)
	if err != nil {
		return nil, err
	}
	secret.Data[KeyAuthority], secret.Data[KeyServerAuthority] = authority.Bundle, authority.ForClients() // by the former, poolers let clients in
	return secret, nil
}

func pairTLS(cluster *v1alpha1.PostgresCluster, name string, request certificate.Request, live *corev1.Secret, authority *certificate.Authority, now time.Time) (*corev1.Secret, error) {
	pair, err := issued(request, pairIn(live, KeyCertificate, KeyPrivate), authority, now)
	if err != nil {
		return nil, err
	}
	return &corev1.Secret{
		ObjectMeta: component.Meta(cluster, name, component.Access),
		Type:       corev1.SecretTypeTLS,
		Data:       map[string][]byte{KeyCertificate: pair.Certificate, KeyPrivate: pair.Key, KeyAuthority: authority.ForClients()},
	}, nil
}

// AnnotationRole on a Secret is the declared role whose certificate it has.
const AnnotationRole = "howdah.dev/role"

// RoleTLS is the Secret with the client certificate of a declared role.
func RoleTLS(cluster *v1alpha1.PostgresCluster, role *v1alpha1.Role, live *corev1.Secret, authority *certificate.Authority, now time.Time) (*corev1.Secret, error) {
	secret, err := ClientTLS(cluster, role.CertificateSecret.Name, role.Name, live, authority, now)
	if err != nil {
		return nil, err
	}
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, AnnotationRole, role.Name)
	return secret, nil
}

// pairIn is the certificate in a Secret, or an empty one.
func pairIn(live *corev1.Secret, certificateKey, privateKey string) certificate.Pair {
	if live == nil {
		return certificate.Pair{}
	}
	return certificate.Pair{Certificate: live.Data[certificateKey], Key: live.Data[privateKey]}
}

// issued is the certificate that is there while it is fit, else a new one.
func issued(request certificate.Request, live certificate.Pair, authority *certificate.Authority, now time.Time) (certificate.Pair, error) {
	if authority.Check(live, request, now) == nil {
		return live, nil
	}
	return authority.Issue(request, now)
}
