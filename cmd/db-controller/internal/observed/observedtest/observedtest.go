package observedtest

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component"
	"howdah.dev/howdah/cmd/db-controller/internal/component/service"
	"howdah.dev/howdah/cmd/db-controller/internal/component/statefulset"
	"howdah.dev/howdah/cmd/db-controller/internal/component/volume"
	"howdah.dev/howdah/cmd/db-controller/internal/desired"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/ownwrites"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/workload"
)

// Noon is when the observed cluster was observed.
var Noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Running is a cluster in which all is well; change makes it otherwise.
func Running(change func(*observed.Cluster)) *observed.Cluster {
	cluster := &v1alpha1.PostgresCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "shop", UID: "u1", Generation: 3},
		Spec:       v1alpha1.PostgresClusterSpec{Version: 17, Instances: 1},
		Status: v1alpha1.PostgresClusterStatus{
			DataGeneration: "g1", MajorVersion: 17, Image: "postgres:17", SystemIdentifier: "7", AgentImage: "agent:1",
		},
	}
	o := &observed.Cluster{
		Now: Noon, Cluster: cluster, Own: &ownwrites.View{}, Names: component.NamesOf(cluster), Live: map[string]client.Object{},
		Agents: map[string]*agentapi.Status{}, AgentOfPods: workload.Agent{Image: "agent:1"},
	}
	set := statefulset.Build(cluster, desired.Inputs(o, 1))
	set.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(cluster, v1alpha1.GroupVersion.WithKind("PostgresCluster"))}
	o.Live[observed.Key("StatefulSet", "shop")] = set
	o.Live[observed.Key("PersistentVolumeClaim", "data-shop-0")] = volume.Claim(cluster, 0)
	pod := corev1.Pod{ObjectMeta: *set.Spec.Template.ObjectMeta.DeepCopy(), Spec: *set.Spec.Template.Spec.DeepCopy()}
	pod.Name, pod.UID, pod.Spec.NodeName = "shop-0", "p1", "w1"
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: "10.0.0.7",
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
	o.Pods = []corev1.Pod{pod}
	LeadTo(o, "10.0.0.7", nil)
	o.Agents["shop-0"] = &agentapi.Status{
		Pod: "shop-0", DataGeneration: "g1", SystemIdentifier: "7", State: agentapi.StateRunning, Role: "primary", Timeline: 1,
		Version: "17.5", ConfigHash: desired.AgentConfig(o).Hash(),
	}
	if change != nil {
		change(o)
	}
	return o
}

// LeadTo has the EndpointSlice of the primary say where clients shall go.
func LeadTo(o *observed.Cluster, address string, ready *bool) {
	slice := service.PrimarySlice(o.Cluster, discoveryv1.AddressTypeIPv4)
	slice.OwnerReferences = o.StatefulSet().OwnerReferences
	slice.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: ready}}}
	o.Live[observed.Key("EndpointSlice", "shop-rw")] = slice
}

// Archiving has the cluster archive its WAL.
func Archiving(o *observed.Cluster) {
	o.Cluster.Spec.Archive = &v1alpha1.ArchiveSpec{Repository: v1alpha1.LocalReference{Name: "minio"}}
	o.Repository = &v1alpha1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Name: "minio"}}
	o.Agents["shop-0"].Archive = &agentapi.ArchiveStatus{LastWAL: "000000010000000000000004", LastTime: Noon.Add(-time.Hour)}
}

// NotReady has the only pod not be ready.
func NotReady(o *observed.Cluster) { o.Pods[0].Status.Conditions[0].Status = corev1.ConditionFalse }

// Waiting is a container that waits for a reason.
func Waiting(reason, message string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: "postgres", Image: "postgres:17", State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message},
	}}
}
