package supervise

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/heartbeat"
	"howdah.dev/howdah/cmd/agent/internal/watchdog"
	"howdah.dev/howdah/pkg/agentapi"
)

// heartbeatFile is on the volume; see package heartbeat.
const heartbeatFile = "heartbeat"

// stallTick is how often it is looked whether the disk has answered.
const stallTick = 250 * time.Millisecond

// stall tells the election and the status when the disk of the volume doesn't respond. Nothing here touches the volume: only the heart
// waits for that.
type stall struct {
	*instance
	election *election
	heart    *heartbeat.Heart
	latest   *latest

	since time.Time // zero: the disk answers
	err   string    // of the last beat
}

// newStall makes one for an instance. Nothing beats before it is watched.
func newStall(i *instance, election *election, latest *latest) *stall {
	beat := i.Beat
	if beat == nil {
		beat = beatOn(i)
	}
	return &stall{instance: i, election: election, heart: heartbeat.New(beat, watchdog.Now), latest: latest}
}

// beatOn writes to each volume: a commit waits for any of them.
func beatOn(i *instance) func() error {
	var beats []func() error
	for _, volume := range i.volumes() {
		beats = append(beats, heartbeat.File(filepath.Join(string(volume), heartbeatFile)))
	}
	return func() error {
		var err error
		for _, beat := range beats {
			err = errors.Join(err, beat())
		}
		return err
	}
}

// watch the disk until ctx ends.
func (s *stall) watch(ctx context.Context) {
	go s.heart.Run(ctx)
	tick := time.NewTicker(stallTick)
	defer tick.Stop()
	for {
		s.look()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (s *stall) look() {
	waiting := s.heart.Waiting()
	switch stalled := waiting >= limitsOf(s.latest.config()).Stall; {
	case stalled && s.since.IsZero():
		s.since = time.Now().Add(-waiting).UTC().Truncate(time.Second)
		s.Log.Error("the disk of a volume does not respond", "since", s.since.Format(time.RFC3339))
		s.election.stalls(true)
	case !stalled && !s.since.IsZero():
		s.Log.Info("the disks of the volumes respond again", "after", time.Since(s.since).Round(time.Second).String())
		s.since = time.Time{}
		s.election.stalls(false)
	}
	took, err := s.heart.Took()
	if text := errorText(err); text != s.err {
		s.err = text
		s.Log.Warn("the outcome of writes to the volumes has changed", "error", err)
	}
	s.set(func(status *agentapi.Status) {
		status.Disk = &agentapi.DiskStatus{SyncSeconds: took.Seconds(), StalledSince: s.since}
	})
}
