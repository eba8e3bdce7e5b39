// Package reading observes a cluster: it reads everything that a pass needs, before the first step. It reads from the cache and
// from what this process has written, and from the API server itself where something is decided that can't be undone.
package reading

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/howdah/cmd/db-controller/internal/agentclient"
	"howdah.dev/howdah/cmd/db-controller/internal/refusals"
	"howdah.dev/howdah/cmd/db-controller/internal/secretcache"
	"howdah.dev/howdah/pkg/workload"
)

// Agents say how their instances are, as far as they were asked. Nobody waits for an answer.
type Agents interface {
	Look(cluster types.NamespacedName, instances map[string]agentclient.Instance) agentclient.Answers
}

// Reader of everything that there is of a cluster.
type Reader struct {
	// Client reads from the cache, but Secrets.
	Client client.Client
	// Live reads from the API server itself.
	Live    client.Reader
	Agents  Agents
	Secrets *secretcache.Cache
	// Refusals of pods that are missing.
	Refusals *refusals.Memory
	Now      func() time.Time
	// Agent of pods that are created from now on.
	Agent workload.Agent
	// Images of the suite by major version.
	Images map[int32]string
}
