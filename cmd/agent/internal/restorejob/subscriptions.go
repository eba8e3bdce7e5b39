package restorejob

import (
	"context"

	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/cmd/agent/internal/logicalslot"
	"howdah.dev/howdah/cmd/agent/internal/recovery"
)

// goBack keeps subscriptions and slots from continuing where publishers and clients are ahead of the data, or belong to another cluster.
func (r *restoring) goBack(ctx context.Context) (err error) {
	back := logicalslot.Back{Copy: !r.task.InPlace, Subscriptions: r.task.DisableSubscriptions, Slots: r.task.LostSlots}
	r.disabled, err = logicalslot.GoBack(ctx, local.Server{SocketDir: r.SocketDir, Port: recovery.Port}, back, r.Log)
	return err
}
