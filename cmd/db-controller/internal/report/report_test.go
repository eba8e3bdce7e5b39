package report

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/agentclient"
	"howdah.dev/howdah/cmd/db-controller/internal/desired"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
)

func TestConditionsSayWhatIsSeen(t *testing.T) {
	type says struct {
		status  metav1.ConditionStatus
		reason  string
		message string // in it
	}
	for name, c := range map[string]struct {
		kind    string
		change  func(*observed.Cluster)
		outcome flow.Outcome
		says
	}{
		"a serving cluster is ready":                   {v1alpha1.ConditionReady, nil, flow.Next, says{"True", "Running", "shop-rw.demo.svc:5432"}},
		"an address that is said to be ready":          {v1alpha1.ConditionReady, func(o *observed.Cluster) { observedtest.LeadTo(o, "10.0.0.7", ptr.To(true)) }, flow.Next, says{"True", "Running", ""}},
		"one that is not":                              {v1alpha1.ConditionReady, func(o *observed.Cluster) { observedtest.LeadTo(o, "10.0.0.7", ptr.To(false)) }, flow.Next, says{"False", "Starting", "has yet to write its address into the EndpointSlice shop-rw"}},
		"one of a pod that is gone":                    {v1alpha1.ConditionReady, func(o *observed.Cluster) { observedtest.LeadTo(o, "10.0.0.6", nil) }, flow.Wait("Applying", "z"), says{"False", "Starting", "has yet to write its address"}},
		"a primary that refuses clients after a crash": {v1alpha1.ConditionReady, func(o *observed.Cluster) { o.Agents["shop-0"].Closed = "PostgreSQL has recovered." }, flow.Next, says{"False", "CommitsWaiting", "shop-0: PostgreSQL has recovered."}},
		"no EndpointSlice at all":                      {v1alpha1.ConditionReady, func(o *observed.Cluster) { delete(o.Live, observed.Key("EndpointSlice", "shop-rw")) }, flow.Next, says{"False", "Starting", "has yet to write"}},
		"one of a primary before": {v1alpha1.ConditionReady, func(o *observed.Cluster) {
			*o = *observedtest.Trio(func(o *observed.Cluster) { observedtest.LeadTo(o, "10.0.0.6", nil) })
		}, flow.Next, says{"False", "Electing", "shop-0 is primary; its agent has yet to write"}},
		"the word of an agent that is away doesn't count": {v1alpha1.ConditionReady, observedtest.NotReady, flow.Next, says{"False", "Starting", "Kubernetes has yet to see"}},
		"an error elsewhere leaves it ready":              {v1alpha1.ConditionReady, nil, flow.Stop("NameConflict", "x"), says{"True", "Running", ""}},
		"an error elsewhere shows in up to date":          {v1alpha1.ConditionUpToDate, nil, flow.Stop("NameConflict", "x"), says{"False", "NameConflict", "x"}},
		"a name that is taken shows in up to date": {v1alpha1.ConditionUpToDate, func(o *observed.Cluster) {
			o.Live["Service/shop-ro"] = observed.Named(&corev1.Service{}, "shop-ro")
		}, flow.Next, says{"False", "NameConflict", "Service shop-ro already exists and belongs to somebody else, so it is not touched. Delete it; everything else continues without it."}},
		"and beside what is being changed": {v1alpha1.ConditionUpToDate, func(o *observed.Cluster) {
			o.Live["Service/shop-ro"] = observed.Named(&corev1.Service{}, "shop-ro")
			o.Pods = nil
		}, flow.Next, says{"False", "Applying", "Pod shop-0 isn't running. Service shop-ro already exists"}},
		"a cluster without a pod starts":           {v1alpha1.ConditionReady, func(o *observed.Cluster) { o.Pods = nil }, flow.Next, says{"False", "Starting", "shop-0 is being created"}},
		"what a step waits for is why":             {v1alpha1.ConditionReady, observedtest.NotReady, flow.Wait("AwaitingRestore", "y"), says{"False", "AwaitingRestore", "y"}},
		"a pod on another data generation is none": {v1alpha1.ConditionReady, func(o *observed.Cluster) { o.Cluster.Status.DataGeneration = "g2" }, flow.Next, says{"False", "Starting", ""}},
		"an unschedulable pod says why": {v1alpha1.ConditionReady, func(o *observed.Cluster) {
			o.Pods[0].Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/4 nodes are available",
			}}}
		}, flow.Next, says{"False", "Unschedulable", "0/4 nodes are available"}},
		"an image that can't be pulled is named": {v1alpha1.ConditionReady, func(o *observed.Cluster) {
			observedtest.NotReady(o)
			o.Pods[0].Status.ContainerStatuses = []corev1.ContainerStatus{observedtest.Waiting("ImagePullBackOff", "not found")}
		}, flow.Next, says{"False", "ImageUnavailable", "postgres:17: ImagePullBackOff: not found"}},
		"a container that crashes says with what": {v1alpha1.ConditionReady, func(o *observed.Cluster) {
			observedtest.NotReady(o)
			status := observedtest.Waiting("CrashLoopBackOff", "back-off")
			status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 2, Message: "no space"}
			o.Pods[0].Status.ContainerStatuses = []corev1.ContainerStatus{status}
		}, flow.Next, says{"False", "Unavailable", "exit status 2: no space"}},
		"a PostgreSQL that can't be started says why": {v1alpha1.ConditionReady, func(o *observed.Cluster) {
			observedtest.NotReady(o)
			o.Agents["shop-0"].State, o.Agents["shop-0"].Message = agentapi.StateFailed, "the disk is full"
		}, flow.Next, says{"False", "Unavailable", "the disk is full"}},
		"an agent that doesn't respond yet": {v1alpha1.ConditionReady, func(o *observed.Cluster) { observedtest.NotReady(o); o.Agents = nil }, flow.Next,
			says{"False", "Starting", "its agent doesn't respond yet"}},
		"a deletion that waits keeps it ready": {v1alpha1.ConditionReady, nil, flow.Wait("AwaitingFinalBackup", "z"), says{"True", "AwaitingFinalBackup", "z"}},

		"all is current": {v1alpha1.ConditionUpToDate, nil, flow.Next, says{"True", "Current", ""}},
		"a higher version by policy": {v1alpha1.ConditionUpToDate, func(o *observed.Cluster) {
			o.Cluster.Spec.Version, o.MajorUpdate = 18, "It waits until 2026-03-08 at 03:00 UTC."
		}, flow.Next, says{"False", "VersionPending", "PostgreSQL 17 runs, and spec.version is 18. It waits until 2026-03-08 at 03:00 UTC."}},
		"a higher version waits":          {v1alpha1.ConditionUpToDate, func(o *observed.Cluster) { o.Cluster.Spec.Version = 18 }, flow.Next, says{"False", "VersionPending", "kind: Upgrade, metadata: {name: shop-to-18, namespace: demo}, spec: {cluster: {name: shop}, version: 18}"}},
		"a lower version is not acted on": {v1alpha1.ConditionUpToDate, func(o *observed.Cluster) { o.Cluster.Spec.Version = 15 }, flow.Next, says{"False", "VersionBehind", "Set version: 17."}},
		"a lower version with its image": {v1alpha1.ConditionUpToDate, func(o *observed.Cluster) { o.Cluster.Spec.Version, o.Cluster.Spec.Image = 15, "postgres:15" }, flow.Next,
			says{"False", "VersionBehind", "Set version: 17 together with image: postgres:17, which runs; postgres:15 in spec.image has another version."}},
		"another image waits for a new pod": {v1alpha1.ConditionUpToDate, func(o *observed.Cluster) { o.Cluster.Status.Image = "postgres:17.6" }, flow.Next, says{"False", "Applying", "the image postgres:17.6 instead of postgres:17"}},
		"parameters are on their way": {v1alpha1.ConditionUpToDate, func(o *observed.Cluster) {
			o.Cluster.Spec.PostgreSQL.Parameters = map[string]v1alpha1.ParameterValue{"work_mem": "8MB"}
		}, flow.Next, says{"False", "Applying", "has yet to apply"}},
		"a refused parameter": {v1alpha1.ConditionUpToDate, func(o *observed.Cluster) {
			o.Agents["shop-0"].ConfigError, o.Agents["shop-0"].ConfigErrorHash = "no such parameter", desired.AgentConfig(o).Hash()
		}, flow.Next, says{"False", "ConfigurationInvalid", "The previous configuration stays: no such parameter"}},
		"an old refusal is forgotten": {v1alpha1.ConditionUpToDate, func(o *observed.Cluster) {
			o.Agents["shop-0"].ConfigError, o.Agents["shop-0"].ConfigErrorHash = "no such parameter", "older"
		}, flow.Next, says{"True", "Current", ""}},
		"a parameter that waits for a restart": {v1alpha1.ConditionUpToDate, func(o *observed.Cluster) {
			o.Agents["shop-0"].PendingRestart = []string{"max_connections"}
		}, flow.Next, says{"False", "RestartPending", "max_connections"}},
		"an agent that was never heard": {v1alpha1.ConditionUpToDate, func(o *observed.Cluster) {
			o.Agents, o.Silent = nil, map[string]agentclient.Silence{"shop-0": {Since: observedtest.Noon.Add(-time.Minute), Error: "10.0.0.7:8443 doesn't answer in time", Unreached: true}}
		}, flow.Next, says{"False", "AgentUnreachable", "The agent of shop-0 doesn't respond, so it isn't known whether it has applied the configuration. The last error: 10.0.0.7:8443 doesn't answer in time. If NetworkPolicies select these pods,"}},
		"an agent that is silent for a moment changes nothing": {v1alpha1.ConditionUpToDate, func(o *observed.Cluster) {
			Write(o, flow.Next)
			o.Agents = nil
		}, flow.Next, says{"True", "Current", ""}},

		"without an archive":     {v1alpha1.ConditionArchiving, nil, flow.Next, says{"False", "NotConfigured", "spec.archive.repository.name"}},
		"with a healthy archive": {v1alpha1.ConditionArchiving, observedtest.Archiving, flow.Next, says{"True", "Archived", "minio"}},
		"before the first WAL":   {v1alpha1.ConditionArchiving, func(o *observed.Cluster) { observedtest.Archiving(o); o.Agents["shop-0"].Archive.LastWAL = "" }, flow.Next, says{"Unknown", "Starting", ""}},
		"a repository that is gone": {v1alpha1.ConditionArchiving, func(o *observed.Cluster) { observedtest.Archiving(o); o.Repository = nil }, flow.Next,
			says{"False", "RepositoryNotFound", "There is no BackupRepository minio"}},
		"a repository that can't be used": {v1alpha1.ConditionArchiving, func(o *observed.Cluster) {
			observedtest.Archiving(o)
			o.Repository.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "False", Reason: "AccessDenied", Message: "wrong key"}}
		}, flow.Next, says{"False", "AccessDenied", "wrong key"}},
		"a store that is away": {v1alpha1.ConditionArchiving, func(o *observed.Cluster) {
			observedtest.Archiving(o)
			o.Agents["shop-0"].Archive.FailingSince, o.Agents["shop-0"].Archive.Error = observedtest.Noon, "connection refused"
		}, flow.Next, says{"False", "ArchiveFailing", "since 2026-03-01T12:00:00Z and waits on the volume: connection refused"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := observedtest.Running(c.change)
			Write(o, c.outcome)
			for _, ready := range o.Cluster.Status.Conditions {
				if ready.Type != c.kind {
					continue
				}
				if ready.Status != c.status || ready.Reason != c.reason || !strings.Contains(ready.Message, c.message) || ready.ObservedGeneration != 3 {
					t.Errorf("got %s %s %q", ready.Status, ready.Reason, ready.Message)
				}
				return
			}
			t.Error("the condition is missing")
		})
	}
}
