//go:build integration

package cluster

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/agentapi"
)

// publish writes the address of a ready primary into the EndpointSlice, as its agent does.
func (s *standIn) publish(ctx context.Context, cluster string, pods []corev1.Pod) {
	config, slice := s.config(ctx, cluster), &discoveryv1.EndpointSlice{}
	if config == nil || s.unpublished || s.client.Get(ctx, client.ObjectKey{Namespace: s.ns, Name: config.EndpointSlice}, slice) != nil {
		return
	}
	primary := s.primary(cluster, config)
	for i := range pods {
		pod := &pods[i]
		if pod.Name != primary || !observed.PodReady(pod) || len(slice.Endpoints) == 1 && slice.Endpoints[0].Addresses[0] == pod.Status.PodIP &&
			slice.Annotations[agentapi.AnnotationDataGeneration] == config.DataGeneration {
			continue
		}
		metav1.SetMetaDataAnnotation(&slice.ObjectMeta, agentapi.AnnotationDataGeneration, config.DataGeneration)
		delete(slice.Annotations, agentapi.AnnotationShutdown)
		slice.Endpoints = []discoveryv1.Endpoint{{
			Addresses: []string{pod.Status.PodIP}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)},
		}}
		_ = s.client.Update(ctx, slice)
	}
}

// primary of a cluster.
func (s *standIn) primary(cluster string, config *agentapi.Config) string {
	if config.Instances > 1 {
		return s.leaders[cluster]
	}
	return cluster + "-0"
}

// sayEnded writes how a primary has ended, as its agent does.
func (s *standIn) sayEnded(ctx context.Context, cluster, pod string) {
	config, slice := s.config(ctx, cluster), &discoveryv1.EndpointSlice{}
	if config == nil || s.unsaid || s.primary(cluster, config) != pod || s.client.Get(ctx, client.ObjectKey{Namespace: s.ns, Name: config.EndpointSlice}, slice) != nil {
		return
	}
	said, _ := json.Marshal(agentapi.Shutdown{Instance: pod, DataGeneration: config.DataGeneration, Unarchived: s.unarchived, Error: "access denied"})
	metav1.SetMetaDataAnnotation(&slice.ObjectMeta, agentapi.AnnotationShutdown, string(said))
	_ = s.client.Update(ctx, slice)
}

func TestAClusterIsReadyOnceClientsAreLedToItsPrimary(t *testing.T) {
	l := newLab(t)
	l.kube.set(func(s *standIn) { s.unpublished = true })
	shop := l.shop(nil)
	l.eventually("it is said what is waited for", func() bool {
		message := l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonStarting)
		return strings.Contains(message, "its agent has yet to write its address into the EndpointSlice shop-rw")
	})
	l.kube.set(func(s *standIn) { s.unpublished = false })
	l.awaitRunning(shop)

	// The watch tells of it when somebody takes the address out.
	l.kube.set(func(s *standIn) { s.unpublished = true })
	slice := &discoveryv1.EndpointSlice{}
	l.there(slice, "shop-rw")
	empty := client.RawPatch(types.MergePatchType, []byte(`{"endpoints":[]}`))
	if err := l.Patch(context.Background(), slice, empty); err != nil {
		t.Fatal(err)
	}
	l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonStarting)
	l.kube.set(func(s *standIn) { s.unpublished = false })
	l.awaitRunning(shop)
}
