package agentapi

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"howdah.dev/howdah/pkg/objstore"
)

// Config is agent.json: what the agent of a database pod shall do. The pod's own name comes from the environment
// variable POD_NAME, its address from POD_IP.
type Config struct {
	Cluster    string `json:"cluster"`
	Namespace  string `json:"namespace"`
	ClusterUID string `json:"clusterUID"`
	// SpecGeneration is metadata.generation of the PostgresCluster that the configuration was made from. It tells a later configuration from an earlier one,
	// and doesn't count for Hash: few changes of spec change anything here.
	SpecGeneration int64 `json:"specGeneration,omitempty"`
	// SpecUID is that of the PostgresCluster whose SpecGeneration it is. One that took a database over counts anew, whereas ClusterUID stays.
	SpecUID string `json:"specUID,omitempty"`
	// DataGeneration to run; the agent points `current` at it before it starts PostgreSQL.
	DataGeneration string `json:"dataGeneration"`
	// Adoptions counts how many times the cluster was given other data to run. An agent whose volume was told of more refuses the
	// configuration: it comes from a store of the API server that was restored from a backup.
	Adoptions    int64 `json:"adoptions,omitempty"`
	MajorVersion int   `json:"majorVersion"`
	// Parameters of postgresql.conf that the user asks for.
	Parameters map[string]string `json:"parameters,omitempty"`
	// MemoryBytes and CPUMillis of the container, for defaults; 0 is unknown.
	MemoryBytes int64 `json:"memoryBytes,omitempty"`
	CPUMillis   int64 `json:"cpuMillis,omitempty"`
	// Database and Owner of the application; made on the first start and after a restore if missing.
	Database string `json:"database"`
	Owner    string `json:"owner"`
	// SuperuserAccess lets the role postgres connect with the password in SuperuserDir.
	SuperuserAccess bool `json:"superuserAccess,omitempty"`
	// Archive is where WAL goes; nil: nowhere.
	Archive *Archive `json:"archive,omitempty"`
	// EndpointSlice is the object that the agent of the primary writes its address to.
	EndpointSlice string `json:"endpointSlice"`
	// Instances of the cluster; with more than one the agents elect. It is 1 only when no other pod is left.
	Instances int `json:"instances,omitempty"`
	// DataInstance is the pod that begins the data generation: its volume had every commit when that was decided. Empty:
	// it is the one that has the original.
	DataInstance string `json:"dataInstance,omitempty"`
	// Lease that they elect over.
	Lease string `json:"lease,omitempty"`
	// PodDomain completes the name of a pod to the one in its certificate: <cluster>-pods.<namespace>.svc. No DNS has it.
	PodDomain string `json:"podDomain,omitempty"`
	// Synchronous replication; nil: asynchronous.
	Synchronous *Synchronous `json:"synchronous,omitempty"`
	// MaxLagBytes is how far behind a replica may be to take over; 0 is the default.
	MaxLagBytes int64 `json:"maxLagBytes,omitempty"`
	// HBA are a person's own lines of pg_hba.conf.
	HBA []string `json:"hba,omitempty"`
	// Ident are a person's own lines of pg_ident.conf.
	Ident []string `json:"ident,omitempty"`
	// LDAPPassword: rules with ldapbinddn have the password that stands in RolesFile under LDAPPasswordKey.
	LDAPPassword bool `json:"ldapPassword,omitempty"`
	// LogLiterals: those of SQL stay in the server's log.
	LogLiterals bool `json:"logLiterals,omitempty"`
	// Released are data generations that nobody wants any more: they are removed from the volume, but for the current one.
	Released []string `json:"released,omitempty"`
	// Failover says how a primary that fails is replaced; nil: at once, by any replica.
	Failover *Failover `json:"failover,omitempty"`
	// Repair says when agents repair their instances by themselves; nil: always.
	Repair *Repair `json:"repair,omitempty"`
	// DeepChecks that are not as by default; nil: all are.
	DeepChecks *DeepChecks `json:"deepChecks,omitempty"`
	// Declared roles and databases; nil: none.
	Declared *Declared `json:"declared,omitempty"`
	// DelaySeconds of replicas that replay WAL late, by pod.
	DelaySeconds map[string]int64 `json:"delaySeconds,omitempty"`
	// ReplicationSlots that are declared.
	ReplicationSlots []ReplicationSlot `json:"replicationSlots,omitempty"`
	// FailoverDrill is the UID of the one that writes rows; empty: none does, so its role and schema are removed.
	FailoverDrill string `json:"failoverDrill,omitempty"`
	// ReplicasLast: all instances are about to be stopped, and a replica ends only when it has all that its primary has written.
	ReplicasLast bool `json:"replicasLast,omitempty"`
	// ReplayLimitSeconds is how long such a replica replays at most once its primary has ended; 0: as long as its grace period allows.
	ReplayLimitSeconds int `json:"replayLimitSeconds,omitempty"`
}

// Synchronous says on how many replicas a commit has to be before it is acknowledged.
type Synchronous struct {
	Number int `json:"number"`
	// Required: commits wait until there are this many. Else as many as there are will do.
	Required bool `json:"required,omitempty"`
	// Degrade: until there were this many once in the data generation, as many as there are will do.
	Degrade bool `json:"degrade,omitempty"`
}

// Archive says where WAL goes. The lineage is <system identifier>-<DataGeneration>.
type Archive struct {
	// Repository with CredentialsDir set to S3Dir where there is a Secret.
	Repository objstore.Config `json:"repository"`
	// WALShipIntervalSeconds is how often what is written of the open segment is shipped; 0: only whole segments are archived.
	WALShipIntervalSeconds int32 `json:"walShipIntervalSeconds,omitempty"`
}

// Hash identifies the configuration; the agent answers with the hash that it has applied.
func (c Config) Hash() string {
	c.SpecGeneration, c.SpecUID = 0, ""
	return hash(c)
}

func hash(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain structs of strings and numbers always marshal
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}
