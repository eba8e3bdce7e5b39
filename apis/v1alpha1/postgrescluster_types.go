package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PostgresCluster is a PostgreSQL database: a primary server and, with more than one instance, its replicas.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=pgc,categories=howdah
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.instances,statuspath=.status.readyInstances,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Instances",type=integer,JSONPath=`.spec.instances`
// +kubebuilder:printcolumn:name="Serving",type=integer,JSONPath=`.status.readyInstances`
// +kubebuilder:printcolumn:name="Primary",type=string,JSONPath=`.status.primary`
// +kubebuilder:printcolumn:name="Replicated",type=string,JSONPath=`.status.conditions[?(@.type=="Replicated")].status`
// +kubebuilder:printcolumn:name="Archiving",type=string,JSONPath=`.status.conditions[?(@.type=="Archiving")].status`
// +kubebuilder:printcolumn:name="Updated",type=string,JSONPath=`.status.conditions[?(@.type=="Updated")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 40",message="metadata.name is too long: the names of a cluster's objects contain it; use at most 40 characters"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be a DNS label that begins with a letter (a-z, 0-9 and '-'), because Services are named after it; for example: shop"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.failover) || ((!has(self.spec.failover.fenced) || self.spec.failover.fenced.all(n, n.substring(0, size(n) - 2) == self.metadata.name)) && (!has(self.spec.failover.instances) || self.spec.failover.instances.all(i, i.name.substring(0, size(i.name) - 2) == self.metadata.name)))",messageExpression="'spec.failover must name instances of this cluster: write ' + self.metadata.name + '-0 for the first one'"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.services) || !has(self.spec.services.additional) || self.spec.services.additional.all(s, !has(s.instance) || (s.instance.matches('-[0-8]$') && s.instance.substring(0, size(s.instance) - 2) == self.metadata.name))",messageExpression="'spec.services.additional must name instances of this cluster: write instance: ' + self.metadata.name + '-1 for the second one'"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.delayedReplicas) || self.spec.delayedReplicas.all(d, d.name.substring(0, size(d.name) - 2) == self.metadata.name)",messageExpression="'spec.delayedReplicas must name instances of this cluster: write ' + self.metadata.name + '-2 for the third one'"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.bootstrap) || !has(self.spec.bootstrap.volumes) || !has(self.spec.bootstrap.volumes.instance) || (self.spec.bootstrap.volumes.instance.matches('-[0-8]$') && self.spec.bootstrap.volumes.instance.substring(0, size(self.spec.bootstrap.volumes.instance) - 2) == self.metadata.name)",messageExpression="'spec.bootstrap.volumes.instance must name an instance of this cluster: write ' + self.metadata.name + '-0 for the first one'"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.bootstrap) || !has(self.spec.bootstrap.clone) || self.spec.bootstrap.clone.cluster.name != self.metadata.name",message="spec.bootstrap.clone.cluster.name is the name of this PostgresCluster itself: name the one whose data is copied"
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || !has(self.spec.standby) || !has(self.spec.standby.promote)",optionalOldSelf=true,message="spec.standby.promote can't be set when the cluster is created, because it would be promoted with data that nobody has looked at: remove it, and set it once the condition FollowsSource is True; or use a Restore"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec.standby) || has(self.spec.standby) || (has(oldSelf.status) && has(oldSelf.status.standby) && has(oldSelf.status.standby.promotedAt))",message="spec.standby can't be removed before the promotion, and removing it promotes nothing: set spec.standby.promote to EndOfArchive, and remove spec.standby once status.standby.promotedAt is set"
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || !self.metadata.name.startsWith('howdah-')",optionalOldSelf=true,message="metadata.name must not begin with howdah-, which is reserved for the objects of Howdah itself; choose another name, such as shop"
type PostgresCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec PostgresClusterSpec `json:"spec"`
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status PostgresClusterStatus `json:"status,omitempty"`
}

// PostgresClusterList is a list of PostgresClusters.
// +kubebuilder:object:root=true
type PostgresClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PostgresCluster `json:"items"`
}

// PostgresClusterSpec is the desired state of a cluster.
// +kubebuilder:validation:XValidation:rule="has(self.bootstrap) == has(oldSelf.bootstrap) && (!has(self.bootstrap) || (has(self.bootstrap.__import__) && has(self.bootstrap.__import__.online) && has(oldSelf.bootstrap.__import__) && has(oldSelf.bootstrap.__import__.online) ? self.bootstrap.__import__.source == oldSelf.bootstrap.__import__.source && has(self.bootstrap.__import__.databases) == has(oldSelf.bootstrap.__import__.databases) && (!has(self.bootstrap.__import__.databases) || self.bootstrap.__import__.databases == oldSelf.bootstrap.__import__.databases) && self.bootstrap.__import__.database == oldSelf.bootstrap.__import__.database && self.bootstrap.__import__.owner == oldSelf.bootstrap.__import__.owner && has(self.bootstrap.__import__.connections) == has(oldSelf.bootstrap.__import__.connections) && (!has(self.bootstrap.__import__.connections) || self.bootstrap.__import__.connections == oldSelf.bootstrap.__import__.connections) && has(self.bootstrap.__import__.locales) == has(oldSelf.bootstrap.__import__.locales) && (!has(self.bootstrap.__import__.locales) || self.bootstrap.__import__.locales == oldSelf.bootstrap.__import__.locales) && has(self.bootstrap.__import__.excludeExtensions) == has(oldSelf.bootstrap.__import__.excludeExtensions) && (!has(self.bootstrap.__import__.excludeExtensions) || self.bootstrap.__import__.excludeExtensions == oldSelf.bootstrap.__import__.excludeExtensions) : self.bootstrap == oldSelf.bootstrap))",message="spec.bootstrap can't be changed, except cutover, maxRetainedWAL and abandonSource of import.online, because the data exists already: create a new PostgresCluster, or a Restore"
// +kubebuilder:validation:XValidation:rule="!has(self.standby) || !has(self.bootstrap)",message="spec.standby can't be combined with spec.bootstrap, because the first data comes from the archive of the source: remove one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.standby) || has(oldSelf.standby)",message="spec.standby can't be added to a cluster that exists, because its data would be lost: create a new PostgresCluster with spec.standby"
// +kubebuilder:validation:XValidation:rule="!has(self.standby) || !has(self.standby.reinit) || self.standby.reinit != 'FromNewerBackup' || !has(self.storage.wal)",message="spec.standby.reinit: FromNewerBackup can't be combined with spec.storage.wal yet: remove one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.standby) || has(self.standby.promote) || !has(self.hibernate) || !self.hibernate",message="spec.hibernate: true can't be combined with a standby, which would not follow meanwhile: remove spec.hibernate, or delete the PostgresCluster"
// +kubebuilder:validation:XValidation:rule="!has(self.deletionPolicy) || !has(self.deletionPolicy.finalBackup) || !self.deletionPolicy.finalBackup || has(self.archive)",message="spec.deletionPolicy.finalBackup: true needs a place for the backup: set spec.archive.repository.name to a BackupRepository, or set finalBackup: false"
// +kubebuilder:validation:XValidation:rule="!has(self.synchronous) || self.synchronous.number < self.instances",message="spec.synchronous.number must be less than spec.instances, because the primary does not count: use a smaller number or more instances, or remove spec.synchronous"
// +kubebuilder:validation:XValidation:rule="!has(self.roles) || self.roles.all(r, r.name != (has(self.bootstrap) && has(self.bootstrap.initdb) ? self.bootstrap.initdb.owner : has(self.bootstrap) && has(self.bootstrap.restore) ? self.bootstrap.restore.owner : has(self.bootstrap) && has(self.bootstrap.__import__) ? self.bootstrap.__import__.owner : has(self.bootstrap) && has(self.bootstrap.volumes) ? self.bootstrap.volumes.owner : has(self.bootstrap) && has(self.bootstrap.clone) ? self.bootstrap.clone.owner : has(self.standby) ? self.standby.owner : 'app') || (r.ensure != 'Absent' && !has(r.passwordSecret) && r.login))",message="spec.roles: the application's role logs in with the password in Secret <name>-app; remove its passwordSecret, login and ensure"
// +kubebuilder:validation:XValidation:rule="!has(self.databases) || self.databases.all(d, d.name != (has(self.bootstrap) && has(self.bootstrap.initdb) ? self.bootstrap.initdb.database : has(self.bootstrap) && has(self.bootstrap.restore) ? self.bootstrap.restore.database : has(self.bootstrap) && has(self.bootstrap.__import__) ? self.bootstrap.__import__.database : has(self.bootstrap) && has(self.bootstrap.volumes) ? self.bootstrap.volumes.database : has(self.bootstrap) && has(self.bootstrap.clone) ? self.bootstrap.clone.database : has(self.standby) ? self.standby.database : 'app') || d.ensure != 'Absent')",message="spec.databases: the application's database can't be dropped here; delete the PostgresCluster instead"
// +kubebuilder:validation:XValidation:rule="self.instances == 1 || !has(self.failover) || !has(self.failover.instances) || self.failover.instances.filter(i, has(i.never) && i.never && i.name.matches('-[0-8]$') && int(i.name.substring(size(i.name) - 1)) < self.instances).size() < self.instances",message="spec.failover.instances: at least one instance must be able to become primary; remove never: true from one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.autoscale) || !has(self.autoscale.resources) || !has(self.autoscale.resources.mode) || self.autoscale.resources.mode != 'Apply' || ((!has(self.autoscale.resources.cpu) || (has(self.resources) && has(self.resources.requests) && 'cpu' in self.resources.requests)) && (!has(self.autoscale.resources.memory) || (has(self.resources) && has(self.resources.requests) && 'memory' in self.resources.requests)))",message="spec.autoscale.resources.mode: Apply needs spec.resources.requests of what it changes, because a running pod can't be given its first request, such as requests: {cpu: 500m, memory: 1Gi}"
// +kubebuilder:validation:XValidation:rule="!has(self.autoscale) || !has(self.autoscale.replicas) || !has(self.autoscale.replicas.cpuPercent) || (has(self.resources) && ((has(self.resources.requests) && 'cpu' in self.resources.requests) || (has(self.resources.limits) && 'cpu' in self.resources.limits)))",message="spec.autoscale.replicas.cpuPercent needs to know how much CPU a replica has: set spec.resources.requests.cpu, or use sessionsPercent"
// +kubebuilder:validation:XValidation:rule="!has(self.autoscale) || !has(self.autoscale.replicas) || !has(self.autoscale.resources) || !has(self.autoscale.replicas.mode) || !has(self.autoscale.resources.mode) || self.autoscale.replicas.mode != 'Apply' || self.autoscale.resources.mode != 'Apply' || !has(self.autoscale.replicas.cpuPercent) || !has(self.autoscale.resources.cpu)",message="spec.autoscale can't apply both replicas.cpuPercent and resources.cpu, because each changes what the other measures: use replicas.sessionsPercent, or mode: Recommend for one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.autoscale) || !has(self.autoscale.replicas) || !has(self.synchronous) || self.synchronous.number <= self.autoscale.replicas.max",message="spec.autoscale.replicas.max must not be less than spec.synchronous.number, because that many replicas have to confirm each commit: use a larger max"
// +kubebuilder:validation:XValidation:rule="!has(self.delayedReplicas) || has(self.archive)",message="spec.delayedReplicas needs spec.archive, because a delayed replica that starts again finds older WAL only there: set spec.archive.repository.name, or remove spec.delayedReplicas"
// +kubebuilder:validation:XValidation:rule="!has(self.delayedReplicas) || self.delayedReplicas.filter(d, d.name.matches('-[0-8]$') && int(d.name.substring(size(d.name) - 1)) < self.instances).size() + (has(self.failover) && has(self.failover.instances) ? self.failover.instances.filter(i, has(i.never) && i.never && i.name.matches('-[0-8]$') && int(i.name.substring(size(i.name) - 1)) < self.instances && !self.delayedReplicas.exists(d, d.name == i.name)).size() : 0) < self.instances",message="spec.delayedReplicas: at least one instance must be able to become primary; remove one of them, or never: true from spec.failover.instances"
// +kubebuilder:validation:XValidation:rule="!has(self.delayedReplicas) || !has(self.synchronous) || self.delayedReplicas.filter(d, d.name.matches('-[0-8]$') && int(d.name.substring(size(d.name) - 1)) < self.instances).size() + self.synchronous.number < self.instances",message="spec.synchronous.number must be less than the number of instances without spec.delayedReplicas, because no commit waits for those: use a smaller number or more instances"
// +kubebuilder:validation:XValidation:rule="!has(self.synchronous) || !has(self.postgresql) || !has(self.postgresql.parameters) || !('synchronous_commit' in self.postgresql.parameters) || self.postgresql.parameters['synchronous_commit'] in ['on','remote_apply']",message="spec.postgresql.parameters.synchronous_commit must be on or remote_apply beside spec.synchronous, because other values acknowledge a commit before a replica has it on disk: remove it, and set it for the roles or transactions that may lose commits"
// +kubebuilder:validation:XValidation:rule="self.version >= 16 || !has(self.databases) || !self.databases.exists(d, has(d.subscriptions))",message="spec.databases[].subscriptions needs spec.version 17 or later, because version 15 runs the triggers of the tables as a superuser: use a later version, or create the subscription yourself"
// +kubebuilder:validation:XValidation:rule="!has(self.bootstrap) || !has(self.bootstrap.initdb) || !has(self.bootstrap.initdb.localeProvider) || self.bootstrap.initdb.localeProvider != 'Builtin' || self.version >= 17",message="spec.bootstrap.initdb.localeProvider: Builtin needs spec.version 17 or later; use ICU or Libc, or a later version"
// +kubebuilder:validation:XValidation:rule="!has(self.bootstrap) || !has(self.bootstrap.initdb) || !has(self.bootstrap.initdb.icuRules) || self.version >= 16",message="spec.bootstrap.initdb.icuRules needs spec.version 16 or later: remove it, or use a later version"
// +kubebuilder:validation:XValidation:rule="!has(self.bootstrap) || !has(self.bootstrap.initdb) || !has(self.bootstrap.initdb.locale) || self.bootstrap.initdb.locale != 'PG_UNICODE_FAST' || self.version >= 18",message="spec.bootstrap.initdb.locale: PG_UNICODE_FAST needs spec.version 18 or later; use C.UTF-8, or a later version"
// +kubebuilder:validation:XValidation:rule="!has(self.bootstrap) || !has(self.bootstrap.initdb) || !has(self.bootstrap.initdb.walSegmentSize) || quantity(self.storage.size).asApproximateFloat() >= 20.0 * quantity(self.bootstrap.initdb.walSegmentSize).asApproximateFloat() || self.bootstrap.initdb.walSegmentSize in ['1Mi','2Mi','4Mi','8Mi','16Mi']",message="spec.storage.size must be at least 20 times spec.bootstrap.initdb.walSegmentSize, because PostgreSQL keeps several segments: use smaller segments or a larger volume"
// +kubebuilder:validation:XValidation:rule="has(self.runAs) == has(oldSelf.runAs) && (!has(self.runAs) || self.runAs == oldSelf.runAs)",message="spec.runAs can't be changed, because PostgreSQL's files belong to the user: create a new PostgresCluster, and move the data with a Restore"
// +kubebuilder:validation:XValidation:rule="!has(self.replicationSlots) || self.replicationSlots.all(s, s.ensure == 'Absent') || (has(self.postgresql) && has(self.postgresql.parameters) && 'wal_level' in self.postgresql.parameters && self.postgresql.parameters['wal_level'] == 'logical')",message="spec.replicationSlots needs logical decoding: set spec.postgresql.parameters.wal_level to logical"
// +kubebuilder:validation:XValidation:rule="self.version >= 18 || !has(self.postgresql) || !has(self.postgresql.extensionImages) || size(self.postgresql.extensionImages) == 0",message="spec.postgresql.extensionImages needs spec.version 18 or later, because earlier servers look for extensions only in their own image: set spec.image to an image that has the extensions"
// +kubebuilder:validation:XValidation:rule="!has(self.postgresql) || !has(self.postgresql.extensionImages) || !has(self.postgresql.parameters) || !['extension_control_path','dynamic_library_path'].exists(n, n in self.postgresql.parameters)",message="spec.postgresql.parameters can't set extension_control_path and dynamic_library_path beside spec.postgresql.extensionImages, which Howdah sets them from: remove them"
// +kubebuilder:validation:XValidation:rule="self.instances > 1 || (quantity(self.storage.size).compareTo(quantity(oldSelf.storage.size)) >= 0 && (!has(self.storage.storageClassName) || (has(oldSelf.storage.storageClassName) && self.storage.storageClassName == oldSelf.storage.storageClassName)))",message="spec.storage of a single instance can't move to a smaller volume or to another StorageClass, because there would be no second copy of the data meanwhile: set spec.instances to 2 first, wait until the condition Replicated is True, and then change spec.storage"
type PostgresClusterSpec struct {
	// Version is the desired major version of PostgreSQL. status.version is what runs. The first version is taken from
	// here, a higher one is reached by an Upgrade, and a lower one is never acted on.
	// +kubebuilder:validation:XValidation:rule="self in [15, 17, 18]",message="spec.version must be 15, 17 or 18, the versions that Howdah is tested with: 14 is no longer maintained, and 16 was never run"
	Version int32 `json:"version"`

	// Image is the PostgreSQL image, of the major version that runs. Any stock image works. By default, the suite's image
	// for the version is used. Changing it restarts PostgreSQL; this is how minor versions are applied.
	// +optional
	// +kubebuilder:validation:MinLength=1
	Image string `json:"image,omitempty"`

	// Instances is the number of PostgreSQL servers: one primary; the others are replicas that follow it. With more than
	// one, a lost primary is replaced within seconds. When the number is reduced, the instances with the highest numbers
	// are removed, and deletionPolicy decides about their volumes.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 9",message="spec.instances must be from 1 to 9: use 1 for a single server, 3 for a primary with two replicas"
	Instances int32 `json:"instances,omitempty"`

	// Synchronous configures synchronous replication: a commit is acknowledged once this many replicas have it, and
	// survives the loss of the primary. By default, replication is asynchronous, and a failover may lose the last commits.
	// +optional
	Synchronous *Synchronous `json:"synchronous,omitempty"`

	// MaxLagOnFailover is how far a replica may lag behind its primary, in bytes of WAL, and still take over. WAL that the
	// primary wrote in the last two seconds doesn't count: a busy one writes more than this in that time.
	// +optional
	// +kubebuilder:default="16Mi"
	// +kubebuilder:validation:XValidation:rule="quantity(self).compareTo(quantity('1Mi')) >= 0 && quantity(self).compareTo(quantity('1Ti')) <= 0",message="spec.maxLagOnFailover must be from 1Mi to 1Ti: a segment of WAL is 16Mi"
	MaxLagOnFailover *resource.Quantity `json:"maxLagOnFailover,omitempty"`

	// Switchover requests another primary, once for each token. The outcome is in status.switchover.
	// +optional
	Switchover *Switchover `json:"switchover,omitempty"`

	// Reinit requests that one replica is cloned again from the primary, once for each token. The outcome is in status.reinit.
	// +optional
	Reinit *Reinit `json:"reinit,omitempty"`

	// Repair says when the agents repair instances automatically. By default, they do so at once.
	// +optional
	Repair *Repair `json:"repair,omitempty"`

	// DeepChecks says how the agents look for damage, and for what is out of reach. By default, they check every index once a day or
	// less often, a little at a time.
	// +optional
	DeepChecks *DeepChecks `json:"deepChecks,omitempty"`

	// Failover says how a primary that fails is replaced, and by whom. By default, any instance takes over within seconds.
	// +optional
	Failover *Failover `json:"failover,omitempty"`

	// DelayedReplicas replay WAL late. They never become primary, no commit waits for them, and the Services and Poolers for readers
	// don't lead to them. They need spec.archive.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=4
	DelayedReplicas []DelayedReplica `json:"delayedReplicas,omitempty"`

	// Hibernate stops all instances and keeps their volumes, until it is false again.
	// +optional
	Hibernate bool `json:"hibernate,omitempty"`

	// StopTimeoutSeconds is how long an instance may take to stop, from the moment at which Kubernetes asks for it. It is the grace
	// period of its pod. A server that has not shut down 5 s before its end is stopped without a checkpoint, and recovers at its
	// next start. A change applies to pods that start from then on.
	// +optional
	// +kubebuilder:default=120
	// +kubebuilder:validation:XValidation:rule="self >= 30 && self <= 3600",message="spec.stopTimeoutSeconds must be from 30 to 3600: a server with much memory takes minutes to write it out; for example: 300"
	StopTimeoutSeconds int64 `json:"stopTimeoutSeconds,omitempty"`

	// MaintenanceWindow is when PostgreSQL may be restarted to apply changes. By default, it is restarted at once. Failed
	// instances are started at any time.
	// +optional
	MaintenanceWindow *MaintenanceWindow `json:"maintenanceWindow,omitempty"`

	// Updates says which updates of PostgreSQL are rolled out without being asked for each time. By default, they are only shown.
	// +optional
	Updates *Updates `json:"updates,omitempty"`

	// Scheduling says where the pods of the instances and of the cluster's Jobs may run. A change applies to pods that start
	// from then on.
	// +optional
	Scheduling Scheduling `json:"scheduling,omitempty"`

	// ImagePullSecrets are Secrets of the type kubernetes.io/dockerconfigjson, in the same namespace, with which the images of
	// the instances and of the cluster's Jobs are pulled. A change applies to pods that start from then on.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	ImagePullSecrets []LocalReference `json:"imagePullSecrets,omitempty"`

	// Pods is what the pods of the cluster have in addition: labels, annotations, environment variables, volumes and containers. A
	// change replaces the pods of the instances: replicas first, then a switchover, then the former primary.
	// +optional
	Pods Pods `json:"pods,omitempty"`

	// InheritedMetadata names labels and annotations of the PostgresCluster that its volumes, Secrets, ConfigMaps and
	// Services get, too. A change restarts nothing. For pods, use spec.pods.
	// +optional
	InheritedMetadata *InheritedMetadata `json:"inheritedMetadata,omitempty"`

	// RunAs is the user of the pods of instances and Jobs. By default, user, group and fsGroup are 999, as in PostgreSQL's official
	// images. It can't be changed, because the files on the volumes belong to the user.
	// +optional
	RunAs *RunAs `json:"runAs,omitempty"`

	// Services of the cluster, such as a load balancer for clients outside of the Kubernetes cluster. By default, they can be
	// reached from within it only. A change restarts nothing.
	// +optional
	Services Services `json:"services,omitempty"`

	// NetworkPolicy limits who may reach the pods of the cluster, and whom they may reach. By default, there is no policy. A
	// change restarts nothing.
	// +optional
	NetworkPolicy *NetworkPolicy `json:"networkPolicy,omitempty"`

	// TLS of the server.
	// +optional
	TLS TLS `json:"tls,omitempty"`

	// Storage of each instance.
	Storage StorageSpec `json:"storage"`

	// Resources of the PostgreSQL container. More memory, and more or less CPU, reach running pods without a restart, and
	// so do the parameters that follow from them. shared_buffers follows with the next restart; until then it is listed in
	// status.instances[].pendingRestart. Less memory, and whatever Kubernetes can't change in a running pod, replaces the
	// pods one after the other.
	// +optional
	Resources Resources `json:"resources,omitempty"`

	// Autoscale recommends sizes that fit the load, in status.autoscale, or applies them.
	// +optional
	Autoscale *Autoscale `json:"autoscale,omitempty"`

	// Tuning is Manual, which leaves parameters of PostgreSQL to you, or Automatic, which changes those that can do no harm when a finding
	// asks for it: max_wal_size, and wal_keep_size with it. status.automaticTuning has them. By default, it is Manual.
	// +optional
	Tuning TuningPolicy `json:"tuning,omitempty"`

	// PostgreSQL is the configuration of PostgreSQL.
	// +optional
	PostgreSQL PostgreSQLSpec `json:"postgresql,omitempty"`

	// Monitoring says which metrics there are beside those of every instance, and how Prometheus finds them.
	// +optional
	Monitoring *Monitoring `json:"monitoring,omitempty"`

	// Roles beside the application's role. A role that is removed from this list stays in the database as it is.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Roles []Role `json:"roles,omitempty"`

	// Databases beside the application's database. The application's database may be listed to declare its extensions.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Databases []Database `json:"databases,omitempty"`

	// ReplicationSlots are logical replication slots for clients such as CDC tools. They need
	// spec.postgresql.parameters.wal_level: logical. A slot that is removed from this list stays as it is.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	ReplicationSlots []ReplicationSlot `json:"replicationSlots,omitempty"`

	// Bootstrap says where the data comes from. By default, a new, empty database is created.
	// +optional
	Bootstrap *Bootstrap `json:"bootstrap,omitempty"`

	// Standby makes the cluster follow the archive of another one until it is promoted. It can't be added later.
	// +optional
	Standby *Standby `json:"standby,omitempty"`

	// SuperuserAccess creates a Secret <name>-superuser with a password for the role postgres, and lets that role connect
	// with it over TLS.
	// +optional
	SuperuserAccess bool `json:"superuserAccess,omitempty"`

	// Archive says where WAL and backups are stored. By default, WAL is not archived, and backups are not possible.
	// +optional
	Archive *ArchiveSpec `json:"archive,omitempty"`

	// DeletionPolicy says what happens when the PostgresCluster is deleted. It may be changed while the deletion waits.
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// RunAs is the user of pods.
// +kubebuilder:validation:XValidation:rule="has(self.userID) != (has(self.fromNamespace) && self.fromNamespace)",message="spec.runAs must have either userID, such as 26, or fromNamespace: true"
type RunAs struct {
	// UserID is the user, group and fsGroup, such as 26 for CloudNativePG's images or 70 for Alpine's.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 4294967294",message="spec.runAs.userID must be from 1 to 4294967294, because PostgreSQL refuses to run as root: write the uid of the user postgres in the image, such as 26"
	UserID *int64 `json:"userID,omitempty"`
	// FromNamespace leaves user, group and fsGroup to the admission of the namespace, as OpenShift's restricted security
	// context constraints want it.
	// +optional
	FromNamespace bool `json:"fromNamespace,omitempty"`
}

// Resources of a container.
type Resources struct {
	// Requests of CPU and memory.
	// +optional
	Requests corev1.ResourceList `json:"requests,omitempty"`
	// Limits of CPU and memory.
	// +optional
	Limits corev1.ResourceList `json:"limits,omitempty"`
}

// PostgreSQLSpec is the configuration of PostgreSQL.
// +kubebuilder:validation:XValidation:rule="!has(self.ldapPasswordSecret) || (has(self.hba) && self.hba.exists(r, r.contains('ldapbinddn=')))",message="spec.postgresql.ldapPasswordSecret needs a line of spec.postgresql.hba that searches with it, such as: hostssl all all all ldap ldapserver=ldap.example.com ldapbasedn=dc=example ldapbinddn=cn=reader"
type PostgreSQLSpec struct {
	// Parameters of postgresql.conf. A change of a parameter that needs a restart causes one. Parameters that Howdah sets
	// itself are refused by name.
	// +optional
	// +kubebuilder:validation:MaxProperties=256
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[a-z_][a-z0-9_]*([.][a-z_][a-z0-9_]*)?$'))",message="spec.postgresql.parameters contains an invalid name: use lower case, with letters, digits and '_', such as work_mem or pg_stat_statements.max"
	// +kubebuilder:validation:XValidation:rule="!['allow_system_table_mods','ignore_system_indexes'].exists(n, n in self)",message="spec.postgresql.parameters can't set allow_system_table_mods or ignore_system_indexes, because they let every session damage the system catalogs: remove them, and set them in the session that needs them"
	// +kubebuilder:validation:XValidation:rule="!['autovacuum','track_counts'].exists(n, n in self && !(self[n].lowerAscii() in ['on','true','yes','1']))",message="spec.postgresql.parameters must not turn off autovacuum or track_counts, because tables would grow and writes end when the transaction IDs run out: remove them; a single table can have autovacuum_enabled = off"
	// +kubebuilder:validation:XValidation:rule="!('log_min_messages' in self) || !(self['log_min_messages'].lowerAscii() in ['fatal','panic'])",message="spec.postgresql.parameters.log_min_messages must not be fatal or panic, because no error would be in the log: use warning or error"
	// +kubebuilder:validation:XValidation:rule="!['ssl','ssl_ca_file','ssl_cert_file','ssl_crl_dir','ssl_crl_file','ssl_dh_params_file','ssl_key_file','ssl_library','ssl_max_protocol_version','ssl_passphrase_command','ssl_passphrase_command_supports_reload','ssl_prefer_server_ciphers','ssl_renegotiation_limit'].exists(n, n in self)",messageExpression="'spec.postgresql.parameters can\\'t set ' + ['ssl','ssl_ca_file','ssl_cert_file','ssl_crl_dir','ssl_crl_file','ssl_dh_params_file','ssl_key_file','ssl_library','ssl_max_protocol_version','ssl_passphrase_command','ssl_passphrase_command_supports_reload','ssl_prefer_server_ciphers','ssl_renegotiation_limit'].filter(n, n in self)[0] + ': Howdah makes the server\\'s certificates and renews them; remove it'"
	// +kubebuilder:validation:XValidation:rule="!['db_user_namespace','gss_accept_delegation','krb_caseins_users','krb_server_keyfile'].exists(n, n in self)",messageExpression="'spec.postgresql.parameters can\\'t set ' + ['db_user_namespace','gss_accept_delegation','krb_caseins_users','krb_server_keyfile'].filter(n, n in self)[0] + ': Howdah offers no such way to log in; remove it'"
	// +kubebuilder:validation:XValidation:rule="!['data_sync_retry','fsync','ignore_checksum_failure','ignore_invalid_pages','zero_damaged_pages'].exists(n, n in self)",messageExpression="'spec.postgresql.parameters can\\'t set ' + ['data_sync_retry','fsync','ignore_checksum_failure','ignore_invalid_pages','zero_damaged_pages'].filter(n, n in self)[0] + ': another value loses acknowledged writes or hides that they are lost; remove it'"
	// +kubebuilder:validation:XValidation:rule="!['bonjour','bonjour_name','listen_addresses','port','unix_socket_directories','unix_socket_group','unix_socket_permissions'].exists(n, n in self)",messageExpression="'spec.postgresql.parameters can\\'t set ' + ['bonjour','bonjour_name','listen_addresses','port','unix_socket_directories','unix_socket_group','unix_socket_permissions'].filter(n, n in self)[0] + ': clients reach the server through its Services, on a port and sockets that Howdah knows; remove it'"
	// +kubebuilder:validation:XValidation:rule="!['block_size','data_checksums','data_directory_mode','debug_assertions','huge_pages_status','in_hot_standby','integer_datetimes','is_superuser','lc_collate','lc_ctype','max_function_args','max_identifier_length','max_index_keys','num_os_semaphores','role','seed','segment_size','server_encoding','server_version','server_version_num','session_authorization','shared_memory_size','shared_memory_size_in_huge_pages','transaction_deferrable','transaction_isolation','transaction_read_only','wal_block_size','wal_segment_size'].exists(n, n in self)",messageExpression="'spec.postgresql.parameters can\\'t set ' + ['block_size','data_checksums','data_directory_mode','debug_assertions','huge_pages_status','in_hot_standby','integer_datetimes','is_superuser','lc_collate','lc_ctype','max_function_args','max_identifier_length','max_index_keys','num_os_semaphores','role','seed','segment_size','server_encoding','server_version','server_version_num','session_authorization','shared_memory_size','shared_memory_size_in_huge_pages','transaction_deferrable','transaction_isolation','transaction_read_only','wal_block_size','wal_segment_size'].filter(n, n in self)[0] + ': PostgreSQL determines it itself and does not read it from a configuration file; remove it'"
	// +kubebuilder:validation:XValidation:rule="!['include','include_dir','include_if_exists'].exists(n, n in self)",messageExpression="'spec.postgresql.parameters can\\'t set ' + ['include','include_dir','include_if_exists'].filter(n, n in self)[0] + ': it would read settings from another file; remove it'"
	// +kubebuilder:validation:XValidation:rule="!['password_encryption'].exists(n, n in self)",messageExpression="'spec.postgresql.parameters can\\'t set ' + ['password_encryption'].filter(n, n in self)[0] + ': passwords are kept as scram-sha-256 only; remove it'"
	// +kubebuilder:validation:XValidation:rule="!['archive_command','archive_library','archive_mode'].exists(n, n in self)",messageExpression="'spec.postgresql.parameters can\\'t set ' + ['archive_command','archive_library','archive_mode'].filter(n, n in self)[0] + ': the agent archives WAL; name a backup repository instead; remove it'"
	// +kubebuilder:validation:XValidation:rule="!['cluster_name','hot_standby','primary_conninfo','primary_slot_name','promote_trigger_file','synchronized_standby_slots','synchronous_standby_names'].exists(n, n in self)",messageExpression="'spec.postgresql.parameters can\\'t set ' + ['cluster_name','hot_standby','primary_conninfo','primary_slot_name','promote_trigger_file','synchronized_standby_slots','synchronous_standby_names'].filter(n, n in self)[0] + ': the agent sets which instance follows which; set spec.instances and spec.synchronous instead; remove it'"
	// +kubebuilder:validation:XValidation:rule="!['event_source','lc_messages','log_destination','log_directory','log_error_verbosity','log_file_mode','log_filename','log_line_prefix','log_rotation_age','log_rotation_size','log_timezone','log_truncate_on_rotation','logging_collector','syslog_facility','syslog_ident','syslog_sequence_numbers','syslog_split_messages'].exists(n, n in self)",messageExpression="'spec.postgresql.parameters can\\'t set ' + ['event_source','lc_messages','log_destination','log_directory','log_error_verbosity','log_file_mode','log_filename','log_line_prefix','log_rotation_age','log_rotation_size','log_timezone','log_truncate_on_rotation','logging_collector','syslog_facility','syslog_ident','syslog_sequence_numbers','syslog_split_messages'].filter(n, n in self)[0] + ': the agent reads the server\\'s log from standard error and writes it as JSON; remove it'"
	// +kubebuilder:validation:XValidation:rule="!['archive_cleanup_command','recovery_end_command','recovery_min_apply_delay','recovery_target','recovery_target_action','recovery_target_inclusive','recovery_target_lsn','recovery_target_name','recovery_target_time','recovery_target_timeline','recovery_target_xid','restore_command'].exists(n, n in self)",messageExpression="'spec.postgresql.parameters can\\'t set ' + ['archive_cleanup_command','recovery_end_command','recovery_min_apply_delay','recovery_target','recovery_target_action','recovery_target_inclusive','recovery_target_lsn','recovery_target_name','recovery_target_time','recovery_target_timeline','recovery_target_xid','restore_command'].filter(n, n in self)[0] + ': the agent controls recovery; create a Restore instead; remove it'"
	// +kubebuilder:validation:XValidation:rule="!['allow_alter_system','restart_after_crash'].exists(n, n in self)",messageExpression="'spec.postgresql.parameters can\\'t set ' + ['allow_alter_system','restart_after_crash'].filter(n, n in self)[0] + ': the agent supervises the server; remove it'"
	// +kubebuilder:validation:XValidation:rule="!['allow_in_place_tablespaces','config_file','data_directory','external_pid_file','hba_file','ident_file','stats_temp_directory'].exists(n, n in self)",messageExpression="'spec.postgresql.parameters can\\'t set ' + ['allow_in_place_tablespaces','config_file','data_directory','external_pid_file','hba_file','ident_file','stats_temp_directory'].filter(n, n in self)[0] + ': the files lie where the agent keeps them; remove it'"
	// +kubebuilder:validation:XValidation:rule="!['full_page_writes','wal_log_hints'].exists(n, n in self)",messageExpression="'spec.postgresql.parameters can\\'t set ' + ['full_page_writes','wal_log_hints'].filter(n, n in self)[0] + ': without it a backup or a rewind would be wrong; remove it'"
	// +kubebuilder:validation:XValidation:rule="!('ssl_min_protocol_version' in self) || self['ssl_min_protocol_version'] in ['TLSv1.2','TLSv1.3']",message="spec.postgresql.parameters.ssl_min_protocol_version must be TLSv1.2 or TLSv1.3, because earlier versions are broken"
	Parameters map[string]ParameterValue `json:"parameters,omitempty"`
	// HBA has lines of pg_hba.conf, such as: hostssl orders reporting 10.0.0.0/8 scram-sha-256. The first line that matches
	// a session decides. Howdah's own lines come before these; after them comes one that lets everybody in with a password.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	HBA []HBARule `json:"hba,omitempty"`
	// Ident has lines of pg_ident.conf, MAP NAME ROLE, such as: staff alice@example.com reporting. A rule of hba uses them with map=staff.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Ident []IdentLine `json:"ident,omitempty"`
	// LDAPPasswordSecret has the password with which rules of hba that name ldapbinddn search a directory. Changing the Secret changes
	// the password, without a restart. It is in no ConfigMap, and in no backup.
	// +optional
	LDAPPasswordSecret *PasswordSecret `json:"ldapPasswordSecret,omitempty"`
	// LDAPCA has the CAs of the directories that rules of hba connect to over TLS (ldapscheme=ldaps or ldaptls=1), in
	// place of those of the image. A change applies from the next login on, without a restart.
	// +optional
	LDAPCA *CABundle `json:"ldapCA,omitempty"`
	// Log configures what the agent writes of the server's log.
	// +optional
	Log *PostgreSQLLog `json:"log,omitempty"`
	// ExtensionImages have extensions that spec.image lacks. Kubernetes mounts them into the pods, and the server finds the extensions
	// there by extension_control_path and dynamic_library_path. They need version 18 or later, and nodes that can mount images. A change
	// restarts the instances, replicas first. spec.databases[].extensions creates the extensions in databases.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	ExtensionImages []ExtensionImage `json:"extensionImages,omitempty"`
}

// ExtensionImage is an image with extensions.
type ExtensionImage struct {
	// Name of the image in this list, such as pgvector.
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// Image has share/extension and lib, or the files of a Debian package. It is pulled with spec.imagePullSecrets. Use
	// another tag for each build.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image"`
}

// PostgreSQLLog configures what the agent writes of the server's log.
type PostgreSQLLog struct {
	// Redaction says what is left out. Literals: the literals of SQL, wherever the server quotes it. Off: nothing, so passwords
	// and personal data of statements are in the log, for everybody who can read it.
	// +optional
	// +kubebuilder:default=Literals
	Redaction LogRedaction `json:"redaction,omitempty"`
}

// LogRedaction says what is left out of the server's log.
// +kubebuilder:validation:Enum=Literals;Off
type LogRedaction string

// What is left out of the server's log.
const (
	RedactLiterals LogRedaction = "Literals"
	RedactNothing  LogRedaction = "Off"
)

// ParameterValue is the value of a parameter of postgresql.conf, without quotes.
// +kubebuilder:validation:MaxLength=1024
// +kubebuilder:validation:Pattern=`^[^\n\r\x00]*$`
type ParameterValue string

// HBARule is one line of pg_hba.conf.
// +kubebuilder:validation:MaxLength=512
// +kubebuilder:validation:XValidation:rule="self.matches('^hostssl([ \\t]+[^ \\t\\n\\r#]+){4,}[ \\t]*$')",message="spec.postgresql.hba must have lines such as: hostssl DATABASE USER ADDRESS METHOD; connections are over TLS only, and comments are not allowed"
// +kubebuilder:validation:XValidation:rule="!self.contains('ldapbindpasswd') && !self.contains('radiussecrets')",message="spec.postgresql.hba can't have ldapbindpasswd or radiussecrets, because rules are also in a ConfigMap, in the history of the spec and in backups: for LDAP, write the password into a Secret, and name that in spec.postgresql.ldapPasswordSecret"
// +kubebuilder:validation:XValidation:rule="!self.matches('[ \\t]ldap[a-z]+=[^\" \\t]*,')",message="spec.postgresql.hba has a value with a comma, which ends a value in pg_hba.conf: write it in double quotes, such as ldapbasedn=\"dc=example,dc=com\""
type HBARule string

// IdentLine is one line of pg_ident.conf.
// +kubebuilder:validation:MaxLength=512
// +kubebuilder:validation:XValidation:rule="self.matches('^[ \\t]*([^ \\t\\n\\r\\x00#\",@]([^ \\t\\n\\r\\x00#\"@]*[^ \\t\\n\\r\\x00#\",@])?|\"[^\"\\n\\r\\x00#]+\")([ \\t]+([^ \\t\\n\\r\\x00#\",@]([^ \\t\\n\\r\\x00#\"]*[^ \\t\\n\\r\\x00#\",])?|\"[^\"\\n\\r\\x00#]+\")){2}[ \\t]*$') && !self.matches('^[ \\t]*(\"?(howdah|include[a-z_]*)\"?[ \\t]|include)') && !self.contains(',@') && !self.trim().endsWith('\\\\')",message="spec.postgresql.ident must have lines of three words, MAP NAME ROLE, such as: staff alice@example.com reporting; the map howdah belongs to Howdah, and comments, include, files (@name), a comma at the end of a word and a backslash at the end of the line are not allowed"
type IdentLine string

// ArchiveSpec says where WAL and backups are stored.
type ArchiveSpec struct {
	// Repository is the BackupRepository, in the same namespace.
	Repository LocalReference `json:"repository"`
	// WALShipIntervalSeconds is the interval at which the new part of the open WAL segment is uploaded, so that losing all
	// volumes loses no more than that. By default, WAL is archived when its segment is complete, or after archive_timeout.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 3600",message="spec.archive.walShipIntervalSeconds must be from 1 to 3600, such as 5; remove it to archive whole segments only"
	WALShipIntervalSeconds *int32 `json:"walShipIntervalSeconds,omitempty"`
	// DamagedPages applies to backups that no person requests: the final backup, and safety backups of a Restore or an
	// Upgrade. With Fail, they fail if pages of the database fail their checksum. With Report, they contain these pages
	// and list them. The default is Report if a BackupSchedule of the cluster says so, otherwise Fail.
	// +optional
	DamagedPages DamagedPagesPolicy `json:"damagedPages,omitempty"`
}

// DeletionPolicy says what happens when a PostgresCluster is deleted.
// +kubebuilder:validation:XValidation:rule="!has(self.database) || self.database != 'Orphan' || !has(self.finalBackup) || !self.finalBackup",message="spec.deletionPolicy.finalBackup: true can't be combined with database: Orphan, because the database keeps running: remove finalBackup, or create a Backup before you delete the cluster"
type DeletionPolicy struct {
	// Database is stopped and deleted, or with Orphan released: only the PostgresCluster is deleted. The pods, volumes, Services and
	// Secrets stay, and the database keeps serving and failing over, but nothing renews its certificates, which are valid for 30 days
	// at least. A PostgresCluster that is created under the same name takes it over without a restart. No final backup is taken. The
	// default is Delete.
	// +optional
	Database DatabasePolicy `json:"database,omitempty"`
	// FinalBackup takes a last backup before anything is deleted; the deletion waits for it. The default is true if
	// spec.archive is set.
	// +optional
	FinalBackup *bool `json:"finalBackup,omitempty"`
	// Volumes are deleted with the cluster, or retained. The default is Delete if there is a final backup, otherwise
	// Retain. Where a final backup is taken, they are retained anyway unless the last primary said, when it ended, that all of
	// its WAL is archived, and one with the previous data of a Restore or an Upgrade is retained until a person has decided on that.
	// +optional
	Volumes VolumePolicy `json:"volumes,omitempty"`
}

// DatabasePolicy says what happens to a running database.
// +kubebuilder:validation:Enum=Delete;Orphan
type DatabasePolicy string

const (
	// DatabaseDelete stops the database and deletes what it consists of.
	DatabaseDelete DatabasePolicy = "Delete"
	// DatabaseOrphan leaves the database running, without an owner.
	DatabaseOrphan DatabasePolicy = "Orphan"
)

// VolumePolicy says what happens to volumes.
// +kubebuilder:validation:Enum=Retain;Delete
type VolumePolicy string

const (
	// VolumesRetain leaves the volumes behind.
	VolumesRetain VolumePolicy = "Retain"
	// VolumesDelete deletes the volumes.
	VolumesDelete VolumePolicy = "Delete"
)
