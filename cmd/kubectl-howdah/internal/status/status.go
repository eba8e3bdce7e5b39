// Package status shows a PostgresCluster and its Poolers to a person.
package status

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/duration"

	"howdah.dev/apis/v1alpha1"
)

// Print writes what runs, where, how far behind, and what is waited for. Poolers of other clusters are left out.
func Print(out io.Writer, cluster *v1alpha1.PostgresCluster, poolers []v1alpha1.Pooler, now time.Time) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	summary(table, cluster, now)
	conditions(table, cluster, now)
	findings(table, cluster, now)
	instances(table, cluster)
	showPoolers(table, cluster, poolers, now)
	return table.Flush()
}

func summary(out io.Writer, cluster *v1alpha1.PostgresCluster, now time.Time) {
	status := cluster.Status
	fmt.Fprintf(out, "Cluster\t%s/%s\n", cluster.Namespace, cluster.Name)
	fmt.Fprintf(out, "PostgreSQL\t%s, image %s\n", or(status.Version), or(status.Image))
	fmt.Fprintf(out, "Instances\t%d of %d ready\n", status.ReadyInstances, cluster.DesiredInstances())
	fmt.Fprintf(out, "Primary\t%s, timeline %d\n", or(status.Primary), status.Timeline)
	if s := status.Synchronous; s != nil && s.Quorum > 0 {
		fmt.Fprintf(out, "Synchronous\teach commit is on %d of %s\n", s.Quorum, or(strings.Join(s.Members, ", ")))
	}
	if a := status.Archive; a != nil {
		fmt.Fprintf(out, "Archive\t%s\n", archive(a, now))
	}
	if i := status.Import; i != nil && i.CompletedAt == nil && i.Progress != nil {
		fmt.Fprintf(out, "Import\t%s\n", importing(i.Progress))
	}
	if s := status.Switchover; s != nil && s.State == v1alpha1.SwitchoverRunning {
		fmt.Fprintf(out, "Switchover\tto %s: %s\n", or(s.To), s.Message)
	}
	if r := status.Reinit; r != nil && r.State == v1alpha1.ReinitRunning {
		fmt.Fprintf(out, "Reinit\t%s\n", r.Message)
	}
	if r := status.AutomaticReinit; r != nil && r.State == v1alpha1.ReinitRunning {
		fmt.Fprintf(out, "Reinit\t%s %s\n", r.Message, r.Evidence)
	}
}

func archive(a *v1alpha1.ArchiveStatus, now time.Time) string {
	text := a.Repository + ", last WAL " + or(a.LastArchivedWAL)
	if a.LastArchivedTime != nil {
		text += " " + age(now, a.LastArchivedTime.Time) + " ago"
	}
	if a.FailingSince != nil {
		text += fmt.Sprintf(", failing for %s with %d segments waiting", age(now, a.FailingSince.Time), a.Waiting)
	}
	return text
}

// importing is how far an import is.
func importing(p *v1alpha1.Progress) string {
	text := p.Phase
	if p.TotalBytes > 0 {
		text += fmt.Sprintf(", %d of %d MiB (%d%%)", p.DoneBytes>>20, p.TotalBytes>>20, p.Percent)
	}
	if p.SecondsLeft > 0 {
		text += ", " + duration.HumanDuration(time.Duration(p.SecondsLeft)*time.Second) + " left"
	}
	return strings.TrimSpace(text + ". " + p.Message)
}

func conditions(out io.Writer, cluster *v1alpha1.PostgresCluster, now time.Time) {
	fmt.Fprint(out, "\nCONDITION\tSTATUS\tREASON\tFOR\tMESSAGE\n")
	for _, c := range cluster.Status.Conditions {
		message := c.Message
		if c.ObservedGeneration != cluster.Generation {
			message += " (about an older spec)"
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\n", c.Type, c.Status, c.Reason, age(now, c.LastTransitionTime.Time), message)
	}
}

// findings are shown where there are some.
func findings(out io.Writer, cluster *v1alpha1.PostgresCluster, now time.Time) {
	for i := range cluster.Status.Findings {
		f := &cluster.Status.Findings[i]
		if i == 0 {
			fmt.Fprint(out, "\nFINDING\tFOR\tEVIDENCE AND ADVICE\n")
		}
		fmt.Fprintf(out, "%s\t%s\t%s %s\n", f.Reason, age(now, f.Since.Time), f.Evidence, f.Advice)
	}
}

func instances(out io.Writer, cluster *v1alpha1.PostgresCluster) {
	fmt.Fprint(out, "\nINSTANCE\tROLE\tREADY\tNODE\tTIMELINE\tLAG\tMAY TAKE OVER\tREMARK\n")
	for i := range cluster.Status.Instances {
		instance := &cluster.Status.Instances[i]
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", instance.Name, or(string(instance.Role)), yes(instance.Ready), or(instance.Node),
			instance.Timeline, lag(instance), eligible(instance), or(remark(instance)))
	}
}

func showPoolers(out io.Writer, cluster *v1alpha1.PostgresCluster, poolers []v1alpha1.Pooler, now time.Time) {
	title := "\nPOOLER\tACCESS\tMODE\tREADY\tREASON\tFOR\tMESSAGE\n"
	for i := range poolers {
		pooler := &poolers[i]
		if pooler.Spec.Cluster.Name != cluster.Name {
			continue
		}
		reason, since, message := "", "", "No controller has looked at it yet."
		if c := meta.FindStatusCondition(pooler.Status.Conditions, v1alpha1.ConditionReady); c != nil {
			reason, since, message = c.Reason, age(now, c.LastTransitionTime.Time), c.Message
		}
		fmt.Fprintf(out, "%s%s\t%s\t%s\t%d of %d\t%s\t%s\t%s\n", title, pooler.Name, or(string(pooler.Spec.Access)), or(string(pooler.Spec.Mode)),
			pooler.Status.ReadyInstances, pooler.Spec.Instances, or(reason), or(since), message)
		title = ""
	}
}

// lag of a replica; status has it in whole MiB.
func lag(instance *v1alpha1.InstanceStatus) string {
	switch {
	case instance.Role != v1alpha1.RoleReplica:
		return "-"
	case instance.DelaySeconds > 0 && instance.ReplayPaused:
		return "replay paused"
	case instance.DelaySeconds > 0:
		return "delayed by " + duration.HumanDuration(time.Duration(instance.DelaySeconds)*time.Second)
	case !instance.Streaming:
		return "not streaming"
	case instance.LagBytes == 0 && instance.LagSeconds == 0:
		return "none"
	}
	return fmt.Sprintf("%d MiB, %s", instance.LagBytes>>20, duration.HumanDuration(time.Duration(instance.LagSeconds)*time.Second))
}

func eligible(instance *v1alpha1.InstanceStatus) string {
	if instance.Role != v1alpha1.RoleReplica {
		return "-"
	}
	return yes(instance.Eligible)
}

// remark is what a person should know of an instance.
func remark(instance *v1alpha1.InstanceStatus) string {
	var all []string
	if r := instance.Rejoin; r != nil {
		all = append(all, fmt.Sprintf("%s from %s: %d%%", r.Method, or(r.Source), r.Percent))
	}
	if len(instance.PendingRestart) > 0 {
		all = append(all, "a restart is pending for "+strings.Join(instance.PendingRestart, ", "))
	}
	if instance.Message != "" {
		all = append(all, instance.Message)
	}
	return strings.Join(all, "; ")
}

func or(text string) string { return cmp.Or(text, "-") }

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

func age(now, then time.Time) string { return duration.HumanDuration(now.Sub(then)) }
