package restorejob

import (
	"context"

	"howdah.dev/howdah/cmd/agent/internal/recovery"
)

// disableSubscriptions does so where the data becomes another cluster's.
func (r *restoring) disableSubscriptions(ctx context.Context) (err error) {
	if !r.task.DisableSubscriptions {
		return nil
	}
	if r.disabled, err = recovery.DisableSubscriptions(ctx, r.SocketDir); len(r.disabled) > 0 {
		r.Log.Info("Subscriptions are disabled: what they bring is for the cluster that was backed up", "subscriptions", r.disabled)
	}
	return err
}
