package observed

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TimeIfSet has seconds only; nil for no time.
func TimeIfSet(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return TimeOf(t)
}

// TimeOf has seconds only, as what comes back from the API server.
func TimeOf(t time.Time) *metav1.Time {
	rounded := metav1.NewTime(t.Truncate(time.Second))
	return &rounded
}
