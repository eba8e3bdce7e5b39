package v1alpha1

import corev1 "k8s.io/api/core/v1"

// Services are templates for the Services of a cluster.
type Services struct {
	// RW is the Service <name>-rw, which leads to the primary.
	// +optional
	RW ServiceTemplate `json:"rw,omitempty"`
	// RO is the Service <name>-ro, which leads to the replicas.
	// +optional
	RO OptionalService `json:"ro,omitempty"`
	// R is the Service <name>-r, which leads to every instance.
	// +optional
	R OptionalService `json:"r,omitempty"`
	// Additional Services, each for some of the instances. One that is no longer declared is deleted. The certificate of the server gets
	// their names.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Additional []AdditionalService `json:"additional,omitempty"`
}

// AdditionalService is one that a cluster has beside -rw, -ro and -r.
// +kubebuilder:validation:XValidation:rule="has(self.role) != has(self.instance)",message="an entry of spec.services.additional leads to the instances of a role or to one instance: write either role: Replica or instance: shop-1"
type AdditionalService struct {
	// Name of the Service, after that of the cluster: reports makes <cluster>-reports.
	// +kubebuilder:validation:MaxLength=22
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="the name of an additional Service has letters in lower case, digits and '-', such as reports"
	// +kubebuilder:validation:XValidation:rule="!(self in ['rw', 'ro', 'r', 'pods'])",message="rw, ro, r and pods are names of the Services that a cluster has anyway: set spec.services.rw, ro or r, or choose another name such as reports"
	Name string `json:"name"`
	// Role of the instances: Primary, Replica (without delayed ones) or Any.
	// +optional
	Role ServiceRole `json:"role,omitempty"`
	// Instance is the only one that the Service leads to, such as shop-1, whatever its role.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Instance        string `json:"instance,omitempty"`
	ServiceTemplate `json:",inline"`
}

// ServiceRole says to which instances a Service leads.
// +kubebuilder:validation:Enum=Primary;Replica;Any
type ServiceRole string

// Roles of an additional Service.
const (
	ServicePrimary ServiceRole = "Primary"
	ServiceReplica ServiceRole = "Replica"
	ServiceAny     ServiceRole = "Any"
)

// OptionalService is a template for a Service that a cluster can do without.
type OptionalService struct {
	ServiceTemplate `json:",inline"`
	// Enabled: false deletes the Service. By default, there is one.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
}

// ServiceTemplate is what a Service has besides its selector and its port. What others add to the Service stays, such as the
// annotations of a cloud's controller.
// +kubebuilder:validation:XValidation:rule="!has(self.loadBalancerSourceRanges) || (has(self.type) && self.type == 'LoadBalancer')",message="loadBalancerSourceRanges needs type: LoadBalancer: set the type, or remove loadBalancerSourceRanges and restrict clients with a NetworkPolicy or spec.postgresql.hba"
// +kubebuilder:validation:XValidation:rule="!has(self.loadBalancerClass) || (has(self.type) && self.type == 'LoadBalancer')",message="loadBalancerClass needs type: LoadBalancer: set the type, or remove loadBalancerClass"
// +kubebuilder:validation:XValidation:rule="!has(self.externalTrafficPolicy) || (has(self.type) && self.type in ['LoadBalancer', 'NodePort'])",message="externalTrafficPolicy needs type: LoadBalancer or type: NodePort: set the type, or remove externalTrafficPolicy"
type ServiceTemplate struct {
	// Type of the Service. By default, ClusterIP, which is reachable only within the Kubernetes cluster.
	// +optional
	Type ServiceType `json:"type,omitempty"`
	// Annotations of the Service, such as service.beta.kubernetes.io/aws-load-balancer-scheme: internal.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('howdah.dev/'))",message="annotations that begin with howdah.dev/ belong to Howdah; remove them"
	Annotations map[string]string `json:"annotations,omitempty"`
	// Labels of the Service.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('howdah.dev/') && !(k in ['app.kubernetes.io/component', 'app.kubernetes.io/managed-by']))",message="labels that begin with howdah.dev/, app.kubernetes.io/component and app.kubernetes.io/managed-by belong to Howdah; remove them"
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(self[k]) <= 63 && self[k].matches('^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$'))",message="the value of a label has at most 63 letters, digits, '-', '_' and '.', and begins and ends with a letter or digit; write one such as databases"
	Labels map[string]LabelValue `json:"labels,omitempty"`
	// LoadBalancerClass is the implementation of the load balancer, such as service.k8s.aws/nlb. By default, that of the
	// Kubernetes cluster. A change replaces the load balancer.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')",message="loadBalancerClass must be a name with an optional prefix, such as service.k8s.aws/nlb"
	LoadBalancerClass string `json:"loadBalancerClass,omitempty"`
	// LoadBalancerSourceRanges are the addresses of clients that the load balancer lets in, such as 10.0.0.0/8. By default,
	// all. Not every load balancer supports this.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	LoadBalancerSourceRanges []SourceRange `json:"loadBalancerSourceRanges,omitempty"`
	// ExternalTrafficPolicy: Local keeps the addresses of clients (rules of spec.postgresql.hba can match them, but not
	// behind a Pooler), and makes load balancers send nothing to nodes without an instance. By default, Cluster.
	// +optional
	ExternalTrafficPolicy ExternalTrafficPolicy `json:"externalTrafficPolicy,omitempty"`
}

// ServiceType says from where a Service can be reached.
// +kubebuilder:validation:Enum=ClusterIP;LoadBalancer;NodePort
type ServiceType corev1.ServiceType

// ExternalTrafficPolicy says where traffic from outside goes.
// +kubebuilder:validation:Enum=Cluster;Local
type ExternalTrafficPolicy corev1.ServiceExternalTrafficPolicy

// SourceRange is a range of addresses, such as 10.0.0.0/8.
// +kubebuilder:validation:MaxLength=49
// +kubebuilder:validation:XValidation:rule="isCIDR(self) && cidr(self) == cidr(self).masked()",message="loadBalancerSourceRanges must have ranges of addresses, such as 10.0.0.0/8 or 2001:db8::/32, whose address has zeros after the prefix; 10.1.2.3/32 is a single address"
type SourceRange string

// LabelValue is the value of a label.
// +kubebuilder:validation:MaxLength=63
type LabelValue string

// TLS of the server.
// +kubebuilder:validation:XValidation:rule="!has(self.serverSecret) || !has(self.dnsNames)",message="spec.tls.dnsNames adds names to the certificate that Howdah makes, and has no effect on that of spec.tls.serverSecret: remove it, and add the names to the Certificate that fills the Secret"
type TLS struct {
	// DNSNames are additional names in the certificate of the server, such as that of a load balancer: db.example.com.
	// Clients with sslmode=verify-full connect only to names in the certificate. It has the names of the Services
	// anyway.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	DNSNames []DNSName `json:"dnsNames,omitempty"`
	// ServerSecret has the certificate that PostgreSQL shows to clients in place of Howdah's, as cert-manager writes it: tls.crt, tls.key and
	// ca.crt. It needs the names of the Services, and *.<name>-pods.<namespace>.svc. It is renewed without a restart. While it can't be used,
	// the server keeps the one that it has, and the condition CertificatesReady says why.
	// +optional
	ServerSecret *ServerSecret `json:"serverSecret,omitempty"`
	// ClientCABundle contains CAs. Where a rule of spec.postgresql.hba has the method cert, clients may log in with
	// certificates of these CAs, in addition to those that Howdah issues. The common name of the certificate is the
	// role, unless the rule names a map. Nobody gets a role of Howdah by such a certificate. A change applies from the
	// next login on, without a restart.
	// +optional
	ClientCABundle *CABundle `json:"clientCABundle,omitempty"`
}

// ServerSecret names a Secret with a certificate for servers.
type ServerSecret struct {
	// Name of the Secret, in the namespace of the cluster, such as shop-tls.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// CABundle is where certificates of CAs are, in PEM.
// +kubebuilder:validation:XValidation:rule="has(self.configMap) != has(self.secret)",message="a bundle of CAs is either in a ConfigMap or in a Secret: write one of them, such as configMap: {name: company-ca}"
type CABundle struct {
	// ConfigMap with the bundle.
	// +optional
	ConfigMap *BundleKey `json:"configMap,omitempty"`
	// Secret with the bundle.
	// +optional
	Secret *BundleKey `json:"secret,omitempty"`
}

// BundleKey is a key of a ConfigMap or Secret.
type BundleKey struct {
	// Name of the ConfigMap or Secret, in the same namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Key with the certificates.
	// +optional
	// +kubebuilder:default=ca.crt
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

// DNSName is the name of a host, or *. and the name of a domain.
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:XValidation:rule="self.matches('^([*][.])?[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$') && !self.matches('(^|[.])[0-9]+$')",message="spec.tls.dnsNames must have names of hosts in lower case, such as db.example.com or *.db.example.com, and no addresses"
type DNSName string
