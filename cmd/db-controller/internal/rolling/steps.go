// Package rolling brings instances up to date one at a time, replicas first, and has the primary hand over before it is taken
// down. What comes next is a pure function of what was observed.
package rolling

import (
	"context"

	"howdah.dev/howdah/cmd/db-controller/internal/agentclient"
	"howdah.dev/howdah/cmd/db-controller/internal/apply"
	"howdah.dev/howdah/pkg/agentapi"
)

// Agents take requests.
type Agents interface {
	Restart(ctx context.Context, target agentclient.Target, configHash string) error
	Switchover(ctx context.Context, target agentclient.Target, request agentapi.SwitchoverRequest) error
	Reinit(ctx context.Context, target agentclient.Target, request agentapi.ReinitRequest) error
	Fault(ctx context.Context, target agentclient.Target, request agentapi.FaultRequest) error
}

// Steps that restart, replace and switch over. Each is a step of a plan.
type Steps struct {
	*apply.Applier
	Agents Agents
}
