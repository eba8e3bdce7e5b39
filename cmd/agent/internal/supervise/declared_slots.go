package supervise

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/logicalslot"
	"howdah.dev/howdah/cmd/agent/internal/roles"
	"howdah.dev/howdah/pkg/agentapi"
)

const (
	declaredSlotsInterval = 15 * time.Second
	declaredSlotsTime     = 5 * time.Minute
)

// runDeclaredSlots keeps declared replication slots, until ctx ends.
func (s *primaryServices) runDeclaredSlots(ctx context.Context) {
	defer s.set(func(status *agentapi.Status) { status.Slots = nil }) // it is another's to say then
	keeper := &logicalslot.Keeper{Server: s.server, Major: s.copy.generation.MajorVersion, Now: time.Now}
	for {
		s.keepDeclaredSlots(ctx, keeper)
		select {
		case <-ctx.Done():
			return
		case <-s.wakeups.slots:
		case <-time.After(declaredSlotsInterval):
		}
	}
}

func (s *primaryServices) keepDeclaredSlots(ctx context.Context, keeper *logicalslot.Keeper) {
	config := s.latest.config()
	if config.DataGeneration != s.copy.generation.DataGeneration() {
		return
	}
	if told := logicalslot.ToldBy(config); !reflect.DeepEqual(keeper.Told, told) && s.resumeLogical(ctx) { // again, where it could not be noted before
		keeper.Told = told
	} else {
		s.setSlotsAside(ctx)
	}
	if len(config.ReplicationSlots) == 0 {
		s.set(func(status *agentapi.Status) { status.Slots = nil })
		return
	}
	keeper.MayDrop = roles.Source{ClusterUID: config.SpecUID, Generation: config.SpecGeneration}.MayDrop
	limited, cancel := context.WithTimeout(ctx, declaredSlotsTime)
	defer cancel()
	found, err := keeper.Keep(limited, config.ReplicationSlots)
	if err != nil {
		if ctx.Err() == nil {
			s.Log.Warn("declared replication slots can't be applied yet", "error", err)
		}
		return
	}
	before := s.Status().Slots
	s.set(func(status *agentapi.Status) {
		status.Slots = &agentapi.SlotsStatus{Hash: agentapi.SlotsHash(config.ReplicationSlots), Slots: found}
	})
	for _, slot := range found {
		if before == nil || !slices.ContainsFunc(before.Slots, func(b agentapi.SlotStatus) bool { return b.Name == slot.Name && b.State == slot.State }) {
			s.Log.Info("declared replication slot", "slot", slot.Name, "state", slot.State, "message", slot.Message)
		}
	}
}

// resumeLogical notes which adoption the data runs under. Of data that was brought back by an undo or a rollback, no subscription continues, and
// logical slots are set aside.
func (s *primaryServices) resumeLogical(ctx context.Context) (noted bool) {
	config := s.latest.config()
	if config.DataGeneration != s.copy.generation.DataGeneration() {
		return false
	}
	limited, cancel := context.WithTimeout(ctx, rolesTime)
	defer cancel()
	disabled, err := logicalslot.Resume(limited, s.server, logicalslot.ToldBy(config))
	if err != nil && ctx.Err() == nil {
		s.Log.Warn("which adoption the data runs under can't be noted yet", "error", err)
	}
	if len(disabled) > 0 {
		s.Log.Warn("subscriptions are disabled, because an undo or a rollback brought the data back, and their slots at the publishers may have moved on", "subscriptions", disabled)
	}
	s.setSlotsAside(ctx)
	return err == nil
}

const asideMessage = "clients of logical replication that are ahead of the data, which an undo or a rollback brought back, may continue and skip changes: "

// setSlotsAside keeps clients that may be ahead from continuing by themselves, where an undo or a rollback brought the data back.
func (s *primaryServices) setSlotsAside(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, rolesTime)
	defer cancel()
	names, err := logicalslot.SetAside(limited, s.server, s.copy.generation.MajorVersion, s.Log)
	if len(names) > 0 {
		s.Log.Warn("logical slots are set aside, because an undo or a rollback brought the data back, and their clients may be ahead of it", "slots", names)
	}
	switch {
	case ctx.Err() != nil, errors.Is(err, logicalslot.ErrForeign): // which who keeps slots says
	case err != nil:
		s.Log.Warn("logical slots can't be set aside yet", "error", err)
		s.set(func(status *agentapi.Status) {
			if status.Message == "" || strings.HasPrefix(status.Message, asideMessage) {
				status.Message = asideMessage + sentence(err)
			}
		})
	default:
		s.clearMessage(asideMessage)
	}
}
