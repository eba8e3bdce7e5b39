package v1alpha1

// RecordedField is a field of the PostgresCluster that a backup has recorded. It is not taken from a repository that is neither
// encrypted nor signed, unless a person names it.
// +kubebuilder:validation:MaxLength=64
// +kubebuilder:validation:XValidation:rule="!self.matches('[iI]mages?$|[cC]ontainers$')",message="acceptRecorded can't name images or containers, since a bucket never says what code runs: set image and extensionImages in spec.destination.newCluster of a Restore, and containers in the new PostgresCluster"
// +kubebuilder:validation:XValidation:rule="self.matches('[iI]mages?$|[cC]ontainers$') || self in ['spec.imagePullSecrets','spec.monitoring','spec.networkPolicy','spec.pods','spec.postgresql.log','spec.postgresql.parameters.dynamic_library_path','spec.postgresql.parameters.extension_control_path','spec.postgresql.parameters.jit_provider','spec.postgresql.parameters.local_preload_libraries','spec.postgresql.parameters.oauth_validator_libraries','spec.postgresql.parameters.session_preload_libraries','spec.postgresql.parameters.shared_preload_libraries','spec.roles.certificateSecret','spec.roles.parameters','spec.roles.passwordSecret','spec.runAs','spec.scheduling.nodeAffinity','spec.scheduling.nodeSelector','spec.scheduling.priorityClassName','spec.scheduling.tolerations','spec.scheduling.topologySpreadConstraints','spec.services','spec.tls']",message="acceptRecorded must name fields as status.plan.dropped of a Restore does, such as spec.scheduling.tolerations or spec.postgresql.parameters.shared_preload_libraries, and for all roles spec.roles.passwordSecret; what is not in docs/restore.md can only be set in the new PostgresCluster"
type RecordedField string

// The fields that can be accepted.
const (
	RecordedImagePullSecrets  RecordedField = "spec.imagePullSecrets"
	RecordedMonitoring        RecordedField = "spec.monitoring"
	RecordedNetworkPolicy     RecordedField = "spec.networkPolicy"
	RecordedPods              RecordedField = "spec.pods"
	RecordedLog               RecordedField = "spec.postgresql.log"
	RecordedRoleCertificates  RecordedField = "spec.roles.certificateSecret"
	RecordedRoleParameters    RecordedField = "spec.roles.parameters"
	RecordedRolePasswords     RecordedField = "spec.roles.passwordSecret"
	RecordedRunAs             RecordedField = "spec.runAs"
	RecordedNodeAffinity      RecordedField = "spec.scheduling.nodeAffinity"
	RecordedNodeSelector      RecordedField = "spec.scheduling.nodeSelector"
	RecordedPriorityClassName RecordedField = "spec.scheduling.priorityClassName"
	RecordedTolerations       RecordedField = "spec.scheduling.tolerations"
	RecordedTopologySpread    RecordedField = "spec.scheduling.topologySpreadConstraints"
	RecordedServices          RecordedField = "spec.services"
	RecordedTLS               RecordedField = "spec.tls"
)

// RecordedParameter is the field of a parameter of PostgreSQL.
func RecordedParameter(name string) RecordedField {
	return RecordedField("spec.postgresql.parameters." + name)
}

// AcceptedField is a recorded field that is taken because acceptRecorded names it.
type AcceptedField struct {
	// Field that is taken, such as spec.scheduling.tolerations or spec.roles[web].passwordSecret.
	Field string `json:"field"`
	// Value of it as the backup has recorded it, as JSON.
	Value string `json:"value"`
}

// RecordedCluster is the PostgresCluster that a backup says it is of.
type RecordedCluster struct {
	// Namespace of the PostgresCluster.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// Name of the PostgresCluster.
	// +optional
	Name string `json:"name,omitempty"`
	// UID of the PostgresCluster.
	// +optional
	UID string `json:"uid,omitempty"`
}
