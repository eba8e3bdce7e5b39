package reading

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/howdah/cmd/db-controller/internal/component/secret"
	"howdah.dev/howdah/cmd/db-controller/internal/condition"
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
	clients, directories := servertls.Clients(o.Cluster.Spec.TLS.ClientCABundle), servertls.Directories(o.Cluster.Spec.PostgreSQL.LDAPCA)
	if err := errors.Join(r.readBundle(ctx, o, &clients), r.readBundle(ctx, o, &directories)); err != nil {
		return err
	}
	var clientsTrusted, directoriesTrusted condition.Finding
	o.ServerTLS.Clients, clientsTrusted = clients.Decide(in.Kept.Clients, o.Agents, o.Now)
	o.ServerTLS.LDAP, directoriesTrusted = directories.Decide(in.Kept.LDAP, o.Agents, o.Now)
	o.CertificatesReady = servertls.All(o.CertificatesReady, clientsTrusted, directoriesTrusted)
	return nil
}

// readBundle reads the CAs of a person's own. The cache doesn't have their ConfigMaps.
func (r *Reader) readBundle(ctx context.Context, o *observed.Cluster, bundle *servertls.Bundle) error {
	switch wanted := bundle.Wanted; {
	case wanted == nil:
	case wanted.ConfigMap != nil:
		configMap := &corev1.ConfigMap{}
		found, err := observed.Read(ctx, r.Live, o.Cluster.Namespace, wanted.ConfigMap.Name, configMap)
		if err != nil {
			return err
		}
		bundle.Found, bundle.Content = found, []byte(configMap.Data[wanted.ConfigMap.Key])
	default:
		secret, err := r.Secrets.Borrow(ctx, r.Client, o.Cluster, wanted.Secret.Name, o.Now)
		if err != nil {
			return err
		}
		if bundle.Found = secret != nil; bundle.Found {
			bundle.Content = secret.Data[wanted.Secret.Key]
		}
	}
	return nil
}
