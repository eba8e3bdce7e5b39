// Package v1alpha1 holds the kinds of howdah.dev/v1alpha1. Each field says who writes it where that is not
// the person who owns the object; each kind's status has one writer, the controller of that kind.
//
// +kubebuilder:object:generate=true
// +groupName=howdah.dev
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: "howdah.dev", Version: "v1alpha1"}

// AddToScheme registers the kinds of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&PostgresCluster{}, &PostgresClusterList{},
		&BackupRepository{}, &BackupRepositoryList{},
		&Backup{}, &BackupList{},
		&BackupSchedule{}, &BackupScheduleList{},
		&Restore{}, &RestoreList{},
		&Upgrade{}, &UpgradeList{},
		&Pooler{}, &PoolerList{},
		&FailoverDrill{}, &FailoverDrillList{},
		&FailoverDrillSchedule{}, &FailoverDrillScheduleList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// Kinds, as they appear in references between objects.
const (
	KindPostgresCluster  = "PostgresCluster"
	KindBackupRepository = "BackupRepository"
	KindBackup           = "Backup"
	KindBackupSchedule   = "BackupSchedule"
	KindRestore          = "Restore"
	KindUpgrade          = "Upgrade"
	KindPooler           = "Pooler"
	KindFailoverDrill    = "FailoverDrill"

	KindFailoverDrillSchedule = "FailoverDrillSchedule"
)

// Labels and annotations on objects that Howdah makes.
const (
	// LabelCluster names the PostgresCluster that an object or pod belongs to.
	LabelCluster = "howdah.dev/cluster"
	// LabelRole is on database pods: primary or replica.
	LabelRole = "howdah.dev/role"
	// LabelDelayed is on database pods: true on those that replay WAL late, else false.
	LabelDelayed = "howdah.dev/delayed"
	// LabelCanary on a PostgresCluster: true on those that run in a new image before others do.
	LabelCanary = "howdah.dev/canary"
	// LabelComponent says what an object is for: instance, init, backup, restore, upgrade, upgrade-check.
	LabelComponent = "app.kubernetes.io/component"
	// LabelManagedBy is on everything that Howdah makes; its value is ManagedBy.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// ManagedBy is the value of LabelManagedBy.
	ManagedBy = "howdah"
	// LabelPooler names the Pooler that an object or pod belongs to.
	LabelPooler = "howdah.dev/pooler"
	// LabelSchedule names the BackupSchedule that made a Backup, or the FailoverDrillSchedule that made a FailoverDrill.
	LabelSchedule = "howdah.dev/schedule"
	// AnnotationConfigHash on a database pod is the hash of the configuration the agent shall apply.
	AnnotationConfigHash = "howdah.dev/config-hash"
	// AnnotationTemplateHash on a database pod is the hash of what can only change with a new pod.
	AnnotationTemplateHash = "howdah.dev/template-hash"
	// AnnotationRunData on a PostgresCluster is a person's decision which data it runs, where its status is older than its volumes:
	// <instance>/<data generation>/<number of the adoption that this replaces>.
	AnnotationRunData = "howdah.dev/run-data"
	// AnnotationRestoredBy on a PostgresCluster is the UID of the Restore that made it.
	AnnotationRestoredBy = "howdah.dev/restored-by"
)

// LocalReference names an object in the same namespace.
type LocalReference struct {
	// Name of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}
