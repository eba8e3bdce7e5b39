package reading

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/howdah/cmd/db-controller/internal/component/secret"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/servertls"
)

// readServerTLS reads the Secret that spec.tls.serverSecret names, and decides what of it database pods are to have. It goes by what agents
// answered. A cluster that is being deleted has clients until its last backup is there, and one whose database is released after that, too.
func (r *Reader) readServerTLS(ctx context.Context, o *observed.Cluster) error {
	in := servertls.Input{
		Cluster: o.Cluster, Names: secret.ServedNames(o.Cluster), Kept: secret.KeptIn(o.Cluster, o.Secret(o.Names.InstanceSecret())),
		Fresh: !o.HasRun() && len(o.Pods) == 0, Stopped: o.Stopped(), Agents: o.Agents, Now: o.Now,
	}
	for i := range o.Pods {
		in.Pods = append(in.Pods, o.Pods[i].Name)
	}
	if wanted := o.Cluster.Spec.TLS.ServerSecret; wanted != nil {
		source, err := r.Secrets.Borrow(ctx, r.Client, o.Cluster, wanted.Name, o.Now)
		if err != nil {
			return err
		}
		in.Name, in.Source = wanted.Name, source
	}
	o.ServerTLS, o.CertificatesReady = in.Decide()
	directories, err := r.readDirectories(ctx, o)
	if err != nil {
		return err
	}
	trusted, found := directories.Decide(in.Kept.LDAP, o.Agents)
	o.ServerTLS.LDAP, o.CertificatesReady = trusted, servertls.Both(o.CertificatesReady, found)
	return nil
}

// readDirectories reads the CAs that spec.postgresql.ldapCA names. The cache doesn't have a person's ConfigMaps.
func (r *Reader) readDirectories(ctx context.Context, o *observed.Cluster) (servertls.Directories, error) {
	directories := servertls.Directories{Wanted: o.Cluster.Spec.PostgreSQL.LDAPCA}
	switch wanted := directories.Wanted; {
	case wanted == nil:
	case wanted.ConfigMap != nil:
		configMap := &corev1.ConfigMap{}
		found, err := observed.Read(ctx, r.Live, o.Cluster.Namespace, wanted.ConfigMap.Name, configMap)
		if err != nil {
			return directories, err
		}
		directories.Found, directories.Content = found, []byte(configMap.Data[wanted.ConfigMap.Key])
	default:
		secret, err := r.Secrets.Borrow(ctx, r.Client, o.Cluster, wanted.Secret.Name, o.Now)
		if err != nil {
			return directories, err
		}
		if directories.Found = secret != nil; directories.Found {
			directories.Content = secret.Data[wanted.Secret.Key]
		}
	}
	return directories, nil
}
