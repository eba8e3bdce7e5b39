package pooler

import (
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/workload"
)

// selector of the pods.
func selector(p *v1alpha1.Pooler) map[string]string {
	return map[string]string{v1alpha1.LabelPooler: p.Name, v1alpha1.LabelComponent: workload.ComponentPooler}
}

func labels(p *v1alpha1.Pooler) map[string]string {
	all := selector(p)
	all[v1alpha1.LabelCluster], all[v1alpha1.LabelManagedBy] = p.Spec.Cluster.Name, v1alpha1.ManagedBy
	return all
}

func objectMeta(p *v1alpha1.Pooler) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: p.Namespace, Name: protocol.PoolerName(p.Name), Labels: labels(p)}
}

// account is what the pods are to the API server.
func account(o *observed) client.Object {
	meta := objectMeta(o.pooler)
	workload.Adorn(&meta, nil, o.pooler.Spec.Pods.ServiceAccountAnnotations)
	return &corev1.ServiceAccount{ObjectMeta: meta, AutomountServiceAccountToken: ptr.To(true)}
}

// role lets the pods see where the primary is, and nothing else.
func role(o *observed) client.Object {
	return &rbacv1.Role{ObjectMeta: objectMeta(o.pooler), Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{discoveryv1.GroupName}, Resources: []string{"endpointslices"},
		ResourceNames: []string{protocol.PrimarySlice(o.pooler.Spec.Cluster.Name)}, Verbs: []string{"get", "list", "watch"},
	}}}
}

func binding(o *observed) client.Object {
	name := protocol.PoolerName(o.pooler.Name)
	return &rbacv1.RoleBinding{
		ObjectMeta: objectMeta(o.pooler),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: o.pooler.Namespace}},
	}
}

// config is what the agents of the pods are told.
func config(p *v1alpha1.Pooler) agentapi.PoolerConfig {
	cluster := p.Spec.Cluster.Name
	c := agentapi.PoolerConfig{
		Cluster: cluster, Namespace: p.Namespace, EndpointSlice: protocol.PrimarySlice(cluster),
		PodDomain: strings.TrimPrefix(protocol.InstanceHost(p.Namespace, cluster, ""), "."),
		Mode:      strings.ToLower(string(p.Spec.Mode)), PoolSize: p.Spec.PoolSize, MaxClientConnections: p.Spec.MaxClientConnections,
		DrainSeconds: drainSeconds(p), TakeBack: p.Spec.Handover.OnTimeout == v1alpha1.HandoverTakeBack,
	}
	if p.Spec.Access == v1alpha1.PoolReadOnly {
		c.ReadOnly, c.MaxLagBytes = true, defaultMaxLag
		if limit := p.Spec.MaxLag; limit != nil {
			c.MaxLagBytes, c.KnownLagOnly = limit.Value(), true
		}
	}
	c.ClientTLS = clientTLS(p.Spec.TLS)
	if len(p.Spec.Databases) > 0 {
		c.Databases = map[string]agentapi.PoolLimits{}
	}
	for _, database := range p.Spec.Databases {
		c.Databases[database.Name] = limits(database.PoolLimits)
	}
	if len(p.Spec.Users) > 0 {
		c.Users = map[string]agentapi.PoolLimits{}
	}
	for _, user := range p.Spec.Users {
		c.Users[user.Name] = limits(user.PoolLimits)
	}
	for name, value := range p.Spec.PgBouncer.Parameters {
		if c.Parameters == nil {
			c.Parameters = map[string]string{}
		}
		c.Parameters[name] = string(value)
	}
	return c
}

func clientTLS(tls *v1alpha1.PoolerTLS) (c agentapi.PoolerTLS) {
	if tls == nil {
		return c
	}
	c.MinVersion, c.CA = string(tls.MinProtocolVersion), tls.ClientCABundle
	c.Verify, c.Require = tls.ClientCertificates != "", tls.ClientCertificates == v1alpha1.ClientCertificatesRequired
	for _, cipher := range tls.Ciphers {
		c.Ciphers = append(c.Ciphers, string(cipher))
	}
	return c
}

func limits(l v1alpha1.PoolLimits) agentapi.PoolLimits {
	return agentapi.PoolLimits{
		PoolSize: ptr.Deref(l.PoolSize, 0), ReservePoolSize: ptr.Deref(l.ReservePoolSize, 0),
		MaxConnections: ptr.Deref(l.MaxConnections, 0), MaxClientConnections: ptr.Deref(l.MaxClientConnections, 0),
	}
}

// defaultMaxLag is a segment of WAL.
const defaultMaxLag = 16 << 20

// defaultDrain is that of the CRD, for objects that were not defaulted.
const defaultDrain = 60

func drainSeconds(p *v1alpha1.Pooler) int64 {
	if p.Spec.DrainTimeout == nil {
		return defaultDrain
	}
	return int64(p.Spec.DrainTimeout.Seconds())
}

func configMap(o *observed) client.Object {
	content, err := json.Marshal(config(o.pooler))
	if err != nil {
		panic(err) // plain structs of strings and numbers always marshal
	}
	return &corev1.ConfigMap{ObjectMeta: objectMeta(o.pooler), Data: map[string]string{"pooler.json": string(content)}}
}

func service(o *observed) client.Object {
	s := &corev1.Service{
		ObjectMeta: objectMeta(o.pooler),
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, Selector: selector(o.pooler),
			Ports: []corev1.ServicePort{{
				Name: "postgres", Protocol: corev1.ProtocolTCP, Port: agentapi.PoolerPort, TargetPort: intstr.FromInt32(agentapi.PoolerPort),
			}},
		},
	}
	template := o.pooler.Spec.Service
	workload.Adorn(&s.ObjectMeta, template.Labels, template.Annotations)
	workload.Expose(&s.Spec, template)
	live, _ := o.live["Service"].(*corev1.Service)
	return workload.NextService(live, s)
}

// budget lets one pod at a time be evicted.
func budget(o *observed) client.Object {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: objectMeta(o.pooler),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: ptr.To(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: selector(o.pooler)},
			UnhealthyPodEvictionPolicy: ptr.To(policyv1.AlwaysAllow),
		},
	}
}
