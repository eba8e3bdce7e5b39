//go:build integration

package cluster

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/howdah/cmd/db-controller/internal/agentclient"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/agentapi"
)

// runElection makes the first ready pod primary where there is none, and writes the Lease and labels as agents do.
func (s *standIn) runElection(ctx context.Context, cluster string, pods []corev1.Pod) {
	config := s.config(ctx, cluster)
	if config == nil || config.Instances <= 1 {
		return
	}
	fit := map[string]*corev1.Pod{}
	for i := range pods {
		if pod := &pods[i]; pod.Labels["howdah.dev/cluster"] == cluster && pod.DeletionTimestamp.IsZero() && observed.PodReady(pod) {
			fit[pod.Name] = pod
		}
	}
	if fit[s.leaders[cluster]] == nil && len(fit) > 0 {
		s.leaders[cluster] = slices.Min(slices.Collect(maps.Keys(fit)))
		s.terms++
	}
	leader, lease := s.leaders[cluster], &coordinationv1.Lease{}
	if s.client.Get(ctx, client.ObjectKey{Namespace: s.ns, Name: config.Lease}, lease) == nil && leader != "" && ptr.Deref(lease.Spec.HolderIdentity, "") != leader {
		lease.Spec.HolderIdentity = &leader
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, "howdah.dev/election", fmt.Sprintf(`{"generation":%q,"lastHolder":%q}`, config.DataGeneration, leader))
		_ = s.client.Update(ctx, lease)
	}
	for name, pod := range fit {
		role := "replica"
		if name == leader {
			role = "primary"
		}
		if pod.Labels["howdah.dev/role"] != role {
			pod.Labels["howdah.dev/role"] = role
			_ = s.client.Update(ctx, pod)
		}
	}
}

// elected adds what an agent that elects says.
func (s *standIn) elected(cluster string, config *agentapi.Config, status *agentapi.Status) {
	leader := s.leaders[cluster]
	status.Election = &agentapi.ElectionStatus{Leader: leader, Term: s.terms}
	if n := len(s.switchovers); n > 0 {
		status.Election.Switchover = &agentapi.SwitchoverStatus{Token: s.switchovers[n-1].Token, State: agentapi.SwitchoverDone}
		if s.refusal != "" {
			status.Election.Switchover.State, status.Election.Switchover.Message = agentapi.SwitchoverRefused, s.refusal
		}
	}
	if tokens := s.reinits[status.Pod]; len(tokens) > 0 {
		status.Reinit = &agentapi.ReinitStatus{Token: tokens[len(tokens)-1], State: cmp.Or(s.reinitEnds, agentapi.ReinitDone), Message: "The new copy is g1.c2"}
	}
	for ordinal := range config.Instances {
		if name := fmt.Sprintf("%s-%d", cluster, ordinal); name != leader && (config.Failover == nil || !slices.Contains(config.Failover.Fenced, name)) {
			status.Election.Members = append(status.Election.Members, name)
		}
	}
	if config.Synchronous != nil {
		status.Election.Quorum = config.Synchronous.Number
	}
	if status.Pod != leader {
		status.Role, status.Replication = "replica", &agentapi.ReplicationStatus{Streaming: true}
	}
}

// Switchover carries out what is asked, at once.
func (s *standIn) Switchover(_ context.Context, target agentclient.Target, request agentapi.SwitchoverRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.switchovers = append(s.switchovers, request)
	if s.refusal != "" {
		return nil
	}
	from, rest, _ := strings.Cut(target.Host, ".")
	service, _, _ := strings.Cut(rest, ".")
	cluster, to := strings.TrimSuffix(service, "-pods"), request.To
	if to == "" {
		to = cluster + "-1"
	}
	if s.leaders[cluster] == from {
		s.leaders[cluster] = to
		s.terms++
	}
	return nil
}

// Reinit takes note of what is asked.
func (s *standIn) Reinit(_ context.Context, target agentclient.Target, request agentapi.ReinitRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reinits == nil {
		s.reinits = map[string][]string{}
	}
	pod, _, _ := strings.Cut(target.Host, ".")
	s.reinits[pod] = append(s.reinits[pod], request.Token)
	return nil
}

// Fault takes note of what is asked, and it is done.
func (s *standIn) Fault(_ context.Context, target agentclient.Target, request agentapi.FaultRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	pod, _, _ := strings.Cut(target.Host, ".")
	s.faults = append(s.faults, pod+" "+request.Fault+" "+request.Token)
	return nil
}
