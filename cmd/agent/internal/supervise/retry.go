package supervise

import (
	"errors"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/generation"
)

// acceptPause is between two tries to note on the volume which data the cluster runs on.
const acceptPause = 10 * time.Second

// retry is when a configuration is looked at again that could not be accepted. Nobody sends it again. The zero value is never due.
type retry struct{ at time.Time }

// after says that it could not be accepted, which may pass unless the configuration is to blame: a full volume is enlarged, and a disk may answer again.
func (r *retry) after(err error, now time.Time) {
	if r.at = (time.Time{}); !errors.Is(err, generation.ErrOutdated) && !errors.Is(err, errWaiting) {
		r.at = now.Add(acceptPause)
	}
}

func (r *retry) due(now time.Time) bool { return !r.at.IsZero() && !now.Before(r.at) }
