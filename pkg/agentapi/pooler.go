package agentapi

import (
	"fmt"
	"time"
)

// Where things are in a pod of a pooler.
const (
	PoolerConfigFile = "/etc/howdah/pooler/pooler.json"
	PoolerTLSDir     = "/etc/howdah/pooler-tls" // Secret <cluster>-pooler
	PoolerRunDir     = "/run/howdah/pooler"     // PgBouncer's configuration and its socket
)

// PoolerPort is where PgBouncer listens.
const PoolerPort = 5432

// PoolerConfig is pooler.json: what the agent of a pooler's pod shall do.
type PoolerConfig struct {
	Cluster   string `json:"cluster"`
	Namespace string `json:"namespace"`
	// EndpointSlice has the address of the primary, and PodDomain completes the name of a pod to the one in its certificate.
	EndpointSlice string `json:"endpointSlice"`
	PodDomain     string `json:"podDomain"`
	// Mode of PgBouncer: session, transaction or statement.
	Mode string `json:"mode"`
	// PoolSize is the number of server connections for each pair of database and user, MaxClientConnections those of all clients.
	PoolSize             int32 `json:"poolSize"`
	MaxClientConnections int32 `json:"maxClientConnections"`
	// Databases and Users have limits of their own.
	Databases map[string]PoolLimits `json:"databases,omitempty"`
	Users     map[string]PoolLimits `json:"users,omitempty"`
	// ReadOnly: clients are sent to the replicas, those that lack at most MaxLagBytes of the primary's WAL.
	ReadOnly    bool  `json:"readOnly,omitempty"`
	MaxLagBytes int64 `json:"maxLagBytes,omitempty"`
	// KnownLagOnly: they are sent to none whose lag is not known. Otherwise they stay with those that were named last.
	KnownLagOnly bool `json:"knownLagOnly,omitempty"`
	// ClientTLS is how clients connect.
	ClientTLS PoolerTLS `json:"clientTLS,omitzero"`
	// TakeBack: a handover is to be taken back rather than transactions be ended that take longer than a pause.
	TakeBack bool `json:"takeBack,omitempty"`
	// Parameters of pgbouncer.ini that the user asks for.
	Parameters map[string]string `json:"parameters,omitempty"`
	// DrainSeconds is how long clients may continue once the pod is to end.
	DrainSeconds int64 `json:"drainSeconds"`
}

// PoolerTLS is how clients connect; what is empty is as PgBouncer has it.
type PoolerTLS struct {
	// MinVersion is TLSv1.2 or TLSv1.3.
	MinVersion string   `json:"minVersion,omitempty"`
	Ciphers    []string `json:"ciphers,omitempty"`
	// Verify the certificates of clients, and Require them.
	Verify  bool `json:"verify,omitempty"`
	Require bool `json:"require,omitempty"`
	// CA are the certificates that they are verified with, in PEM; empty: those of the cluster.
	CA string `json:"ca,omitempty"`
}

// PoolLimits are those of one database or user; 0: there is none but what holds for all.
type PoolLimits struct {
	PoolSize             int32 `json:"poolSize,omitempty"`
	ReservePoolSize      int32 `json:"reservePoolSize,omitempty"`
	MaxConnections       int32 `json:"maxConnections,omitempty"`
	MaxClientConnections int32 `json:"maxClientConnections,omitempty"`
}

// Pausable says whether PgBouncer can keep what clients ask for while there is no primary. In session mode, each has its server.
func (c PoolerConfig) Pausable() bool { return c.Mode != "session" }

// PodHost is the name of a pod of the cluster in its certificate.
func (c PoolerConfig) PodHost(pod string) string { return fmt.Sprintf("%s.%s", pod, c.PodDomain) }

// PoolerHold is how long an agent keeps a question of a pooler open while nothing changes.
const PoolerHold = 3 * time.Second

// PoolerRequest is what a pooler asks the agent of the primary, again and again.
type PoolerRequest struct {
	// Pooler is its pod. It is empty where the pooler can't pause, as its clients keep their connections: it is told, but not waited for.
	Pooler string `json:"pooler"`
	// Process and Sequence order what one process of a pooler says: a question that was cut off for another one may arrive after it.
	Process  string `json:"process,omitempty"`
	Sequence int64  `json:"sequence,omitempty"`
	// Known is the answer that the pooler has; empty: none. Any other is given at once.
	Known string `json:"known,omitempty"`
	// Pausing and Paused name the handover that the pooler is pausing for, and that it has paused for: no transaction of its clients
	// is open any more.
	Pausing string `json:"pausing,omitempty"`
	Paused  string `json:"paused,omitempty"`
	// TakeBack asks that a handover be taken back if transactions of the pooler's clients don't end in time.
	TakeBack bool `json:"takeBack,omitempty"`
	// ReadOnly asks for the replicas that have at most MaxLagBytes of WAL yet to replay.
	ReadOnly    bool  `json:"readOnly,omitempty"`
	MaxLagBytes int64 `json:"maxLagBytes,omitempty"`
}

// PoolerAnswer says whether clients may be sent to the instance.
type PoolerAnswer struct {
	Pod string `json:"pod"`
	// Version of the answer, for PoolerRequest.Known.
	Version string `json:"version"`
	// Serving: it is the primary, accepts connections, and nobody else may be the primary.
	Serving bool `json:"serving"`
	// Handover that is about to happen; empty: none. The server ends as soon as all poolers have paused, or within HandoverSeconds.
	Handover        string  `json:"handover,omitempty"`
	HandoverSeconds float64 `json:"handoverSeconds,omitempty"`
	// DataGeneration and Term tell an earlier primary from a later one. Term is of the Lease that was created at LeaseCreated, such as
	// 2026-07-01T12:00:00Z; empty: it doesn't say.
	DataGeneration string `json:"dataGeneration"`
	LeaseCreated   string `json:"leaseCreated,omitempty"`
	Term           int64  `json:"term,omitempty"`
	// Replicas that clients of a read-only pooler may be sent to, by name, as they were seen ReplicasSeconds ago.
	Replicas        []PoolerReplica `json:"replicas,omitempty"`
	ReplicasSeconds float64         `json:"replicasSeconds,omitempty"`
	// ReplicasUnknown: the primary has not looked at its replicas yet.
	ReplicasUnknown bool `json:"replicasUnknown,omitempty"`
}

// PoolerReplica is a replica that streams from the primary.
type PoolerReplica struct {
	Pod     string `json:"pod"`
	Address string `json:"address"`
}
