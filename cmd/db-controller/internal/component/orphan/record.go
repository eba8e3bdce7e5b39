// Package orphan builds the record of a database that its PostgresCluster has released: what a PostgresCluster of the same name has to
// know to take it over, and by which it tells the objects of that database from those of somebody else.
package orphan

import (
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component"
)

// format of the record that this suite writes, and the only one that it reads.
const format = 1

const (
	key     = "release.json"
	message = "message"
)

// ErrUnreadable is a record that was not written by this suite, or was changed since.
var ErrUnreadable = errors.New("the record can't be read")

// Record of a released database. It is data that a tenant of the namespace may have written: it is compared with what it speaks of.
type Record struct {
	Format int `json:"format"`
	// UID of the PostgresCluster that has released the database, and the identity of the database.
	UID      types.UID `json:"uid"`
	Identity types.UID `json:"identity"`
	// ReleasedAt is when that was.
	ReleasedAt metav1.Time `json:"releasedAt"`
	// Spec and Status that it had. Nothing in Status is of that object alone.
	Spec   v1alpha1.PostgresClusterSpec   `json:"spec"`
	Status v1alpha1.PostgresClusterStatus `json:"status"`
	// Objects that belonged to it.
	Objects []Object `json:"objects"`
}

// Object that belonged to a database.
type Object struct {
	Kind string    `json:"kind"`
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
}

// RecordOf a cluster and the objects that belong to it.
func RecordOf(cluster *v1alpha1.PostgresCluster, objects []*metav1.PartialObjectMetadata, now metav1.Time) *Record {
	record := &Record{Format: format, UID: cluster.UID, Identity: cluster.Identity(), ReleasedAt: now, Spec: cluster.Spec, Status: Carried(cluster.Status)}
	for _, object := range objects {
		record.Objects = append(record.Objects, Object{Kind: object.Kind, Name: object.Name, UID: object.UID})
	}
	return record
}

// Carried is what a status says of the database, without what it says of the object.
func Carried(status v1alpha1.PostgresClusterStatus) v1alpha1.PostgresClusterStatus {
	carried := *status.DeepCopy()
	carried.Conditions, carried.ObservedGeneration = nil, 0
	carried.VolumeLocks, carried.BackupRequest = nil, nil
	return carried
}

// Map is the ConfigMap with the record. It has no owner: it outlives the cluster.
func Map(cluster *v1alpha1.PostgresCluster, record *Record) (*corev1.ConfigMap, error) {
	data, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("marshal the record of the release: %w", err)
	}
	return &corev1.ConfigMap{
		ObjectMeta: component.Meta(cluster, component.NamesOf(cluster).Released(), component.Configuration),
		Data: map[string]string{
			key: string(data),
			message: fmt.Sprintf("PostgresCluster %s was deleted and has released its database, which keeps running. "+
				"A PostgresCluster of that name takes it over, and needs this ConfigMap for it.\n", cluster.Name),
		},
	}, nil
}

// Parse the record in a ConfigMap.
func Parse(configMap *corev1.ConfigMap) (*Record, error) {
	record := &Record{}
	if err := json.Unmarshal([]byte(configMap.Data[key]), record); err != nil {
		return nil, fmt.Errorf("%w: %s is not JSON of a record: %w", ErrUnreadable, key, err)
	}
	switch {
	case record.Format != format:
		return nil, fmt.Errorf("%w: its format is %d, and this suite knows %d", ErrUnreadable, record.Format, format)
	case record.UID == "" || record.Identity == "" || record.Status.DataGeneration == "" || record.Status.SystemIdentifier == "":
		return nil, fmt.Errorf("%w: %s lacks uid, identity, or the data of status", ErrUnreadable, key)
	}
	for _, object := range record.Objects {
		if _, known := kinds[object.Kind]; !known || object.Name == "" || object.UID == "" {
			return nil, fmt.Errorf("%w: %s lists %s %q, which is not an object of a database", ErrUnreadable, key, object.Kind, object.Name)
		}
	}
	return record, nil
}

// Lists says that an object is one that belonged to the database, or stands in its place.
func (r *Record) Lists(object *metav1.PartialObjectMetadata) bool {
	return r.UIDOf(object.Kind, object.Name) != ""
}

// UIDOf an object in the record; empty: it is not listed.
func (r *Record) UIDOf(kind, name string) types.UID {
	for _, object := range r.Objects {
		if object.Kind == kind && object.Name == name {
			return object.UID
		}
	}
	return ""
}
