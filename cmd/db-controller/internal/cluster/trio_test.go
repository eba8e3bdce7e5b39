package cluster

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
	"howdah.dev/howdah/pkg/agentapi"
)

// trio is a world of three instances in which all is well, and shop-0 is primary; change makes it otherwise.
func trio(change func(*world)) *world {
	w := running(nil)
	w.cluster.Spec.Instances = 3
	w.cluster.Status.Primary = "shop-0"
	set := w.statefulSet()
	owner := set.OwnerReferences
	*set = *statefulset.Build(w.cluster, w.inputs(3))
	set.OwnerReferences, set.Status.Replicas = owner, 3
	w.pods, w.agents = nil, map[string]*agentapi.Status{}
	for ordinal := range 3 {
		addInstance(w, ordinal)
	}
	w.agents["shop-0"].Role, w.agents["shop-0"].Replication = "primary", nil
	w.agents["shop-0"].Election = &agentapi.ElectionStatus{Leader: "shop-0", Term: 4, Members: []string{"shop-2", "shop-1"}}
	tell(w)
	if change != nil {
		change(w)
	}
	return w
}

// addInstance adds a replica that runs and follows.
func addInstance(w *world, ordinal int) {
	name := fmt.Sprintf("shop-%d", ordinal)
	template := w.statefulSet().Spec.Template
	pod := corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	pod.Name, pod.UID, pod.Spec.NodeName = name, types.UID(fmt.Sprintf("p%d", ordinal)), "w1"
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: "10.0.0.7",
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
	w.pods = append(w.pods, pod)
	w.live[key("PersistentVolumeClaim", "data-"+name)] = volume.Claim(w.cluster, ordinal)
	w.agents[name] = &agentapi.Status{
		Pod: name, DataGeneration: "g1", SystemIdentifier: "7", State: agentapi.StateRunning, Role: "replica", Timeline: 1, Version: "17.5",
		ConfigHash: w.agentConfig().Hash(), Replication: &agentapi.ReplicationStatus{Streaming: true},
		Election: &agentapi.ElectionStatus{Leader: "shop-0", Term: 4},
	}
}

// tell writes into agent.json what the agents of this world are to do, and has them do it.
func tell(w *world) {
	told := w.agentConfig()
	configMap, err := config.AgentMap(w.cluster, told)
	if err != nil {
		panic(err)
	}
	w.live[key("ConfigMap", "shop-config")] = configMap
	for _, agent := range w.agents {
		agent.ConfigHash = told.Hash()
	}
}

// toldBefore is what the agents were told before this pass.
func toldBefore(w *world, instances int) {
	data, err := json.Marshal(agentapi.Config{Cluster: "shop", Instances: instances})
	if err != nil {
		panic(err)
	}
	w.live[key("ConfigMap", "shop-config")] = &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "shop-config"}, Data: map[string]string{"agent.json": string(data)},
	}
}

// switchedTo makes another instance primary.
func switchedTo(w *world, name string) {
	for _, agent := range w.agents {
		agent.Role, agent.Replication = "replica", &agentapi.ReplicationStatus{Streaming: true}
		agent.Election = &agentapi.ElectionStatus{Leader: name, Term: 5}
	}
	w.agents[name].Role, w.agents[name].Replication = "primary", nil
}

// lose takes the pod of an instance away, and its agent.
func lose(w *world, name string) {
	for i := range w.pods {
		if w.pods[i].Name == name {
			w.pods = append(w.pods[:i:i], w.pods[i+1:]...)
			break
		}
	}
	delete(w.agents, name)
}

// unready keeps the pod of an instance, which takes no connections.
func unready(w *world, ordinal int) {
	w.pod(ordinal).Status.Conditions[0].Status = corev1.ConditionFalse
}

func replicasOfSet(w *world, n int32) {
	w.statefulSet().Spec.Replicas, w.statefulSet().Status.Replicas = ptr.To(n), n
}

func setParameter(w *world, name string, value v1alpha1.ParameterValue) {
	w.cluster.Spec.PostgreSQL.Parameters = map[string]v1alpha1.ParameterValue{name: value}
	tell(w)
}
