package supervise

import (
	"context"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/cmd/agent/internal/usage"
	"howdah.dev/howdah/pkg/agentapi"
)

const useInterval = 30 * time.Second

// meter publishes what CPU and memory the container uses, until ctx ends.
func (i *instance) meter(ctx context.Context) {
	window := &usage.Window{}
	tick := time.NewTicker(useInterval)
	defer tick.Stop()
	for {
		if sample, err := usage.Read(job.Cgroup, time.Now()); err == nil {
			used := window.Add(sample)
			i.set(func(status *agentapi.Status) { status.Usage = used })
		} else {
			i.Log.Debug("what the container uses is not known", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
