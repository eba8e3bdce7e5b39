// Package failover guides a person who has to decide which instance of a cluster continues, because the agents can't without losing commits.
package failover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/kubectl-howdah/internal/prompt"
)

// Request is a failover that a person asks for.
type Request struct {
	// To is the instance that becomes primary; empty: the one that had most.
	To string
	// PoweredOff is the last primary, whose machine the person has powered off.
	PoweredOff string
	// Yes: nobody is asked.
	Yes     bool
	Timeout time.Duration
	In      io.Reader
	Out     io.Writer
}

// Carry says what would be lost, asks, and makes the instance primary.
func (r Request) Carry(ctx context.Context, c client.Client, key client.ObjectKey) error {
	o, err := observe(ctx, c, key)
	if err != nil {
		return err
	}
	if r.To == "" {
		r.To = o.best()
	}
	if err := r.show(o); err != nil {
		return err
	}
	if refused := o.refusal(r.To); refused != "" {
		return errors.New(refused)
	}
	answers := prompt.New(r.In, r.Out)
	if err := r.powerOff(ctx, o, answers); err != nil {
		return err
	}
	fmt.Fprintf(r.Out, "\n%s\n", o.loss(r.To))
	for _, warning := range []string{o.doubt(r.To), o.pending(r.To)} {
		if warning != "" {
			fmt.Fprintf(r.Out, "\n%s\n", warning)
		}
	}
	if !r.Yes {
		if yes, err := answers.Typed(ctx, fmt.Sprintf("To make %s the primary, type its name: ", r.To), r.To); err != nil || !yes {
			return cmp.Or(err, errors.New("nothing was changed"))
		}
	}
	return r.write(ctx, c, o)
}

// observe reads all that the decision is built on.
func observe(ctx context.Context, c client.Client, key client.ObjectKey) (*observed, error) {
	o := &observed{cluster: &v1alpha1.PostgresCluster{}, lease: &coordinationv1.Lease{}, pods: map[string]*corev1.Pod{}}
	if err := c.Get(ctx, key, o.cluster); err != nil {
		return nil, err
	}
	err := c.Get(ctx, key, o.lease)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("there is no Lease %s: a single instance has none, and of several the db-controller creates it again", key.Name)
	}
	if err != nil {
		return nil, err
	}
	o.read = time.Now()
	if o.known, err = readElection(o.lease, &o.cluster.Status); err != nil {
		return nil, err
	}
	for _, name := range append(o.names(), o.last()) {
		pod := &corev1.Pod{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: name}, pod); err == nil {
			o.pods[name] = pod
		} else if !apierrors.IsNotFound(err) {
			return nil, err
		}
	}
	return o, o.readNode(ctx, c)
}

// readNode of the last primary. Who may not read nodes has to know by other means whether it is off.
func (o *observed) readNode(ctx context.Context, c client.Client) error {
	pod := o.pods[o.last()]
	if pod == nil || pod.Spec.NodeName == "" {
		return nil
	}
	node := &corev1.Node{}
	switch err := c.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, node); {
	case err == nil:
		o.node = node
	case apierrors.IsNotFound(err):
		o.noNode = true
	case !apierrors.IsForbidden(err):
		return err
	}
	return nil
}

// show what each instance is known to have.
func (r Request) show(o *observed) error {
	table := tabwriter.NewWriter(r.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "INSTANCE\tPOD\tMEMBER\tHAD AT LEAST\tREMARK\n")
	for i := range o.cluster.Status.Instances {
		instance := &o.cluster.Status.Instances[i]
		remark := instance.Message
		switch instance.Name {
		case o.last():
			remark = strings.TrimSpace("was primary last and has every acknowledged commit; " + remark)
		case o.known.decided:
			remark = strings.TrimSpace("was chosen by the last failover and has not taken the lease; " + remark)
		}
		had, member := o.known.had(instance.Name)
		fmt.Fprintf(table, "%s\t%s\t%v\t%s\t%s\n", instance.Name, o.state(instance.Name), member, had, remark)
	}
	if o.known.End.LSN > 0 {
		fmt.Fprintf(table, "\nThe last orderly stop of a primary was at %s.\n", o.known.End)
	}
	if o.known.unrecorded {
		fmt.Fprintf(table, "\nThe Lease was deleted, and is empty since it was created again: what it said of the members is lost.\n")
	}
	if chosen := o.known.decided; chosen != "" {
		fmt.Fprintf(table, "\nA failover to %s was decided before, but it has not taken the lease, and nobody has been primary since. So all of this is what the Lease said before that.\n", chosen)
	}
	if holder := o.holder(); holder != "" {
		fmt.Fprintf(table, "\nThe lease still names %s as its holder.\n", holder)
	}
	return table.Flush()
}

// state of the pod of an instance.
func (o *observed) state(name string) string {
	pod := o.pods[name]
	if pod == nil {
		return "is absent"
	}
	state := string(pod.Status.Phase)
	if o.silent(name) {
		state += ", NotReady,"
	}
	return state + " on " + pod.Spec.NodeName
}

// powerOff makes sure that the last primary doesn't accept writes any more, which nothing else would notice: it may run where neither the
// API server nor any instance reaches it.
func (r Request) powerOff(ctx context.Context, o *observed, answers *prompt.Prompt) error {
	last := o.last()
	if r.To == last {
		return nil
	}
	if off := o.off(); off != "" {
		fmt.Fprintf(r.Out, "\n%s\n", off)
		return nil
	}
	node := "its node"
	if pod := o.pods[last]; pod != nil && pod.Spec.NodeName != "" {
		node = "node " + pod.Spec.NodeName
	}
	fmt.Fprintf(r.Out, "\nFirst power off %s (%s was primary last): nobody can tell from here that its PostgreSQL doesn't run. "+
		"If it does, it continues accepting writes, and all of them are lost.\n", node, last)
	if r.PoweredOff == last {
		return nil
	}
	if !r.Yes {
		if yes, err := answers.Typed(ctx, fmt.Sprintf("If it is off, type the name of the instance, %s: ", last), last); err != nil || yes {
			return err
		}
	}
	return fmt.Errorf("nothing was changed: power off %s, and then add --powered-off %s", node, last)
}

// watch for as long as the lease lasts, so that a holder which is alive has renewed it, and the write fails.
func (r Request) watch(ctx context.Context, o *observed) error {
	left := lasts(o.lease, &o.known) - time.Since(o.read)
	if o.holder() == "" || left <= 0 {
		return nil
	}
	fmt.Fprintf(r.Out, "Waiting for %s to see whether %s renews the lease.\n", left.Round(time.Second), o.holder())
	select {
	case <-ctx.Done():
		return errors.New("interrupted: nothing was changed")
	case <-time.After(left):
		return nil
	}
}

// write the decision, if nobody has written the Lease since it was read, and wait until it is carried out.
func (r Request) write(ctx context.Context, c client.Client, o *observed) error {
	if err := r.watch(ctx, o); err != nil {
		return err
	}
	if err := decide(o.lease, &o.known, r.To, o.timeline()); err != nil {
		return err
	}
	err := c.Update(ctx, o.lease)
	if apierrors.IsConflict(err) {
		return errors.New("the Lease was written meanwhile, so an agent may have taken it: nothing was changed; look at kubectl howdah status, and try again if there is still no primary")
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(r.Out, "The Lease says now that %s continues.\n", r.To)
	lease := &coordinationv1.Lease{}
	err = wait.PollUntilContextTimeout(ctx, 250*time.Millisecond, r.Timeout, true, func(ctx context.Context) (bool, error) {
		return c.Get(ctx, client.ObjectKeyFromObject(o.lease), lease) == nil && lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "", nil
	})
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("interrupted: the Lease says that %s continues, so it may still take the lease; look at kubectl howdah status %s", r.To, o.cluster.Name)
	case err != nil:
		return fmt.Errorf("%s has not taken the lease within %s: look at its pod, and at kubectl howdah status %s; if it never takes the lease, "+
			"run this command again, which still goes by what was known before, and choose another instance with --to", r.To, r.Timeout, o.cluster.Name)
	}
	fmt.Fprintf(r.Out, "%s has taken the lease. The others follow it; what %s wrote and nobody else has is kept on its volume for a while.\n", *lease.Spec.HolderIdentity, o.last())
	return nil
}
