package desired

import (
	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/config"
	"howdah.dev/howdah/cmd/db-controller/internal/component/secret"
	"howdah.dev/howdah/cmd/db-controller/internal/component/statefulset"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/repostore/location"
)

// declaring: the agents are told of something that those of the first suite don't know.
func declaring(o *observed.Cluster) bool {
	spec := &o.Cluster.Spec
	return len(spec.Roles) > 0 || len(spec.Databases) > 0 || len(spec.PostgreSQL.HBA) > 0 || len(spec.PostgreSQL.Ident) > 0
}

// Annotations are the annotations by which pods know that there is something new for them.
func Annotations(o *observed.Cluster) map[string]string {
	told := map[string]string{v1alpha1.AnnotationConfigHash: AgentConfig(o).Hash()}
	if revision := passwordRevision(o); revision != "" {
		told[statefulset.AnnotationPasswords] = revision
	}
	return told
}

// passwordRevision is that of the passwords in the Secret of database pods; empty: there is none yet.
func passwordRevision(o *observed.Cluster) string {
	if copied := o.Secret(o.Names.InstanceSecret()); copied != nil {
		return copied.Annotations[secret.AnnotationRevision]
	}
	return ""
}

// store is where the cluster archives to; nil: nowhere. Of a repository that is gone the last that was known stays: the
// database continues, and WAL waits on the volume instead of being thrown away.
func store(o *observed.Cluster) *objstore.Config {
	switch {
	case o.Cluster.Spec.Archive == nil:
		return nil
	case !repositoryUsable(o):
		return lastStore(o)
	}
	store := location.PodConfig(o.Repository)
	return &store
}

// repositoryUsable: pods can be told of it.
func repositoryUsable(o *observed.Cluster) bool { return o.Repository != nil && o.MissingSecret == "" }

// lastStore is where the agents were told last to archive to.
func lastStore(o *observed.Cluster) *objstore.Config {
	if last := o.LastConfig(); last.Archive != nil {
		return &last.Archive.Repository
	}
	return nil
}

// KnownRepository is which repository was found first at the place that WAL goes to; nil: it isn't known yet. What the agents were told
// last stays for as long as nothing else is known of the same place: they would take any repository there for the right one.
func KnownRepository(o *observed.Cluster) *agentapi.Repository {
	to := store(o)
	switch last := lastStore(o); {
	case to == nil:
		return nil
	case repositoryUsable(o) && o.Repository.Status.Identity != "":
		return &agentapi.Repository{Identity: o.Repository.Status.Identity}
	case last != nil && last.Endpoint == to.Endpoint && last.Bucket == to.Bucket && last.Prefix == to.Prefix:
		return o.LastRepository()
	}
	return nil
}

// S3Secret names the Secret with the credentials of the archive's bucket; empty: there is none.
func S3Secret(o *observed.Cluster) string {
	switch {
	case o.Cluster.Spec.Archive == nil:
		return ""
	case !repositoryUsable(o):
		return statefulset.S3Secret(o.StatefulSet())
	}
	return location.SecretName(o.Repository)
}

// KeysSecret names the Secret with the keys of an encrypted repository; empty: there is none.
func KeysSecret(o *observed.Cluster) string {
	switch {
	case o.Cluster.Spec.Archive == nil:
		return ""
	case !repositoryUsable(o):
		return statefulset.KeysSecret(o.StatefulSet())
	}
	return location.KeysSecretName(o.Repository)
}

// AgentConfig is what the agents of the cluster are told.
func AgentConfig(o *observed.Cluster) agentapi.Config {
	return config.Agent(o.Cluster, o.ToldInstances(), store(o))
}
