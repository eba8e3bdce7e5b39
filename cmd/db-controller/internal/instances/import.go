package instances

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/report"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
)

// importTask is what the init Job is told of spec.bootstrap.import. The Job begins anew whenever it ends early, on an empty data generation, so
// there is no step to record but that it has ended well.
func importTask(o *observed.Cluster) *agentapi.ImportJob {
	wanted := o.Cluster.Spec.Bootstrap.Import
	task := &agentapi.ImportJob{
		Object:   agentapi.Object{Kind: agentapi.KindConfigMap, Resource: "configmaps", Namespace: o.Cluster.Namespace, Name: o.Names.InitJob()},
		Source:   importSource(&wanted.Source),
		Database: wanted.Database, Owner: wanted.Owner, Connections: int(wanted.Connections),
		ClusterLocales:    wanted.Locales == v1alpha1.ImportLocalesCluster,
		ExcludeExtensions: texts(wanted.ExcludeExtensions),
		PreloadLibraries:  string(o.Cluster.Spec.PostgreSQL.Parameters["shared_preload_libraries"]),
	}
	if wanted.Online != nil {
		task.Online = &agentapi.OnlineImport{Cluster: string(o.Cluster.Identity())}
	}
	for _, d := range wanted.Databases {
		task.Databases = append(task.Databases, agentapi.ImportDatabase{
			Name: d.Name, ExcludeSchemas: texts(d.ExcludeSchemas), ExcludeTables: texts(d.ExcludeTables), ExcludeTableData: texts(d.ExcludeTableData),
		})
	}
	return task
}

func importSource(source *v1alpha1.ImportSource) agentapi.ImportSource {
	task := agentapi.ImportSource{
		Host: source.Host, Port: int(source.Port), User: source.User, Database: source.MaintenanceDatabase,
		SSLMode: map[v1alpha1.ImportSSLMode]string{
			v1alpha1.ImportSSLDisable: "disable", v1alpha1.ImportSSLRequire: "require", v1alpha1.ImportSSLVerifyCA: "verify-ca",
		}[source.SSLMode],
		Password: secretKey(source.PasswordSecret, "password"), CA: secretKey(source.CASecret, "ca.crt"),
	}
	task.SSLMode = cmp.Or(task.SSLMode, "verify-full")
	if login := source.ClientCertificateSecret; login != nil {
		task.Certificate, task.Key = &agentapi.SecretKey{Secret: login.Name, Key: "tls.crt"}, &agentapi.SecretKey{Secret: login.Name, Key: "tls.key"}
	}
	return task
}

func secretKey(from *v1alpha1.ImportSecretKey, usual string) *agentapi.SecretKey {
	if from == nil {
		return nil
	}
	return &agentapi.SecretKey{Secret: from.Name, Key: cmp.Or(from.Key, usual)}
}

// importSecrets are the keys that the pod mounts, by Secret.
func importSecrets(source agentapi.ImportSource) map[string][]string {
	keys := map[string][]string{}
	for _, key := range []*agentapi.SecretKey{source.Password, source.CA, source.Certificate, source.Key} {
		if key != nil {
			keys[key.Secret] = append(keys[key.Secret], key.Key)
		}
	}
	return keys
}

func texts[T ~string](names []T) (all []string) {
	for _, name := range names {
		all = append(all, string(name))
	}
	return all
}

// importing says how far it is.
func importing(o *observed.Cluster) string {
	source := o.Cluster.Spec.Bootstrap.Import.Source.Host
	return howFar(o, fmt.Sprintf("Databases are to be imported from %s.", source), fmt.Sprintf("Databases are imported from %s", source))
}

// following says how an online import follows; nothing: it doesn't yet.
func following(o *observed.Cluster) (reason, message string) {
	online := observed.ImportOnline(o)
	if observed.OnlineImport(o) == nil || online == nil || !o.InitJob.Exists || o.InitJob.Trouble() != "" {
		return "", ""
	}
	source := o.Cluster.Spec.Bootstrap.Import.Source.Host
	lag := fmt.Sprintf("lag by %s of WAL, and the source retains %s", mebibytes(online.LagBytes), mebibytes(online.RetainedBytes))
	switch online.State {
	case v1alpha1.OnlineImportFollowing:
		reason, message = v1alpha1.ReasonFollowingSource, fmt.Sprintf("The databases follow %s, %s. To cut over, close the databases there, and set spec.bootstrap.import.online.cutover: true.", source, lag)
	case v1alpha1.OnlineImportCuttingOver:
		reason, message = v1alpha1.ReasonCuttingOver, fmt.Sprintf("The cutover from %s is requested. The databases %s.", source, lag)
	case v1alpha1.OnlineImportCutOver:
		return v1alpha1.ReasonCuttingOver, fmt.Sprintf("The databases are cut over from %s, and the cluster is about to start.", source)
	default:
		return "", ""
	}
	for _, problem := range online.Problems {
		message += " " + observed.Bounded(problem, longestProblem)
	}
	return reason, message
}

// retaining says that the source may keep WAL for an import that doesn't run; empty: there is nothing of it on the source.
func retaining(o *observed.Cluster) string {
	status := o.Cluster.Status.Import
	if observed.OnlineImport(o) == nil || o.HasRun() || !begunOnSource(o) || status != nil && status.Online != nil && status.Online.State == v1alpha1.OnlineImportCutOver {
		return ""
	}
	return " Meanwhile, replication slots of the import may retain WAL on the source without a limit: if this takes long, delete the PostgresCluster, which drops them."
}

// longestProblem in a condition, in characters.
const longestProblem = 300

// howFar is what the init Job has reported.
func howFar(o *observed.Cluster, toCome, goesOn string) string {
	if trouble := o.InitJob.Trouble(); trouble != "" {
		return trouble + retaining(o)
	}
	p := o.ImportProgress()
	if p == nil || !o.InitJob.Exists {
		return toCome
	}
	text := goesOn + ": " + p.Phase
	if p.TotalBytes > 0 && p.Phase != "Analyzing" {
		text += fmt.Sprintf(", %s of %s", mebibytes(p.DoneBytes), mebibytes(p.TotalBytes))
	}
	if p.BytesPerSecond > 0 {
		text += fmt.Sprintf(", %s a second", mebibytes(p.BytesPerSecond))
	}
	if p.SecondsLeft > 0 {
		text += fmt.Sprintf(", about %s left", duration.HumanDuration(time.Duration(p.SecondsLeft)*time.Second))
	}
	return strings.TrimSpace(text + ". " + p.Message)
}

func mebibytes(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }

// RecordImport writes down that the import is complete, with what it has said, before PostgreSQL is started on it for anybody.
func RecordImport(_ context.Context, o *observed.Cluster) flow.Outcome {
	if !o.Imports() || o.HasRun() || !o.Initialized() || o.Cluster.Status.Import != nil && o.Cluster.Status.Import.CompletedAt != nil {
		return flow.Next
	}
	report.Import(o)
	at := metav1.NewTime(o.Now.Truncate(time.Second))
	o.Cluster.Status.Import.CompletedAt = &at
	return flow.Save(v1alpha1.ReasonImporting, "The import is complete, and PostgreSQL is being started.")
}

// ReleaseImportReport removes what the Job has reported: it is in the status.
func (s *Steps) ReleaseImportReport(ctx context.Context, o *observed.Cluster) flow.Outcome {
	if !o.HasRun() || o.ImportReport == nil || !o.ImportReport.DeletionTimestamp.IsZero() {
		return flow.Next
	}
	if err := s.Remove(ctx, o.ImportReport); err != nil {
		return flow.Retry(err)
	}
	return flow.Next
}
