package access

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/howdah/cmd/db-controller/internal/component/config"
	"howdah.dev/howdah/cmd/db-controller/internal/component/identity"
	"howdah.dev/howdah/cmd/db-controller/internal/component/network"
	"howdah.dev/howdah/cmd/db-controller/internal/component/secret"
	"howdah.dev/howdah/cmd/db-controller/internal/component/service"
	"howdah.dev/howdah/cmd/db-controller/internal/desired"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/restartwindow"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/workload"
)

// EnsureAuthority creates the certificate authority of the cluster, and renews it in time.
func (s *Steps) EnsureAuthority(ctx context.Context, o *observed.Cluster) flow.Outcome {
	wanted, authority, err := secret.Authority(o.Cluster, o.Secret(o.Names.Authority()), o.Secret(o.Names.InstanceSecret()), o.Now)
	if err != nil {
		return flow.Retry(err)
	}
	if err := s.Put(ctx, o, wanted); err != nil {
		return flow.Retry(err)
	}
	o.Authority = authority
	authority.Servers = o.ServerTLS.Trust
	return flow.Next
}

// EnsureCertificates creates the Secrets by which Jobs come to the database.
func (s *Steps) EnsureCertificates(ctx context.Context, o *observed.Cluster) flow.Outcome {
	var objects []client.Object
	for _, login := range []struct{ name, role string }{{o.Names.Backup(), agentapi.BackupRole}, {o.Names.Upgrade(), agentapi.UpgradeRole}} {
		certificate, err := secret.ClientTLS(o.Cluster, login.name, login.role, o.Secret(login.name), o.Authority, o.Now)
		if err != nil {
			return flow.Retry(err)
		}
		objects = append(objects, certificate)
	}
	return s.PutAll(ctx, o, objects...)
}

// EnsureInstanceSecret writes what pods are let in by and let in with, and copies the passwords of the application and of
// declared roles to where they find them.
func (s *Steps) EnsureInstanceSecret(ctx context.Context, o *observed.Cluster) flow.Outcome {
	passwords := secret.Passwords{Roles: o.Passwords, Server: o.ServerTLS}
	if app := o.Secret(o.Names.App()); app != nil && metav1.IsControlledBy(app, o.Cluster) {
		passwords.App = app.Data[secret.KeyPassword]
	}
	wanted, err := secret.Instance(o.Cluster, o.Secret(o.Names.InstanceSecret()), o.Authority, passwords, o.Now)
	if err != nil {
		return flow.Retry(err)
	}
	return s.PutAll(ctx, o, wanted)
}

// EnsureLogins creates the application's Secret, and the superuser's where it is wanted; where not, it is deleted. Those of a
// cluster that waits for a Restore may still come out of the backup, with the passwords that it has.
func (s *Steps) EnsureLogins(ctx context.Context, o *observed.Cluster) flow.Outcome {
	if !protocol.CreatesLogins(o.Cluster) {
		return flow.Next
	}
	bundle := o.Authority.ForClients()
	objects := []client.Object{secret.App(o.Cluster, o.Secret(o.Names.App()), bundle)}
	superuser := o.Secret(o.Names.Superuser())
	if o.Cluster.Spec.SuperuserAccess {
		objects = append(objects, secret.Superuser(o.Cluster, superuser, bundle))
	} else if superuser != nil && !observed.Foreign(superuser, o.Cluster) {
		if err := s.Remove(ctx, superuser); err != nil {
			return flow.Retry(err)
		}
		s.Secrets.Drop(o.Cluster, superuser.Name)
	}
	return s.PutAll(ctx, o, objects...)
}

// EnsureConfigMaps writes what the agents are told, and what clients need to connect.
func (s *Steps) EnsureConfigMaps(ctx context.Context, o *observed.Cluster) flow.Outcome {
	agent, err := config.AgentMap(o.Cluster, desired.AgentConfig(o), config.Beside{Window: restartwindow.Period(o), Repository: desired.KnownRepository(o), Queries: o.Queries})
	if err != nil {
		return flow.Retry(err)
	}
	return s.PutAll(ctx, o, agent, config.ConnectionMap(o.Cluster, o.Authority.ForClients()))
}

// EnsureIdentity creates the ServiceAccount of the instances, with its Role and RoleBinding.
func (s *Steps) EnsureIdentity(ctx context.Context, o *observed.Cluster) flow.Outcome {
	role := identity.Role(o.Cluster, max(o.ToldInstances(), o.Reach()))
	return s.PutAll(ctx, o, identity.Account(o.Cluster), role, identity.Binding(o.Cluster))
}

// EnsureServices keeps the Services that clients and instances connect to as spec has them, without those that it disables or no longer
// declares, and the EndpointSlice that leads to the primary.
func (s *Steps) EnsureServices(ctx context.Context, o *observed.Cluster) flow.Outcome {
	_, disabled := service.Optional(o.Cluster)
	primary := service.Primary(o.Cluster)
	for _, each := range append(service.Selected(o.Cluster), primary) {
		live, _ := o.Live[observed.Key("Service", each.Name)].(*corev1.Service)
		if err := s.Put(ctx, o, workload.NextService(live, each)); err != nil {
			return flow.Retry(err)
		}
	}
	for _, name := range append(disabled, o.UndeclaredServices...) {
		if err := s.removeService(ctx, o, name); err != nil {
			return flow.Retry(err)
		}
	}
	return s.ensurePrimarySlice(ctx, o, primary)
}

// removeService deletes a Service that spec has disabled. That of somebody else is not among what was read.
func (s *Steps) removeService(ctx context.Context, o *observed.Cluster, name string) error {
	live := o.Live[observed.Key("Service", name)]
	if live == nil || !live.GetDeletionTimestamp().IsZero() {
		return nil
	}
	return s.Remove(ctx, live)
}

// EnsureNetworkPolicy keeps the NetworkPolicy of the cluster's pods as spec has it, and deletes it if spec has none.
func (s *Steps) EnsureNetworkPolicy(ctx context.Context, o *observed.Cluster) flow.Outcome {
	if wanted := network.Policy(o.Cluster, s.Namespace); wanted != nil {
		return s.PutAll(ctx, o, wanted)
	}
	live := o.Live[observed.Key("NetworkPolicy", o.Names.NetworkPolicy())]
	if live == nil || !live.GetDeletionTimestamp().IsZero() {
		return flow.Next
	}
	if err := s.Remove(ctx, live); err != nil {
		return flow.Retry(err)
	}
	return flow.Next
}

func (s *Steps) ensurePrimarySlice(ctx context.Context, o *observed.Cluster, primary *corev1.Service) flow.Outcome {
	if live, ok := o.Live[observed.Key("Service", primary.Name)].(*corev1.Service); ok {
		primary = live
	}
	wanted := service.PrimarySlice(o.Cluster, service.AddressType(primary))
	live, ok := o.Live[observed.Key("EndpointSlice", wanted.Name)].(*discoveryv1.EndpointSlice)
	if ok && live.AddressType != wanted.AddressType {
		return flow.Retry(s.Remove(ctx, live)) // an earlier suite created it as IPv4 everywhere; it is created again once it is gone
	}
	return s.PutAll(ctx, o, wanted)
}
