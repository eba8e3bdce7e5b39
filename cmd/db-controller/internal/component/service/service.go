// Package service builds the Services of a cluster, and the EndpointSlice of the one that the agents fill.
package service

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/workload"
)

// portName of PostgreSQL in Services and in the EndpointSlice.
const portName = "postgres"

// Primary is the Service that leads to the primary. It has no selector: the agent of the primary writes its address into the
// EndpointSlice, so that a failover needs no controller.
func Primary(cluster *v1alpha1.PostgresCluster) *corev1.Service {
	return service(cluster, component.NamesOf(cluster).Primary(), cluster.Spec.Services.RW, nil)
}

// Additional are the Services that spec adds. A Service has one selector, so one with a name of an instance leads to that alone.
func Additional(cluster *v1alpha1.PostgresCluster) (services []*corev1.Service) {
	roles := map[v1alpha1.ServiceRole]v1alpha1.InstanceRole{v1alpha1.ServicePrimary: v1alpha1.RolePrimary, v1alpha1.ServiceReplica: v1alpha1.RoleReplica}
	for i := range cluster.Spec.Services.Additional {
		s := &cluster.Spec.Services.Additional[i]
		leads := selector(cluster, roles[s.Role])
		if s.Instance != "" {
			leads = selector(cluster, "")
			delete(leads, v1alpha1.LabelDelayed)
			leads[appsv1.StatefulSetPodNameLabel] = s.Instance
		}
		services = append(services, service(cluster, component.NamesOf(cluster).Additional(s.Name), s.ServiceTemplate, leads))
	}
	return services
}

// Selected are the wanted Services that have a selector.
func Selected(cluster *v1alpha1.PostgresCluster) []*corev1.Service {
	wanted, _ := Optional(cluster)
	return append(wanted, Additional(cluster)...)
}

// Optional are the Services that spec may disable: those that are wanted, and the names of the others.
func Optional(cluster *v1alpha1.PostgresCluster) (wanted []*corev1.Service, disabled []string) {
	names, templates := component.NamesOf(cluster), cluster.Spec.Services
	for _, s := range []struct {
		name     string
		template v1alpha1.OptionalService
		role     v1alpha1.InstanceRole
	}{{names.Replicas(), templates.RO, v1alpha1.RoleReplica}, {names.Any(), templates.R, ""}} {
		if ptr.Deref(s.template.Enabled, true) {
			wanted = append(wanted, service(cluster, s.name, s.template.ServiceTemplate, selector(cluster, s.role)))
		} else {
			disabled = append(disabled, s.name)
		}
	}
	return wanted, disabled
}

func service(cluster *v1alpha1.PostgresCluster, name string, template v1alpha1.ServiceTemplate, selector map[string]string) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: component.Meta(cluster, name, component.Access),
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, Selector: selector,
			Ports: []corev1.ServicePort{{
				Name: portName, Protocol: corev1.ProtocolTCP, Port: agentapi.PostgresPort,
				TargetPort: intstr.FromInt32(agentapi.PostgresPort),
			}},
		},
	}
	workload.Adorn(&s.ObjectMeta, template.Labels, template.Annotations)
	workload.Expose(&s.Spec, template)
	return s
}

// selector of database pods; Jobs of the cluster carry its label too, so the component is part of it.
func selector(cluster *v1alpha1.PostgresCluster, role v1alpha1.InstanceRole) map[string]string {
	labels := component.Labels(cluster, workload.ComponentInstance)
	delete(labels, v1alpha1.LabelManagedBy)
	if len(cluster.Spec.DelayedReplicas) > 0 { // agents of an older version don't write that label
		labels[v1alpha1.LabelDelayed] = "false"
	}
	if role != "" {
		labels[v1alpha1.LabelRole] = string(role)
	}
	return labels
}

// AddressType of the endpoints of a Service that exists: that of its first address, in a cluster of two families of IP, too.
func AddressType(service *corev1.Service) discoveryv1.AddressType {
	if families := service.Spec.IPFamilies; len(families) > 0 && families[0] == corev1.IPv6Protocol {
		return discoveryv1.AddressTypeIPv6
	}
	return discoveryv1.AddressTypeIPv4
}

// PrimarySlice is the EndpointSlice of the Service of the primary, empty: its endpoints and ports are the agent's. The type of
// its addresses can't be changed.
func PrimarySlice(cluster *v1alpha1.PostgresCluster, addresses discoveryv1.AddressType) *discoveryv1.EndpointSlice {
	name := component.NamesOf(cluster).Primary()
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  component.Meta(cluster, name, component.Access),
		AddressType: addresses,
	}
	slice.Labels[discoveryv1.LabelServiceName] = name
	slice.Labels[discoveryv1.LabelManagedBy] = "howdah.dev"
	return slice
}
