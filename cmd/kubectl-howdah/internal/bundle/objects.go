package bundle

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/kubectl-howdah/internal/instancelog"
)

// maxObjects of a kind are written, the newest first: there may be thousands of Backups.
const maxObjects = 200

// kindsOfHowdah are written as far as they are in the namespace: a Restore or a repository of another cluster may be why this one waits.
var kindsOfHowdah = []string{
	v1alpha1.KindPostgresCluster, v1alpha1.KindBackupRepository, v1alpha1.KindBackup, v1alpha1.KindBackupSchedule, v1alpha1.KindRestore,
	v1alpha1.KindUpgrade, v1alpha1.KindPooler, v1alpha1.KindFailoverDrill, v1alpha1.KindFailoverDrillSchedule,
}

// kindsOfKubernetes are written as far as they have the label of the cluster. ConfigMaps are not among them: they follow from spec, and
// Secrets are listed without their values.
var kindsOfKubernetes = []schema.GroupVersionKind{
	{Version: "v1", Kind: "Pod"},
	{Version: "v1", Kind: "PersistentVolumeClaim"},
	{Version: "v1", Kind: "Service"},
	{Group: "apps", Version: "v1", Kind: "StatefulSet"},
	{Group: "apps", Version: "v1", Kind: "Deployment"},
	{Group: "apps", Version: "v1", Kind: "ControllerRevision"},
	{Group: "batch", Version: "v1", Kind: "Job"},
	{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"},
	{Group: "discovery.k8s.io", Version: "v1", Kind: "EndpointSlice"},
	{Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"},
	{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"},
}

func (c *collector) howdah(ctx context.Context) {
	for _, kind := range kindsOfHowdah {
		c.objects(ctx, "howdah", v1alpha1.GroupVersion.WithKind(kind), client.InNamespace(c.cluster.Namespace))
	}
}

func (c *collector) kubernetes(ctx context.Context) {
	for _, kind := range kindsOfKubernetes {
		c.objects(ctx, "kubernetes", kind, client.InNamespace(c.cluster.Namespace), client.MatchingLabels{v1alpha1.LabelCluster: c.cluster.Name})
	}
	for i := range c.cluster.Status.Instances {
		name := c.cluster.Status.Instances[i].Node
		file := "kubernetes/node-" + name + ".yaml"
		if name == "" || slices.Contains(c.archive.names, file) {
			continue
		}
		node := &unstructured.Unstructured{}
		node.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Node"})
		if err := c.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
			c.archive.problem("node "+name, err)
			continue
		}
		c.write(file, []unstructured.Unstructured{*node})
	}
}

// objects writes those of a kind into one file.
func (c *collector) objects(ctx context.Context, folder string, kind schema.GroupVersionKind, which ...client.ListOption) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := c.List(ctx, list, which...); err != nil {
		c.archive.problem(kind.Kind, err)
		return
	}
	if len(list.Items) > 0 {
		c.write(folder+"/"+strings.ToLower(kind.Kind)+".yaml", newest(list.Items))
	}
}

func newest(all []unstructured.Unstructured) []unstructured.Unstructured {
	slices.SortStableFunc(all, func(a, b unstructured.Unstructured) int {
		return b.GetCreationTimestamp().Compare(a.GetCreationTimestamp().Time)
	})
	return all[:min(len(all), maxObjects)]
}

func (c *collector) write(file string, objects []unstructured.Unstructured) {
	var text bytes.Buffer
	for i := range objects {
		redact(objects[i].Object)
		content, err := yaml.Marshal(objects[i].Object)
		if err != nil {
			c.archive.problem(file, err)
			continue
		}
		fmt.Fprintf(&text, "---\n%s", content)
	}
	c.archive.file(file, text.Bytes())
}

// secrets lists the names of the cluster's Secrets. Only their metadata is read.
func (c *collector) secrets(ctx context.Context) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "SecretList"})
	if err := c.List(ctx, list, client.InNamespace(c.cluster.Namespace), client.MatchingLabels{v1alpha1.LabelCluster: c.cluster.Name}); err != nil {
		c.archive.problem("Secrets", err)
		return
	}
	var text strings.Builder
	for i := range list.Items {
		fmt.Fprintf(&text, "%s created %s\n", list.Items[i].Name, list.Items[i].CreationTimestamp.UTC().Format(time.RFC3339))
	}
	c.archive.file("secrets.txt", []byte(text.String()))
}

// events are those of the namespace, the oldest first, as kubectl shows them.
func (c *collector) events(ctx context.Context) {
	list := &corev1.EventList{}
	if err := c.List(ctx, list, client.InNamespace(c.cluster.Namespace)); err != nil {
		c.archive.problem("Events", err)
		return
	}
	slices.SortStableFunc(list.Items, func(a, b corev1.Event) int { return cmp.Compare(last(&a).Unix(), last(&b).Unix()) })
	var text bytes.Buffer
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "LAST\tCOUNT\tTYPE\tREASON\tOBJECT\tMESSAGE")
	for i := range list.Items {
		event := &list.Items[i]
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s/%s\t%s\n", last(event).UTC().Format(time.RFC3339), max(event.Count, 1), event.Type, event.Reason,
			event.InvolvedObject.Kind, event.InvolvedObject.Name, strings.Join(strings.Fields(event.Message), " "))
	}
	_ = table.Flush() // into memory
	c.archive.file("events.txt", text.Bytes())
}

// last is when an event was last seen; newer clients count in a series.
func last(event *corev1.Event) time.Time {
	switch {
	case event.Series != nil:
		return event.Series.LastObservedTime.Time
	case !event.LastTimestamp.IsZero():
		return event.LastTimestamp.Time
	}
	return event.EventTime.Time
}

// suite writes the Deployments of the controllers, and with them the namespaces in which they are.
func (c *collector) suite(ctx context.Context) {
	c.objects(ctx, "suite", schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, client.MatchingLabels{partOf: "howdah"})
	c.objects(ctx, "suite", schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, client.MatchingLabels{partOf: "howdah"})
}

// partOf is the label of the controllers.
const partOf = "app.kubernetes.io/part-of"

func (c *collector) logs(ctx context.Context) {
	pods, err := instancelog.PodsOf(ctx, c.Client, client.ObjectKeyFromObject(c.cluster), true)
	if err != nil {
		c.archive.problem("logs", err)
	}
	instances, err := instancelog.PodsOf(ctx, c.Client, client.ObjectKeyFromObject(c.cluster), false)
	if err != nil {
		c.archive.problem("logs", err)
	}
	literal := c.cluster.Spec.PostgreSQL.Log != nil && c.cluster.Spec.PostgreSQL.Log.Redaction == v1alpha1.RedactNothing && !c.UnredactedLogs
	if literal && len(instances) > 0 {
		c.archive.problem("logs", fmt.Errorf("those of instances are left out, because spec.postgresql.log.redaction is Off; --unredacted-logs includes them"))
	}
	for _, pod := range pods {
		if literal && slices.Contains(instances, pod) {
			continue
		}
		c.log(ctx, c.cluster.Namespace, pod, "", false)
		c.log(ctx, c.cluster.Namespace, pod, "", true)
	}
	c.controllerLogs(ctx)
}

// controllerLogs keeps what the controllers say about the namespace.
func (c *collector) controllerLogs(ctx context.Context) {
	pods := &corev1.PodList{}
	if err := c.List(ctx, pods, client.MatchingLabels{partOf: "howdah"}); err != nil {
		c.archive.problem("logs of the controllers", err)
		return
	}
	for i := range pods.Items {
		pod := instancelog.Pod{Name: pods.Items[i].Name, Container: pods.Items[i].Spec.Containers[0].Name}
		c.log(ctx, pods.Items[i].Namespace, pod, `"`+c.cluster.Namespace+`"`, false)
	}
}
