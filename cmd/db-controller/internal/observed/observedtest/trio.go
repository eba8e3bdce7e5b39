package observedtest

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/config"
	"howdah.dev/howdah/cmd/db-controller/internal/component/statefulset"
	"howdah.dev/howdah/cmd/db-controller/internal/component/volume"
	"howdah.dev/howdah/cmd/db-controller/internal/desired"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/agentapi"
)

// Trio is a cluster of three instances in which all is well, and shop-0 is primary; change makes it otherwise.
func Trio(change func(*observed.Cluster)) *observed.Cluster {
	o := Running(nil)
	o.Cluster.Spec.Instances = 3
	o.Cluster.Status.Primary = "shop-0"
	set := o.StatefulSet()
	owner := set.OwnerReferences
	*set = *statefulset.Build(o.Cluster, desired.Inputs(o, 3))
	set.OwnerReferences, set.Status.Replicas = owner, 3
	o.Pods, o.Agents = nil, map[string]*agentapi.Status{}
	for ordinal := range 3 {
		addInstance(o, ordinal)
	}
	o.Agents["shop-0"].Role, o.Agents["shop-0"].Replication = "primary", nil
	o.Agents["shop-0"].Election = &agentapi.ElectionStatus{Leader: "shop-0", Term: 4, Members: []string{"shop-2", "shop-1"}}
	Tell(o)
	if change != nil {
		change(o)
	}
	return o
}

// addInstance adds a replica that runs and follows.
func addInstance(o *observed.Cluster, ordinal int) {
	name := fmt.Sprintf("shop-%d", ordinal)
	template := o.StatefulSet().Spec.Template
	pod := corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	pod.Name, pod.UID, pod.Spec.NodeName = name, types.UID(fmt.Sprintf("p%d", ordinal)), "w1"
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: "10.0.0.7",
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
	o.Pods = append(o.Pods, pod)
	o.Live[observed.Key("PersistentVolumeClaim", "data-"+name)] = volume.Claim(o.Cluster, ordinal)
	o.Agents[name] = &agentapi.Status{
		Pod: name, DataGeneration: "g1", SystemIdentifier: "7", State: agentapi.StateRunning, Role: "replica", Timeline: 1, Version: "17.5",
		ConfigHash: desired.AgentConfig(o).Hash(), Replication: &agentapi.ReplicationStatus{Streaming: true},
		Election: &agentapi.ElectionStatus{Leader: "shop-0", Term: 4},
	}
}

// Tell writes into agent.json what the agents of this cluster are to do, and has them do it.
func Tell(o *observed.Cluster) {
	told := desired.AgentConfig(o)
	configMap, err := config.AgentMap(o.Cluster, told, config.Beside{})
	if err != nil {
		panic(err)
	}
	o.Live[observed.Key("ConfigMap", "shop-config")] = configMap
	for _, agent := range o.Agents {
		agent.ConfigHash = told.Hash()
	}
}

// ToldBefore is what the agents were told before this pass.
func ToldBefore(o *observed.Cluster, instances int) {
	data, err := json.Marshal(agentapi.Config{Cluster: "shop", Instances: instances})
	if err != nil {
		panic(err)
	}
	o.Live[observed.Key("ConfigMap", "shop-config")] = &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "shop-config"}, Data: map[string]string{"agent.json": string(data)},
	}
}

// SwitchedTo has another instance be primary.
func SwitchedTo(o *observed.Cluster, name string) {
	for _, agent := range o.Agents {
		agent.Role, agent.Replication = "replica", &agentapi.ReplicationStatus{Streaming: true}
		agent.Election = &agentapi.ElectionStatus{Leader: name, Term: 5}
	}
	o.Agents[name].Role, o.Agents[name].Replication = "primary", nil
}

// Lose takes the pod of an instance away, and its agent.
func Lose(o *observed.Cluster, name string) {
	for i := range o.Pods {
		if o.Pods[i].Name == name {
			o.Pods = append(o.Pods[:i:i], o.Pods[i+1:]...)
			break
		}
	}
	delete(o.Agents, name)
}

// Unready keeps the pod of an instance, which accepts no connections.
func Unready(o *observed.Cluster, ordinal int) {
	o.Pod(ordinal).Status.Conditions[0].Status = corev1.ConditionFalse
}

// ReplicasOfSet sets the number of replicas of the StatefulSet.
func ReplicasOfSet(o *observed.Cluster, n int32) {
	o.StatefulSet().Spec.Replicas, o.StatefulSet().Status.Replicas = ptr.To(n), n
}

// SetParameter sets a parameter of PostgreSQL in the spec.
func SetParameter(o *observed.Cluster, name string, value v1alpha1.ParameterValue) {
	o.Cluster.Spec.PostgreSQL.Parameters = map[string]v1alpha1.ParameterValue{name: value}
	Tell(o)
}
