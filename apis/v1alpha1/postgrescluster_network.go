package v1alpha1

// NetworkPolicy says who may exchange packets with the pods of a cluster, besides these pods themselves, the suite's controllers, DNS
// and the node of each pod. A network plugin of the Kubernetes cluster has to enforce it; not every one does.
type NetworkPolicy struct {
	// Clients lists who may connect to PostgreSQL, on port 5432. By default, all pods in the namespace of the cluster
	// may.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Clients []NetworkPeer `json:"clients,omitempty"`
	// Metrics lists who may scrape the instances, on ports 8443 and 9187, and the ports of containers in spec.pods. By
	// default, nobody may.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Metrics []NetworkPeer `json:"metrics,omitempty"`
	// Egress is what the pods may connect to: the object store, and whatever extensions and containers of spec.pods
	// need. DNS and TCP ports 443 and 6443 of every address stay open, because the API server usually listens there,
	// and an instance that can't reach it does not stay primary. By default, everything is allowed.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Egress []NetworkDestination `json:"egress,omitempty"`
}

// NetworkPeer is either a range of addresses, or pods.
// +kubebuilder:validation:XValidation:rule="has(self.cidr) != (has(self.pods) || has(self.namespaces))",message="each entry of spec.networkPolicy must have either cidr, such as 10.0.0.0/8, or labels of pods and namespaces, such as pods: {app: web}"
type NetworkPeer struct {
	// CIDR is a range of addresses, such as 10.0.0.0/8. Use it for what runs outside of the Kubernetes cluster, because
	// the addresses of pods may be translated on the way.
	// +optional
	// +kubebuilder:validation:MaxLength=49
	// +kubebuilder:validation:XValidation:rule="isCIDR(self) && cidr(self) == cidr(self).masked()",message="cidr must be a range of addresses, such as 10.0.0.0/8 or 2001:db8::/32, whose address has zeros after the prefix; 10.1.2.3/32 is a single address"
	CIDR string `json:"cidr,omitempty"`
	// Pods with all of these labels. By default, all pods of the namespaces.
	// +optional
	Pods NetworkLabels `json:"pods,omitempty"`
	// Namespaces with all of these labels, such as kubernetes.io/metadata.name: monitoring. By default, the namespace of the
	// cluster.
	// +optional
	Namespaces NetworkLabels `json:"namespaces,omitempty"`
}

// NetworkDestination is a peer that is connected to.
type NetworkDestination struct {
	NetworkPeer `json:",inline"`
	// Ports, of TCP. By default, all.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Ports []NetworkPort `json:"ports,omitempty"`
}

// NetworkPort is the number of a port.
// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 65535",message="a port must be from 1 to 65535, such as 9000"
type NetworkPort int32

// NetworkLabels select what has all of them.
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:MaxProperties=8
// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) <= 317 && k.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$') && self[k].matches('^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$'))",message="labels must have names such as app or kubernetes.io/metadata.name, and values of letters, digits, '-', '_' and '.', which begin and end with a letter or digit"
type NetworkLabels map[string]LabelValue
