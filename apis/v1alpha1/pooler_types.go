package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Pooler is PgBouncer in front of the primary of a PostgresCluster, or of its replicas. While the primary is handed over, restarted or replaced, clients
// between transactions wait instead of getting an error.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=pgpool,categories=howdah
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.instances,statuspath=.status.instances,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.cluster.name`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Access",type=string,JSONPath=`.spec.access`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Instances",type=integer,JSONPath=`.spec.instances`
// +kubebuilder:printcolumn:name="Serving",type=integer,JSONPath=`.status.readyInstances`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 40",message="metadata.name is too long: the names of a pooler's objects contain it; use at most 40 characters"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be a DNS label that begins with a letter (a-z, 0-9 and '-'), because a Service is named after it; for example: shop"
type Pooler struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec PoolerSpec `json:"spec"`
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status PoolerStatus `json:"status,omitempty"`
}

// PoolerList is a list of Poolers.
// +kubebuilder:object:root=true
type PoolerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Pooler `json:"items"`
}

// PoolerSpec is the desired state of a pooler.
// +kubebuilder:validation:XValidation:rule="self.cluster == oldSelf.cluster",message="spec.cluster can't be changed, because clients would be led to other data: create another Pooler"
// +kubebuilder:validation:XValidation:rule="self.access == oldSelf.access",message="spec.access can't be changed, because clients expect to be able to write, or not to be: create another Pooler"
// +kubebuilder:validation:XValidation:rule="!has(self.maxLag) || self.access == 'ReadOnly'",message="spec.maxLag is for poolers with spec.access: ReadOnly: remove it"
// +kubebuilder:validation:XValidation:rule="!has(self.tls) || !has(self.tls.minProtocolVersion) || !has(self.pgbouncer) || !has(self.pgbouncer.parameters) || !('client_tls_protocols' in self.pgbouncer.parameters)",message="spec.pgbouncer.parameters can't set client_tls_protocols where spec.tls.minProtocolVersion does: remove one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.tls) || !has(self.tls.ciphers) || !has(self.pgbouncer) || !has(self.pgbouncer.parameters) || !self.pgbouncer.parameters.exists(k, k in ['client_tls_ciphers','client_tls13_ciphers'])",message="spec.pgbouncer.parameters can't set client_tls_ciphers or client_tls13_ciphers where spec.tls.ciphers does: remove one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.handover) || !has(self.handover.onTimeout) || self.handover.onTimeout != 'TakeBack' || (self.mode != 'Session' && self.access == 'ReadWrite')",message="spec.handover.onTimeout: TakeBack is for poolers that pause, with spec.access: ReadWrite and spec.mode: Transaction or Statement; remove it"
type PoolerSpec struct {
	// Cluster is the PostgresCluster, in the same namespace.
	Cluster LocalReference `json:"cluster"`
	// Access says where clients are sent: ReadWrite to the primary, ReadOnly to the replicas, to each in turn.
	// +optional
	// +kubebuilder:default=ReadWrite
	Access PoolAccess `json:"access,omitempty"`
	// MaxLag is how much of the primary's WAL a replica may have yet to replay while clients are sent to it. For access ReadOnly; 16Mi by default.
	// Where it is set, clients are sent to no replica whose lag has not been known for 8 s, such as while there is no primary: they wait.
	// Without it, they stay with the replicas that the primary named last.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(self).compareTo(quantity('64Ki')) >= 0 && quantity(self).compareTo(quantity('1Ti')) <= 0",message="spec.maxLag must be from 64Ki to 1Ti, such as 16Mi"
	MaxLag *resource.Quantity `json:"maxLag,omitempty"`
	// Instances is the number of pods with PgBouncer. Each has pools of its own.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 32",message="spec.instances must be from 1 to 32: use 2, so that one is there while the other is replaced"
	Instances int32 `json:"instances"`
	// Mode says for how long a client has a connection to the server: Transaction, Statement or Session. In mode Session, the pooler can't keep clients
	// waiting during a handover: they lose their connections.
	// +optional
	// +kubebuilder:default=Transaction
	Mode PoolMode `json:"mode,omitempty"`
	// PoolSize is the number of connections to the server for each pair of database and user, in each instance. All of them together must fit
	// in max_connections of PostgreSQL.
	// +optional
	// +kubebuilder:default=20
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	PoolSize int32 `json:"poolSize,omitempty"`
	// MaxClientConnections is the number of clients that each instance accepts.
	// +optional
	// +kubebuilder:default=1000
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	MaxClientConnections int32 `json:"maxClientConnections,omitempty"`
	// Databases have limits of their own, in each instance.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Databases []PoolerDatabase `json:"databases,omitempty"`
	// Users have limits of their own, in each instance. For a user that is named here, they take precedence over those of databases.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Users []PoolerUser `json:"users,omitempty"`
	// Handover says what happens when the primary hands over.
	// +optional
	Handover PoolerHandover `json:"handover,omitempty"`
	// TLS says how clients connect to the pooler. A change is applied without a restart, to connections that are opened
	// after it.
	// +optional
	TLS *PoolerTLS `json:"tls,omitempty"`
	// PgBouncer is the configuration of PgBouncer.
	// +optional
	PgBouncer PgBouncerSpec `json:"pgbouncer,omitempty"`
	// Image of PgBouncer 1.25.2 or later, with pgbouncer in its PATH. By default, the suite's image. Changing it replaces the pods one
	// by one.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image,omitempty"`
	// DrainTimeout is how long clients may keep their connections to a pod that is to end, such as 60s. It accepts no new ones meanwhile.
	// Transactions that are open then may still take 10 seconds.
	// +optional
	// +kubebuilder:default="60s"
	// +kubebuilder:validation:XValidation:rule="self >= duration('0s') && self <= duration('1h')",message="spec.drainTimeout must be from 0s to 1h, such as 60s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:MaxLength=32
	DrainTimeout *metav1.Duration `json:"drainTimeout,omitempty"`
	// Resources of PgBouncer.
	// +optional
	Resources Resources `json:"resources,omitempty"`
	// Scheduling says where the pods run.
	// +optional
	Scheduling Scheduling `json:"scheduling,omitempty"`
	// ImagePullSecrets are Secrets that images are pulled with.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	ImagePullSecrets []LocalReference `json:"imagePullSecrets,omitempty"`
	// Pods is what the pods of the pooler have in addition: labels and annotations, also of their ServiceAccount, and a RuntimeClass. A
	// change replaces the pods one by one; one of serviceAccountAnnotations doesn't.
	// +optional
	Pods PodMetadata `json:"pods,omitempty"`
	// Service is a template for the Service <name>-pooler. Clients connect to it over TLS only.
	// +optional
	Service ServiceTemplate `json:"service,omitempty"`
}

// PoolLimits are how many connections a pooler opens and accepts for one database or user.
type PoolLimits struct {
	// PoolSize replaces spec.poolSize: the number of connections to the server for each pair of database and user.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	PoolSize *int32 `json:"poolSize,omitempty"`
	// ReservePoolSize is the number of connections that are opened in addition once a client has waited for reserve_pool_timeout, 5 s
	// by default.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	ReservePoolSize *int32 `json:"reservePoolSize,omitempty"`
	// MaxConnections is the number of connections to the server in all pools together. By default, there is no limit.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	MaxConnections *int32 `json:"maxConnections,omitempty"`
	// MaxClientConnections is the number of clients. By default, only spec.maxClientConnections limits it.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	MaxClientConnections *int32 `json:"maxClientConnections,omitempty"`
}

// PoolerDatabase has the limits of a database.
// +kubebuilder:validation:XValidation:rule="has(self.poolSize) || has(self.reservePoolSize) || has(self.maxConnections) || has(self.maxClientConnections)",message="a database in spec.databases needs a limit, such as poolSize: 5; every database can be reached without being named there"
// +kubebuilder:validation:XValidation:rule="self.name != 'pgbouncer'",message="spec.databases can't name pgbouncer, which is the console of PgBouncer"
type PoolerDatabase struct {
	// Name of the database.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9_][A-Za-z0-9_.-]*$')",message="a name in spec.databases must consist of letters, digits, '_', '.' and '-', such as shop: PgBouncer's configuration has no others without quotes"
	Name       string `json:"name"`
	PoolLimits `json:",inline"`
}

// PoolerUser has the limits of a user.
// +kubebuilder:validation:XValidation:rule="has(self.poolSize) || has(self.reservePoolSize) || has(self.maxConnections) || has(self.maxClientConnections)",message="a user in spec.users needs a limit, such as poolSize: 5; every role can log in without being named there"
// +kubebuilder:validation:XValidation:rule="!self.name.startsWith('howdah_')",message="spec.users can't name a role of Howdah's own"
type PoolerUser struct {
	// Name of the role.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9_][A-Za-z0-9_.-]*$')",message="a name in spec.users must consist of letters, digits, '_', '.' and '-', such as app: PgBouncer's configuration has no others without quotes"
	Name       string `json:"name"`
	PoolLimits `json:",inline"`
}

// PoolerHandover says what happens when the primary hands over.
type PoolerHandover struct {
	// OnTimeout says what happens to transactions that are still open after 5 s. End: they end with an error, and the handover takes place.
	// TakeBack: a switchover that was requested, or that a rolling change needs, is refused, and nothing was stopped; a rolling change tries again after a minute.
	// Where the pod of the primary ends, or PostgreSQL restarts in place, they always end.
	// +optional
	// +kubebuilder:default=End
	OnTimeout HandoverTimeout `json:"onTimeout,omitempty"`
}

// HandoverTimeout says what happens to transactions that don't end in time.
// +kubebuilder:validation:Enum=End;TakeBack
type HandoverTimeout string

const (
	// HandoverEnd ends them.
	HandoverEnd HandoverTimeout = "End"
	// HandoverTakeBack lets them continue, and the primary, too.
	HandoverTakeBack HandoverTimeout = "TakeBack"
)

// PoolerTLS says how clients connect to a pooler: always over TLS.
// +kubebuilder:validation:XValidation:rule="!has(self.clientCABundle) || has(self.clientCertificates)",message="spec.tls.clientCABundle verifies certificates of clients: set spec.tls.clientCertificates to Required or Optional, or remove it"
// +kubebuilder:validation:XValidation:rule="!has(self.ciphers) || !has(self.minProtocolVersion) || self.minProtocolVersion != 'TLSv1.3' || self.ciphers.all(c, c.startsWith('TLS_'))",message="spec.tls.ciphers has some of TLS 1.2, which spec.tls.minProtocolVersion refuses: list only those that begin with TLS_"
type PoolerTLS struct {
	// MinProtocolVersion is TLSv1.2 (default) or TLSv1.3.
	// +optional
	MinProtocolVersion TLSProtocolVersion `json:"minProtocolVersion,omitempty"`
	// Ciphers that clients may use, by OpenSSL's names. Those that begin with TLS_ are of TLS 1.3, the others of TLS
	// 1.2. For a version of which none is listed, OpenSSL's defaults apply.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=9
	Ciphers []TLSCipher `json:"ciphers,omitempty"`
	// ClientCertificates says whether a client needs a certificate, in addition to its password. With Required, one
	// without a certificate of the CA is refused. With Optional, a client is refused only if it presents a certificate
	// of another CA.
	// +optional
	ClientCertificates ClientCertificates `json:"clientCertificates,omitempty"`
	// ClientCABundle contains CA certificates, in PEM, with which the certificates of clients are verified. By default,
	// the CA of the cluster, which issues certificates to roles with a certificateSecret.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	// +kubebuilder:validation:XValidation:rule="self.contains('-----BEGIN CERTIFICATE-----')",message="spec.tls.clientCABundle must contain certificates in PEM (-----BEGIN CERTIFICATE-----)"
	ClientCABundle string `json:"clientCABundle,omitempty"`
}

// TLSProtocolVersion is a version of TLS, by PostgreSQL's name.
// +kubebuilder:validation:Enum=TLSv1.2;TLSv1.3
type TLSProtocolVersion string

// TLSCipher is a cipher, by OpenSSL's name.
// +kubebuilder:validation:Enum=TLS_AES_128_GCM_SHA256;TLS_AES_256_GCM_SHA384;TLS_CHACHA20_POLY1305_SHA256;ECDHE-ECDSA-AES128-GCM-SHA256;ECDHE-ECDSA-AES256-GCM-SHA384;ECDHE-ECDSA-CHACHA20-POLY1305;ECDHE-RSA-AES128-GCM-SHA256;ECDHE-RSA-AES256-GCM-SHA384;ECDHE-RSA-CHACHA20-POLY1305
type TLSCipher string

// ClientCertificates says whether a client needs a certificate.
// +kubebuilder:validation:Enum=Optional;Required
type ClientCertificates string

const (
	// ClientCertificatesOptional verifies those that clients have.
	ClientCertificatesOptional ClientCertificates = "Optional"
	// ClientCertificatesRequired refuses clients without one.
	ClientCertificatesRequired ClientCertificates = "Required"
)

// PoolAccess says where clients are sent.
// +kubebuilder:validation:Enum=ReadWrite;ReadOnly
type PoolAccess string

const (
	// PoolReadWrite sends clients to the primary.
	PoolReadWrite PoolAccess = "ReadWrite"
	// PoolReadOnly sends clients to replicas.
	PoolReadOnly PoolAccess = "ReadOnly"
)

// PoolMode says for how long a client has a connection to the server.
// +kubebuilder:validation:Enum=Transaction;Statement;Session
type PoolMode string

const (
	// PoolTransaction gives a connection to a client for a transaction.
	PoolTransaction PoolMode = "Transaction"
	// PoolStatement gives a connection to a client for a statement.
	PoolStatement PoolMode = "Statement"
	// PoolSession gives a connection to a client for as long as it stays.
	PoolSession PoolMode = "Session"
)

// PgBouncerSpec is the configuration of PgBouncer.
type PgBouncerSpec struct {
	// Parameters of pgbouncer.ini, such as query_wait_timeout: "60". A change is read without a restart, except one of track_extra_parameters, which
	// replaces the pods one by one. Parameters that Howdah sets itself are refused.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['application_name_add_host','autodb_idle_timeout','cancel_wait_timeout','client_idle_timeout','client_login_timeout','client_tls_ciphers','client_tls13_ciphers','client_tls_ecdhcurve','client_tls_protocols','idle_transaction_timeout','ignore_startup_parameters','log_connections','log_disconnections','log_pooler_errors','log_stats','max_db_client_connections','max_db_connections','max_packet_size','max_prepared_statements','max_user_client_connections','max_user_connections','min_pool_size','pool_idle_timeout','query_timeout','query_wait_notify','query_wait_timeout','reserve_pool_size','reserve_pool_timeout','scram_iterations','server_check_delay','server_connect_timeout','server_idle_timeout','server_lifetime','server_reset_query','server_round_robin','server_tls_ciphers','server_tls13_ciphers','server_tls_protocols','stats_period','tcp_keepalive','tcp_keepcnt','tcp_keepidle','tcp_keepintvl','tcp_user_timeout','track_extra_parameters','transaction_timeout','verbose'])",messageExpression="'spec.pgbouncer.parameters can\\'t set ' + self.filter(k, !(k in ['application_name_add_host','autodb_idle_timeout','cancel_wait_timeout','client_idle_timeout','client_login_timeout','client_tls_ciphers','client_tls13_ciphers','client_tls_ecdhcurve','client_tls_protocols','idle_transaction_timeout','ignore_startup_parameters','log_connections','log_disconnections','log_pooler_errors','log_stats','max_db_client_connections','max_db_connections','max_packet_size','max_prepared_statements','max_user_client_connections','max_user_connections','min_pool_size','pool_idle_timeout','query_timeout','query_wait_notify','query_wait_timeout','reserve_pool_size','reserve_pool_timeout','scram_iterations','server_check_delay','server_connect_timeout','server_idle_timeout','server_lifetime','server_reset_query','server_round_robin','server_tls_ciphers','server_tls13_ciphers','server_tls_protocols','stats_period','tcp_keepalive','tcp_keepcnt','tcp_keepidle','tcp_keepintvl','tcp_user_timeout','track_extra_parameters','transaction_timeout','verbose']))[0] + ': PgBouncer has no such parameter, or Howdah sets it from another field, such as spec.mode, spec.poolSize and spec.maxClientConnections; remove it'"
	// +kubebuilder:validation:XValidation:rule="['autodb_idle_timeout','cancel_wait_timeout','client_idle_timeout','client_login_timeout','idle_transaction_timeout','pool_idle_timeout','query_timeout','query_wait_timeout','reserve_pool_timeout','server_check_delay','server_idle_timeout','server_lifetime','transaction_timeout'].all(k, !(k in self) || self[k].matches('^[0-9]+([.][0-9]+)?$'))",messageExpression="'spec.pgbouncer.parameters.' + ['autodb_idle_timeout','cancel_wait_timeout','client_idle_timeout','client_login_timeout','idle_transaction_timeout','pool_idle_timeout','query_timeout','query_wait_timeout','reserve_pool_timeout','server_check_delay','server_idle_timeout','server_lifetime','transaction_timeout'].filter(k, k in self && !self[k].matches('^[0-9]+([.][0-9]+)?$'))[0] + ' must be a number of seconds, such as \\'60\\', without a unit'"
	// +kubebuilder:validation:XValidation:rule="['application_name_add_host','log_connections','log_disconnections','log_pooler_errors','log_stats','max_db_client_connections','max_db_connections','max_prepared_statements','max_user_client_connections','max_user_connections','min_pool_size','query_wait_notify','reserve_pool_size','server_round_robin','stats_period','tcp_keepalive','tcp_user_timeout','verbose'].all(k, !(k in self) || self[k].matches('^(0|[1-9][0-9]{0,9})$') && int(self[k]) <= 2147483647)",messageExpression="'spec.pgbouncer.parameters.' + ['application_name_add_host','log_connections','log_disconnections','log_pooler_errors','log_stats','max_db_client_connections','max_db_connections','max_prepared_statements','max_user_client_connections','max_user_connections','min_pool_size','query_wait_notify','reserve_pool_size','server_round_robin','stats_period','tcp_keepalive','tcp_user_timeout','verbose'].filter(k, k in self && !(self[k].matches('^(0|[1-9][0-9]{0,9})$') && int(self[k]) <= 2147483647))[0] + ' must be a whole number from 0 to 2147483647, without leading zeros; a switch is \\'1\\' or \\'0\\', and tcp_user_timeout is in milliseconds'"
	// +kubebuilder:validation:XValidation:rule="!('server_connect_timeout' in self) || self['server_connect_timeout'].matches('^[1-9][0-9]{0,9}$')",message="spec.pgbouncer.parameters.server_connect_timeout must be a whole number of seconds of at least 1, such as '3', without a unit: PgBouncer ignores fractions, and 0 seconds are too short for any connection"
	// +kubebuilder:validation:XValidation:rule="!('tcp_keepcnt' in self) || self['tcp_keepcnt'].matches('^(0|[1-9][0-9]{0,2})$') && int(self['tcp_keepcnt']) <= 127",message="spec.pgbouncer.parameters.tcp_keepcnt must be a whole number from 0 to 127, such as '3': Linux refuses more, and PgBouncer then refuses every client; 0 leaves it to the system"
	// +kubebuilder:validation:XValidation:rule="['tcp_keepidle','tcp_keepintvl'].all(k, !(k in self) || self[k].matches('^(0|[1-9][0-9]{0,4})$') && int(self[k]) <= 32767)",messageExpression="'spec.pgbouncer.parameters.' + ['tcp_keepidle','tcp_keepintvl'].filter(k, k in self && !(self[k].matches('^(0|[1-9][0-9]{0,4})$') && int(self[k]) <= 32767))[0] + ' must be a whole number of seconds from 0 to 32767, such as \\'5\\': Linux refuses more, and PgBouncer then refuses every client; 0 leaves it to the system'"
	// +kubebuilder:validation:XValidation:rule="!('max_packet_size' in self) || self['max_packet_size'].matches('^[1-9][0-9]{3,9}$') && int(self['max_packet_size']) >= 1024 && int(self['max_packet_size']) <= 2147483647",message="spec.pgbouncer.parameters.max_packet_size must be a whole number of bytes from 1024 to 2147483647: with less, PgBouncer refuses the packets that clients log in with"
	// +kubebuilder:validation:XValidation:rule="!('scram_iterations' in self) || self['scram_iterations'].matches('^[1-9][0-9]{0,5}$') && int(self['scram_iterations']) <= 100000",message="spec.pgbouncer.parameters.scram_iterations must be a whole number from 1 to 100000, such as '4096': with more, all clients wait while PgBouncer computes a SCRAM secret"
	// +kubebuilder:validation:XValidation:rule="['client_tls_protocols','server_tls_protocols'].all(k, !(k in self) || self[k].matches('(?i)^(all|default|secure|tlsv1[.][0-3])(, ?(all|default|secure|tlsv1[.][0-3]))*$'))",messageExpression="'spec.pgbouncer.parameters.' + ['client_tls_protocols','server_tls_protocols'].filter(k, k in self && !self[k].matches('(?i)^(all|default|secure|tlsv1[.][0-3])(, ?(all|default|secure|tlsv1[.][0-3]))*$'))[0] + ' must be a list of TLS versions, such as \\'tlsv1.2,tlsv1.3\\', or \\'secure\\' or \\'all\\''"
	// +kubebuilder:validation:XValidation:rule="['client_tls_ciphers','server_tls_ciphers'].all(k, !(k in self) || self[k].matches('^[A-Za-z0-9_:+!@=.,-]+$'))",messageExpression="'spec.pgbouncer.parameters.' + ['client_tls_ciphers','server_tls_ciphers'].filter(k, k in self && !self[k].matches('^[A-Za-z0-9_:+!@=.,-]+$'))[0] + ' must be a cipher list of OpenSSL, without spaces, such as \\'HIGH:!aNULL\\''"
	// +kubebuilder:validation:XValidation:rule="['client_tls13_ciphers','server_tls13_ciphers'].all(k, !(k in self) || self[k].matches('^(TLS_AES_128_GCM_SHA256|TLS_AES_256_GCM_SHA384|TLS_CHACHA20_POLY1305_SHA256|TLS_AES_128_CCM_SHA256|TLS_AES_128_CCM_8_SHA256)(:(TLS_AES_128_GCM_SHA256|TLS_AES_256_GCM_SHA384|TLS_CHACHA20_POLY1305_SHA256|TLS_AES_128_CCM_SHA256|TLS_AES_128_CCM_8_SHA256))*$'))",messageExpression="'spec.pgbouncer.parameters.' + ['client_tls13_ciphers','server_tls13_ciphers'].filter(k, k in self && !self[k].matches('^(TLS_AES_128_GCM_SHA256|TLS_AES_256_GCM_SHA384|TLS_CHACHA20_POLY1305_SHA256|TLS_AES_128_CCM_SHA256|TLS_AES_128_CCM_8_SHA256)(:(TLS_AES_128_GCM_SHA256|TLS_AES_256_GCM_SHA384|TLS_CHACHA20_POLY1305_SHA256|TLS_AES_128_CCM_SHA256|TLS_AES_128_CCM_8_SHA256))*$'))[0] + ' must be a list of TLS 1.3 ciphers by their names in OpenSSL, such as \\'TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256\\''"
	// +kubebuilder:validation:XValidation:rule="!('client_tls_ecdhcurve' in self) || self['client_tls_ecdhcurve'] in ['auto','none','prime256v1','secp384r1','secp521r1']",message="spec.pgbouncer.parameters.client_tls_ecdhcurve must be 'auto', 'none', or a curve: 'prime256v1', 'secp384r1' or 'secp521r1'"
	Parameters map[string]PgBouncerValue `json:"parameters,omitempty"`
}

// PgBouncerValue is the value of a parameter of pgbouncer.ini.
// +kubebuilder:validation:MaxLength=256
// +kubebuilder:validation:Pattern=`^[^\n\r\x00]*$`
type PgBouncerValue string

// PoolerStatus is the observed state of a pooler. Written by the pooler-controller.
type PoolerStatus struct {
	// ObservedGeneration is the metadata.generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions: Ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Instances is the number of pods.
	// +optional
	Instances int32 `json:"instances"`
	// ReadyInstances is the number of pods that accept clients.
	// +optional
	ReadyInstances int32 `json:"readyInstances"`
	// Selector of the pods, for the scale subresource.
	// +optional
	Selector string `json:"selector,omitempty"`
	// Host is the name by which clients reach the pooler. User, password, database and ca.crt are those of the cluster.
	// +optional
	Host string `json:"host,omitempty"`
	// Image of PgBouncer.
	// +optional
	Image string `json:"image,omitempty"`
}

// Reasons of a Pooler that are its own. Written by the pooler-controller; read by people.
const (
	// ReasonAwaitingCertificate: the db-controller has not issued the certificate of the pooler yet.
	ReasonAwaitingCertificate = "AwaitingCertificate"
	// ReasonNoPoolerImage: there is no image of PgBouncer.
	ReasonNoPoolerImage = "NoPoolerImage"
	// ReasonNoReplica: the cluster has no replica that clients could be sent to.
	ReasonNoReplica = "NoReplica"
	// ReasonUpdating: all instances accept clients, and are replaced one by one.
	ReasonUpdating = "Updating"
	// ReasonDegraded: some instances accept clients, and others don't.
	ReasonDegraded = "Degraded"
)
