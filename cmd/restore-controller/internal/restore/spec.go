package restore

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/backup"
)

// archiveTo is where the new cluster archives: where it is told to, else where its data comes from, or, if that is
// read-only, nowhere until a person says where. A temporary one never does.
func archiveTo(o *observed, repository string) string {
	wanted := o.restore.Spec.Destination.NewCluster
	switch {
	case wanted.Temporary:
		return ""
	case wanted.Repository != nil:
		return wanted.Repository.Name
	case o.repository != nil && o.repository.Spec.ReadOnly:
		return ""
	}
	return repository
}

// newSpec is the spec of the cluster to create: that of the cluster that was backed up, with the overrides of the Restore.
// An empty repository is none.
// It names what of the record is dropped or accepted.
func newSpec(header *backup.Header, restore *v1alpha1.Restore, repository string, by provenance) (*v1alpha1.PostgresClusterSpec, admission, error) {
	spec, err := recordedSpec(header.Cluster.Object)
	if err != nil {
		return nil, admission{}, err
	}
	spec.Version = int32(header.PGMajor)
	spec, admitted, err := by.admit(spec)
	if err != nil {
		return nil, admission{}, err
	}
	admitted.dropped = append(admitted.dropped, dropRefused(spec)...)
	wanted := restore.Spec.Destination.NewCluster
	if wanted.Image != "" {
		spec.Image = wanted.Image
	}
	// Requests to the other cluster: what was to be dropped there may be what this one is for.
	spec.Switchover, spec.Reinit, spec.Repair, spec.Hibernate = nil, nil, nil, false
	if spec.Failover != nil { // what it says of instances and of a pause is about the other cluster's
		spec.Failover = &v1alpha1.Failover{Profile: spec.Failover.Profile, Renewal: spec.Failover.Renewal}
	}
	for i := range spec.Databases { // a copy takes no changes away from the cluster that it is a copy of, unless a person says so
		spec.Databases[i].Subscriptions = nil
	}
	spec.DelayedReplicas = nil // they are named after the other cluster
	spec.Databases = slices.DeleteFunc(spec.Databases, func(d v1alpha1.Database) bool { return d.Ensure == v1alpha1.Absent })
	spec.Bootstrap = &v1alpha1.Bootstrap{Restore: bootstrap(spec, restore.Name)}
	spec.Standby = nil // the copy follows nobody
	archive(spec, repository)
	staff(spec, wanted.Instances)
	// A copy takes no name or address away from the cluster that it is a copy of.
	if header.Cluster.Namespace != restore.Namespace || header.Cluster.Name != wanted.Name {
		spec.Services, spec.TLS = v1alpha1.Services{}, v1alpha1.TLS{}
	}
	spec.ReplicationSlots = nil // nobody reads those of a copy, and each would hold back WAL
	if wanted.Temporary {
		makeTemporary(spec)
	}
	if wanted.SuperuserAccess != nil {
		spec.SuperuserAccess = *wanted.SuperuserAccess
	}
	if spec.Version < 18 { // the cluster waits for its Upgrade to a version that has them
		spec.PostgreSQL.ExtensionImages = nil
	}
	if wanted.ExtensionImages != nil {
		spec.PostgreSQL.ExtensionImages = wanted.ExtensionImages
	}
	if wanted.RunAs != nil {
		spec.RunAs = wanted.RunAs
	}
	if wanted.Resources != nil {
		spec.Resources = *wanted.Resources
	}
	if len(wanted.Parameters) > 0 {
		merged := map[string]v1alpha1.ParameterValue{}
		maps.Copy(merged, spec.PostgreSQL.Parameters)
		maps.Copy(merged, wanted.Parameters)
		spec.PostgreSQL.Parameters = merged
	}
	return spec, admitted, resize(spec, wanted.Storage, header.Totals.LogicalBytes)
}

// makeTemporary makes it the spec of a copy that leaves nothing behind. Its declared roles keep the passwords that the data
// has, and get no certificates, as the Secrets are the other cluster's.
func makeTemporary(spec *v1alpha1.PostgresClusterSpec) {
	for i := range spec.Roles {
		spec.Roles[i].PasswordSecret, spec.Roles[i].CertificateSecret = nil, nil
	}
	spec.PostgreSQL.LDAPPasswordSecret, spec.PostgreSQL.LDAPCA = nil, nil
	spec.Instances, spec.Synchronous, spec.Archive, spec.Updates = 1, nil, nil, nil
	spec.Pods.Containers = nil // what serves the other cluster, such as a shipper of logs
	spec.DeletionPolicy = v1alpha1.DeletionPolicy{FinalBackup: ptr.To(false), Volumes: v1alpha1.VolumesDelete}
}

// archive sets where WAL and backups go. Without such a place there is no final backup either.
func archive(spec *v1alpha1.PostgresClusterSpec, repository string) {
	if repository == "" {
		spec.Archive, spec.DeletionPolicy.FinalBackup = nil, nil
		return
	}
	spec.Archive = &v1alpha1.ArchiveSpec{Repository: v1alpha1.LocalReference{Name: repository}}
}

// staff sets the number of instances, and has no more replicas confirm a commit than are left.
func staff(spec *v1alpha1.PostgresClusterSpec, instances *int32) {
	if instances == nil {
		return
	}
	spec.Instances = *instances
	switch replicas := *instances - 1; {
	case spec.Synchronous == nil:
	case replicas == 0:
		spec.Synchronous = nil
	default:
		spec.Synchronous.Number = min(spec.Synchronous.Number, replicas)
	}
}

// recordedSpec reads what the backup says of its cluster: a PostgresCluster, or its spec alone.
func recordedSpec(object json.RawMessage) (*v1alpha1.PostgresClusterSpec, error) {
	spec := &v1alpha1.PostgresClusterSpec{}
	if len(object) == 0 {
		return spec, nil
	}
	whole := struct {
		Spec json.RawMessage `json:"spec"`
	}{}
	if err := json.Unmarshal(object, &whole); err != nil {
		return nil, fmt.Errorf("the backup's record of its PostgresCluster can't be read: %w", err)
	}
	if len(whole.Spec) > 0 {
		object = whole.Spec
	}
	if err := json.Unmarshal(object, spec); err != nil {
		return nil, fmt.Errorf("the backup's record of its PostgresCluster can't be read: %w", err)
	}
	return spec, nil
}

// bootstrap keeps the names of the application's database and role.
func bootstrap(spec *v1alpha1.PostgresClusterSpec, name string) *v1alpha1.BootstrapRestore {
	now, previous := &v1alpha1.BootstrapRestore{Name: name}, spec.Bootstrap
	switch {
	case spec.Standby != nil:
		now.Database, now.Owner = spec.Standby.Database, spec.Standby.Owner
	case previous == nil:
	case previous.Initdb != nil:
		now.Database, now.Owner = previous.Initdb.Database, previous.Initdb.Owner
	case previous.Restore != nil:
		now.Database, now.Owner = previous.Restore.Database, previous.Restore.Owner
	case previous.Import != nil:
		now.Database, now.Owner = previous.Import.Database, previous.Import.Owner
	case previous.Volumes != nil:
		now.Database, now.Owner = previous.Volumes.Database, previous.Volumes.Owner
	case previous.Clone != nil:
		now.Database, now.Owner = previous.Clone.Database, previous.Clone.Owner
	}
	return now
}

// resize sets the storage, and refuses a volume that the backup alone doesn't fit on.
func resize(spec *v1alpha1.PostgresClusterSpec, wanted *v1alpha1.NewStorage, needed int64) error {
	if wanted != nil && wanted.Size != "" {
		size, err := resource.ParseQuantity(wanted.Size)
		if err != nil {
			return fmt.Errorf("spec.destination.newCluster.storage.size %q is not a size; write one such as 10Gi", wanted.Size)
		}
		spec.Storage.Size = size
	}
	if wanted != nil && wanted.StorageClassName != nil {
		spec.Storage.StorageClassName = wanted.StorageClassName
	}
	if wanted != nil && wanted.WAL != nil {
		if err := resizeWAL(&spec.Storage, wanted.WAL); err != nil {
			return err
		}
	}
	switch {
	case spec.Storage.Size.IsZero():
		return errors.New("the backup doesn't say how large the volume was: set spec.destination.newCluster.storage.size")
	case spec.Storage.Size.Value() < needed:
		return fmt.Errorf("the backup holds %s, and a volume of %s is too small for it: set spec.destination.newCluster.storage.size to more",
			resource.NewQuantity(needed, resource.BinarySI), spec.Storage.Size.String())
	}
	return nil
}

// resizeWAL sets the storage of WAL. What a backup holds is the same with a WAL volume and without one.
func resizeWAL(storage *v1alpha1.StorageSpec, wanted *v1alpha1.NewWALStorage) error {
	if wanted.None {
		storage.WAL = nil
		return nil
	}
	wal := &v1alpha1.WALStorage{}
	if storage.WAL != nil {
		wal = storage.WAL.DeepCopy()
	}
	if wanted.Size != "" {
		size, err := resource.ParseQuantity(wanted.Size)
		if err != nil {
			return fmt.Errorf("spec.destination.newCluster.storage.wal.size %q is not a size; write one such as 4Gi", wanted.Size)
		}
		wal.Size = size
	}
	if wanted.StorageClassName != nil {
		wal.StorageClassName = wanted.StorageClassName
	}
	if wal.Size.IsZero() {
		return errors.New("the backup's cluster had no WAL volume: set spec.destination.newCluster.storage.wal.size")
	}
	storage.WAL, storage.Move = wal, nil
	return nil
}

// newCluster is the PostgresCluster to create. It has no owner, and outlives the Restore, unless it is temporary.
func newCluster(restore *v1alpha1.Restore, spec *v1alpha1.PostgresClusterSpec) *v1alpha1.PostgresCluster {
	cluster := &v1alpha1.PostgresCluster{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: restore.Namespace, Name: restore.Spec.Destination.ClusterName(),
			Annotations: map[string]string{v1alpha1.AnnotationRestoredBy: string(restore.UID)},
		},
		Spec: *spec,
	}
	if restore.Spec.Destination.NewCluster.Temporary {
		cluster.OwnerReferences = []metav1.OwnerReference{
			*metav1.NewControllerRef(restore, v1alpha1.GroupVersion.WithKind(v1alpha1.KindRestore)),
		}
	}
	return cluster
}
