// Package agentapi is what controllers and the agent say to each other: the configuration that a controller writes into
// a ConfigMap for the agent, the state that the agent answers over mutual TLS, the jobs that controllers give to the
// agent in a Job's pod, and the results that come back as the pod's termination message.
//
// It knows neither Kubernetes nor PostgreSQL, so that both sides can import it.
package agentapi

// AnnotationDataGeneration on a database pod is the data generation that it was started on, and on the EndpointSlice of the
// primary the one that clients were led to last.
const AnnotationDataGeneration = "howdah.dev/data-generation"

// StopTimeoutSeconds is how long a database pod may take to end, unless the agent is told otherwise.
const StopTimeoutSeconds int64 = 120

// Where things are in a pod. docs/architecture.md has the same as a table.
const (
	VolumeDir      = "/var/lib/howdah"
	WALVolumeDir   = "/var/lib/howdah-wal" // the WAL volume of an instance that has one: beside VolumeDir, as generation.Volume expects it
	RunDir         = "/run/howdah"
	BinDir         = "/run/howdah/bin"        // the agent is copied there, or its image is mounted there
	ExtensionsDir  = "/run/howdah/extensions" // images of spec.postgresql.extensionImages, a folder each
	PasswdFile     = "/run/howdah/passwd"     // is mounted as /etc/passwd where the image doesn't know the user
	AgentPath      = "/run/howdah/bin/agent"
	WALPath        = "/run/howdah/bin/wal" // archive_command and restore_command
	SocketDir      = "/var/run/postgresql"
	ConfigFile     = "/etc/howdah/config/agent.json"
	WindowFile     = "/etc/howdah/config/window.json"     // where there is a maintenance window
	RepositoryFile = "/etc/howdah/config/repository.json" // where it is known which repository is at the place that WAL goes to
	QueriesFile    = "/etc/howdah/config/queries.json"    // []customqueries.Query, where there are some
	InstanceDir    = "/etc/howdah/instance"               // Secret <cluster>-instance, in database pods
	TLSDir         = "/etc/howdah/instance/tls"           // certificate of the server and of the agent
	PeerTLSDir     = "/etc/howdah/instance/peer-tls"      // client certificate of ReplicationRole
	RolesFile      = "/etc/howdah/instance/roles.json"    // Passwords of declared roles
	AppDir         = "/etc/howdah/instance/app"           // password of the application
	SuperuserDir   = "/etc/howdah/superuser"
	S3Dir          = "/etc/howdah/s3"
	KeysDir        = "/etc/howdah/keys"    // keys of an encrypted repository, a file each
	SecretsDir     = "/etc/howdah/secrets" // Secrets that go into a backup, a folder each
	PodInfoDir     = "/etc/howdah/podinfo"
	JobFile        = "/etc/howdah/job/job.json"
	ConnectionDir  = "/etc/howdah/connection" // ConfigMap <cluster>-connection, in Jobs
	SQLDir         = "/etc/howdah/sql"        // ConfigMaps with SQL, a folder each, in init Jobs
	ClientTLSDir   = "/etc/howdah/client-tls" // client certificate of an internal role, in Jobs
	OldImageDir    = "/old"                   // image volume of the old version, in upgrade Jobs
	TerminationLog = "/dev/termination-log"
)

// Ports of a database pod.
const (
	PostgresPort = 5432
	AgentPort    = 8443 // the routes over TCP, and the datagrams between agents over UDP
	MetricsPort  = 9187 // where Prometheus looks; the routes are those of AgentPort
)

// Routes of the agent's HTTPS server. All but the probes ask for a client certificate of the cluster's CA.
const (
	RouteLive    = "/livez"      // GET, no certificate: the agent runs and its supervisor answers
	RouteReady   = "/readyz"     // GET, no certificate: PostgreSQL accepts connections
	RouteStatus  = "/v1/status"  // GET: Status
	RouteRestart = "/v1/restart" // POST RestartRequest: restart PostgreSQL in place, if parameters wait for it
	RouteMetrics = "/metrics"    // GET: Prometheus

	RouteSwitchover = "/v1/switchover" // POST SwitchoverRequest: give the primary's role to another instance
	RouteReinit     = "/v1/reinit"     // POST ReinitRequest: clone the data of this replica again
	RouteFault      = "/v1/fault"      // POST FaultRequest: cause a fault for a failover drill
	RouteFollow     = "/v1/follow"     // POST FollowRequest, from another agent: a replica tells how far it is
	RoutePosition   = "/v1/position"   // GET, from another agent: Position
	RouteFailsafe   = "/v1/failsafe"   // POST FailsafeRequest, from another agent: does it still follow?
	RouteWord       = "/v1/word"       // POST WordKey, from another agent: with which key will it sign datagrams?
	RoutePooler     = "/v1/pooler"     // POST PoolerRequest, from a pooler: may clients come here? It is answered when that changes, or after PoolerHold
)

// Common names of client certificates.
const (
	ControllerCommonName = "howdah-db-controller" // may call the agent
	BackupRole           = "howdah_backup"
	UpgradeRole          = "howdah_upgrade"
	ReplicationRole      = "howdah_replication" // agents among each other, and replicas at their primary
	PoolerRole           = "howdah_pooler"      // poolers, at agents and to look passwords up
	FailoverDrillRole    = "howdah_failoverdrill"
	MetricsCommonName    = "howdah-metrics" // Prometheus; there is no role of this name
)
