package volume

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/howdah/cmd/db-controller/internal/component"
	"howdah.dev/howdah/pkg/agentapi"
)

// Record is what a deleted cluster was, on each volume that it has left behind: a volume doesn't know of the others. A tenant of the
// namespace may have written it, so it only adds to what the volumes themselves say.
type Record struct {
	// DeletedAt is when the deletion of the cluster began.
	DeletedAt metav1.Time `json:"deletedAt"`
	// Primary is the instance that was primary last, and so has every commit.
	Primary string `json:"primary"`
	// Position that the volume of Primary has reached at least; zero: it isn't known.
	Position agentapi.VolumePosition `json:"position,omitzero"`
	// DataGeneration that it ran on, and the number of its adoption.
	DataGeneration   string `json:"dataGeneration"`
	Adoptions        int64  `json:"adoptions,omitempty"`
	SystemIdentifier string `json:"systemIdentifier"`
	// Database and Owner of the application.
	Database string `json:"database"`
	Owner    string `json:"owner"`
}

// String is the record as an annotation has it.
func (r *Record) String() string {
	data, err := json.Marshal(r)
	if err != nil {
		panic(err) // plain strings and numbers always marshal
	}
	return string(data)
}

// RecordOn a claim; nil: there is none that can be read.
func RecordOn(claim *corev1.PersistentVolumeClaim) *Record {
	record := &Record{}
	if json.Unmarshal([]byte(claim.Annotations[component.AnnotationRetainedData]), record) != nil ||
		record.Primary == "" || record.DataGeneration == "" || record.SystemIdentifier == "" {
		return nil
	}
	return record
}
