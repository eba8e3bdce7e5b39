package reading

import (
	"context"

	"howdah.dev/howdah/cmd/db-controller/internal/component/secret"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/servertls"
)

// readServerTLS reads the Secret that spec.tls.serverSecret names, and decides what of it database pods are to have. It goes by what agents
// answered.
func (r *Reader) readServerTLS(ctx context.Context, o *observed.Cluster) error {
	if o.Deleting() {
		return nil
	}
	in := servertls.Input{
		Cluster: o.Cluster, Names: secret.ServedNames(o.Cluster), Kept: secret.KeptIn(o.Cluster, o.Secret(o.Names.InstanceSecret())),
		Fresh: !o.HasRun() && len(o.Pods) == 0, Agents: o.Agents, Now: o.Now,
	}
	if wanted := o.Cluster.Spec.TLS.ServerSecret; wanted != nil {
		source, err := r.Secrets.Borrow(ctx, r.Client, o.Cluster, wanted.Name, o.Now)
		if err != nil {
			return err
		}
		in.Name, in.Source = wanted.Name, source
	}
	o.ServerTLS, o.CertificatesReady = in.Decide()
	return nil
}
