package config

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component"
	"howdah.dev/howdah/cmd/db-controller/internal/component/secret"
	"howdah.dev/howdah/pkg/agentapi"
)

// ConnectionMap is the ConfigMap that says how to connect, for Jobs and people. Nothing in it is secret.
func ConnectionMap(cluster *v1alpha1.PostgresCluster, bundle []byte) *corev1.ConfigMap {
	database, _ := secret.Application(cluster)
	names := component.NamesOf(cluster)
	return &corev1.ConfigMap{
		ObjectMeta: component.Meta(cluster, names.Connection(), component.Access),
		Data: map[string]string{
			secret.KeyHost:      component.Host(cluster, names.Primary()),
			secret.KeyPort:      strconv.Itoa(agentapi.PostgresPort),
			secret.KeyDatabase:  database,
			"sslmode":           "verify-full",
			secret.KeyAuthority: string(bundle),
		},
	}
}

// Connection is the same for status.
func Connection(cluster *v1alpha1.PostgresCluster) *v1alpha1.ConnectionStatus {
	names := component.NamesOf(cluster)
	status := &v1alpha1.ConnectionStatus{
		Host: component.Host(cluster, names.Primary()), Port: agentapi.PostgresPort,
		ConfigMap: names.Connection(), AppSecret: names.App(), BackupSecret: names.Backup(), UpgradeSecret: names.Upgrade(),
	}
	if cluster.Spec.SuperuserAccess {
		status.SuperuserSecret = names.Superuser()
	}
	return status
}
