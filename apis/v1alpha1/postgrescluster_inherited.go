package v1alpha1

// InheritedMetadata names labels and annotations of the PostgresCluster that its objects inherit.
type InheritedMetadata struct {
	// Labels by their names, such as team.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	Labels []MetadataName `json:"labels,omitempty"`
	// Annotations by their names, such as example.com/cost-center.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	Annotations []MetadataName `json:"annotations,omitempty"`
}

// MetadataName is the name of a label or of an annotation.
// +kubebuilder:validation:MaxLength=317
// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')",message="spec.inheritedMetadata must have names of labels and annotations, such as team or example.com/team"
// +kubebuilder:validation:XValidation:rule="!self.startsWith('howdah.dev/') && !(self in ['app.kubernetes.io/component', 'app.kubernetes.io/managed-by']) && (self.startsWith('app.kubernetes.io/') || !self.matches('^([^/]*[.])?(kubernetes|k8s)[.]io/'))",message="spec.inheritedMetadata can't name what Howdah or Kubernetes sets itself (howdah.dev/…, …kubernetes.io/…, app.kubernetes.io/component and app.kubernetes.io/managed-by): remove it, or use a name of your own such as example.com/team"
type MetadataName string
