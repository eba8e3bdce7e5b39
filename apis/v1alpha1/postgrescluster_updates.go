package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Updates says which updates of PostgreSQL are rolled out without being asked for each time, and when.
// +kubebuilder:validation:XValidation:rule="(has(self.minor) && self.minor == 'Automatic') || (has(self.major) && self.major == 'Automatic') || !(has(self.window) || has(self.notBefore))",message="spec.updates.window and spec.updates.notBefore apply to automatic updates only: set spec.updates.minor or spec.updates.major to Automatic, or remove them"
// +kubebuilder:validation:XValidation:rule="!has(self.maxDowntime) || has(self.major) && self.major == 'Automatic'",message="spec.updates.maxDowntime applies to automatic major upgrades only: set spec.updates.major to Automatic, or remove it"
type Updates struct {
	// Minor says what happens when the suite has another image for the version that runs, and spec.image names none. With Manual, it is
	// only shown: in status.pendingUpdate and the condition Updated. With Automatic, it is tried, and then reaches the replicas
	// first. If an instance does not come up in it, all return to the previous image, and it is not tried again. An image with an
	// older release than the one that runs is refused. The default is Manual.
	// +optional
	// +kubebuilder:default=Manual
	Minor UpdatePolicy `json:"minor,omitempty"`
	// Major says what happens when spec.version is higher than the version that runs. With Manual, a person creates an Upgrade. With
	// Automatic, the upgrade-controller creates one that only checks, and after that, in the window, one that upgrades the cluster,
	// with a backup before it if the cluster has a repository. After a failure it does not try again until a person deletes the Upgrade
	// that checks, or changes spec.version or spec.image. The default is Manual.
	// +optional
	// +kubebuilder:default=Manual
	Major UpdatePolicy `json:"major,omitempty"`
	// Window is when automatic updates may begin, and when instances may be replaced for them. By default, that is
	// spec.maintenanceWindow.
	// +optional
	Window *MaintenanceWindow `json:"window,omitempty"`
	// MaxDowntime bounds how long an automatic major upgrade may keep the cluster down, such as 30m, like spec.maxDowntime of an Upgrade. After that, the
	// cluster continues with its previous data. It may be changed until the cluster is being stopped. By default, only the start on the new data is bounded.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= duration('1m') && self <= duration('168h')",message="spec.updates.maxDowntime must be from 1m to 168h, such as 30m: stopping and starting takes some of it"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:MaxLength=32
	MaxDowntime *metav1.Duration `json:"maxDowntime,omitempty"`
	// NotBefore is a time before which no automatic update is rolled out, such as 2026-12-01T06:00:00Z.
	// +optional
	NotBefore *metav1.Time `json:"notBefore,omitempty"`
}

// UpdatePolicy says whether updates are rolled out without being asked for.
// +kubebuilder:validation:Enum=Manual;Automatic
type UpdatePolicy string

const (
	// UpdateManual shows an update, and leaves it to a person.
	UpdateManual UpdatePolicy = "Manual"
	// UpdateAutomatic rolls an update out.
	UpdateAutomatic UpdatePolicy = "Automatic"
)

// PendingUpdate is an image of the suite in which the cluster does not run yet.
type PendingUpdate struct {
	// Image of the suite for the version that runs.
	Image string `json:"image"`
	// NotBefore is the earliest time at which it is rolled out, with spec.updates.minor: Automatic.
	// +optional
	NotBefore *metav1.Time `json:"notBefore,omitempty"`
}

const (
	// ConditionUpdated says whether the cluster runs in the suite's image for its version. A cluster whose spec.image names an
	// image does not have it, unless spec.updates.minor is Automatic.
	ConditionUpdated = "Updated"

	// ReasonUpdatePending: the suite has another image for the version that runs, and the message says what it waits for.
	ReasonUpdatePending = "UpdatePending"
	// ReasonImagePinned: spec.image names the image, so no update is rolled out.
	ReasonImagePinned = "ImagePinned"
)
