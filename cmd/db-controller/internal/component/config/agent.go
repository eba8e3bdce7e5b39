// Package config builds the ConfigMaps of a cluster: what the agents are to do, and how to connect.
package config

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component"
	"howdah.dev/howdah/cmd/db-controller/internal/component/secret"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/customqueries"
	"howdah.dev/howdah/pkg/objstore"
)

// Agent is what the agents of a cluster with this many instances are to do. store is nil where nothing is archived.
func Agent(cluster *v1alpha1.PostgresCluster, instances int, store *objstore.Config) agentapi.Config {
	database, owner := secret.Application(cluster)
	config := agentapi.Config{
		Cluster: cluster.Name, Namespace: cluster.Namespace, ClusterUID: string(cluster.Identity()), SpecGeneration: cluster.Generation, SpecUID: string(cluster.UID),
		DataGeneration: cluster.Status.DataGeneration, Adoptions: cluster.Status.Adoptions, MajorVersion: int(cluster.Status.MajorVersion),
		Parameters: parameters(cluster), HBA: rules(cluster), Ident: ident(cluster), LDAPPassword: cluster.Spec.PostgreSQL.LDAPPasswordSecret != nil,
		Declared: declared(cluster), Failover: failover(cluster.Spec.Failover, cluster.Status.StorageMove.Leaving()), Repair: repair(cluster.Spec.Repair),
		DeepChecks:  deepChecks(cluster.Spec.DeepChecks),
		MemoryBytes: amount(cluster.Spec.Resources, corev1.ResourceMemory, false),
		CPUMillis:   amount(cluster.Spec.Resources, corev1.ResourceCPU, true),
		Database:    database, Owner: owner, SuperuserAccess: cluster.Spec.SuperuserAccess,
		EndpointSlice: component.NamesOf(cluster).Primary(), Released: cluster.Status.ReleasedDataGenerations,
	}
	if store != nil {
		config.Archive = &agentapi.Archive{Repository: *store}
		if spec := cluster.Spec.Archive; spec != nil && spec.WALShipIntervalSeconds != nil {
			config.Archive.WALShipIntervalSeconds = *spec.WALShipIntervalSeconds
		}
	}
	if log := cluster.Spec.PostgreSQL.Log; log != nil {
		config.LogLiterals = log.Redaction == v1alpha1.RedactNothing
	}
	config.ReplicationSlots = replicationSlots(cluster, database)
	if drill := cluster.Status.FailoverDrill; drill != nil && drill.State != v1alpha1.FailoverDrillRefused {
		config.FailoverDrill = string(drill.UID)
	}
	if instances > 1 {
		electing(cluster, instances, &config)
	}
	return config
}

// electing adds what only agents that elect need. Those of a single instance are told nothing new, so that an older one
// still computes the hash that the controller waits for.
func electing(cluster *v1alpha1.PostgresCluster, instances int, config *agentapi.Config) {
	names := component.NamesOf(cluster)
	config.Instances, config.DataInstance, config.Lease = instances, cluster.Status.DataInstance, names.Lease()
	config.PodDomain = component.Host(cluster, names.Pods())
	for i := range cluster.Spec.DelayedReplicas {
		if config.DelaySeconds == nil {
			config.DelaySeconds = map[string]int64{}
		}
		late := &cluster.Spec.DelayedReplicas[i]
		config.DelaySeconds[late.Name] = int64(late.Delay.Seconds())
	}
	if lag := cluster.Spec.MaxLagOnFailover; lag != nil {
		config.MaxLagBytes = lag.Value()
	}
	if synchronous := cluster.Spec.Synchronous; synchronous != nil {
		config.Synchronous = &agentapi.Synchronous{
			Number: int(synchronous.Number), Required: synchronous.Durability != v1alpha1.DurabilityPreferred,
			Degrade: synchronous.Durability != v1alpha1.DurabilityPreferred && synchronous.DuringRebuild == v1alpha1.RebuildDegrade,
		}
	}
	endOrder(cluster.Status.VolumeLocks, config)
}

// replayLimit is how long a replica may keep a cluster from being stopped by what it has not replayed, where nobody needs it to.
const replayLimit = 5 * time.Second

// endOrder says that replicas end after their primary, as long as the cluster is to be stopped for somebody. If the node of the primary
// is lost then, those that have everything can lead back.
func endOrder(locks []v1alpha1.VolumeLock, config *agentapi.Config) {
	needed := false
	for _, lock := range locks {
		if lock.TellingSince != nil && (lock.State == v1alpha1.VolumeLockQueued || lock.State == v1alpha1.VolumeLockGranted) {
			config.ReplicasLast, needed = true, needed || lock.ReplicasLast
		}
	}
	if config.ReplicasLast && !needed {
		config.ReplayLimitSeconds = int(replayLimit.Seconds())
	}
}

// parameters are those of a person, and those that were tuned automatically and that a person has not set.
func parameters(cluster *v1alpha1.PostgresCluster) map[string]string {
	tuned := cluster.TunedParameters()
	if len(cluster.Spec.PostgreSQL.Parameters)+len(tuned) == 0 {
		return nil
	}
	parameters := make(map[string]string, len(cluster.Spec.PostgreSQL.Parameters)+len(tuned))
	for _, from := range []map[string]v1alpha1.ParameterValue{tuned, cluster.Spec.PostgreSQL.Parameters} {
		for name, value := range from {
			parameters[name] = string(value)
		}
	}
	return parameters
}

// amount is the limit, or else the request; 0 is unknown.
func amount(resources v1alpha1.Resources, name corev1.ResourceName, milli bool) int64 {
	quantity, found := resources.Limits[name]
	if !found {
		quantity = resources.Requests[name]
	}
	if milli {
		return quantity.MilliValue()
	}
	return quantity.Value()
}

// Beside is what lies beside agent.json, in files of their own, as an agent that doesn't know them would compute another hash of the
// configuration.
type Beside struct {
	// Window: there is a maintenance window.
	Window *agentapi.Period
	// Repository: it is known which one is at the place that WAL goes to.
	Repository *agentapi.Repository
	// Queries for metrics of a person's own.
	Queries []customqueries.Query
}

// AgentMap is the ConfigMap with agent.json and what lies beside it.
func AgentMap(cluster *v1alpha1.PostgresCluster, config agentapi.Config, beside Beside) (*corev1.ConfigMap, error) {
	data, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("marshal agent.json: %w", err)
	}
	object := &corev1.ConfigMap{
		ObjectMeta: component.Meta(cluster, component.NamesOf(cluster).Config(), component.Configuration),
		Data:       map[string]string{filepath.Base(agentapi.ConfigFile): string(data)},
	}
	if beside.Window != nil {
		if err := addFile(object, agentapi.WindowFile, beside.Window); err != nil {
			return nil, err
		}
	}
	if beside.Repository != nil {
		if err := addFile(object, agentapi.RepositoryFile, beside.Repository); err != nil {
			return nil, err
		}
	}
	if len(beside.Queries) > 0 {
		if err := addFile(object, agentapi.QueriesFile, beside.Queries); err != nil {
			return nil, err
		}
	}
	return object, nil
}

func addFile(object *corev1.ConfigMap, file string, content any) error {
	data, err := json.Marshal(content)
	if err != nil {
		return fmt.Errorf("marshal %s: %w", filepath.Base(file), err)
	}
	object.Data[filepath.Base(file)] = string(data)
	return nil
}
