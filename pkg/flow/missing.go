package flow

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// settling is how long something may be missing that was perhaps created together with the object that needs it: `kubectl apply`
// of several objects, and caches that lag a moment.
const settling = 15 * time.Second

// Missing stops for something that an object needs and that doesn't exist, though not at once.
func Missing(object client.Object, now time.Time, reason, message string) Outcome {
	if left := settling - now.Sub(object.GetCreationTimestamp().Time); left > 0 {
		return Poll(left, reason, message)
	}
	return Stop(reason, message)
}
