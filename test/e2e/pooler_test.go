//go:build e2e

package e2e

import (
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/place"
)

// transactions are those of 50 clients that keep their connections, for a while. A client whose connection or transaction fails ends, and says
// so. In the end each longest transaction of a client is printed, with the time that it waited for its turn, in microseconds.
const transactions = `
cat >/tmp/transaction.sql <<'END'
%s
END
PGAPPNAME=%s PGHOST=%s pgbench -n -f /tmp/transaction.sql -c 50 -j 2 -R 100 -T %d -l --log-prefix=/tmp/log -P 5 2>&1 &
echo $! >/tmp/pid
wait $!
echo "ended $?"
awk '{ if ($3 > most[$1]) most[$1] = $3 } END { for (c in most) print "longest", most[c] }' /tmp/log*
`

const (
	inserts = "BEGIN;\nINSERT INTO rows VALUES (:client_id);\nCOMMIT;"
	// It fails where something could be written.
	reads = "BEGIN;\nSELECT 1 / (current_setting('transaction_read_only') = 'on')::int;\nCOMMIT;"
)

// bench is such a load.
type bench struct {
	bed *bed
	pod *corev1.Pod
}

func (b *bed) startBench(name, host, transaction string, duration time.Duration) *bench {
	b.Helper()
	script := fmt.Sprintf(transactions, transaction, name, host, int(duration.Seconds()))
	w := &bench{bed: b, pod: b.ClientPod(name, "shop", "registry.local/postgresql:17", "bash", "-c", script)}
	b.Await(w.pod, "transactions", func() bool { return strings.Contains(w.said(), "progress: ") })
	return w
}

func (w *bench) said() string {
	w.bed.Helper()
	out, err := exec.CommandContext(w.bed.Context(), place.Kubectl(w.bed.T), "logs", "-n", w.bed.Namespace, w.pod.Name).Output()
	w.bed.Must(err)
	return string(out)
}

// end has pgbench end as if its time were over, and says how many clients have failed and how long the longest transaction of each took, in
// order.
func (w *bench) end() (failed int, longest []time.Duration) {
	w.bed.Helper()
	if _, err := w.bed.Exec(w.pod.Name, "bash", "-c", "kill -ALRM $(cat /tmp/pid)"); err != nil {
		w.bed.Logf("pgbench has ended before: %v", err)
	}
	w.bed.Await(w.pod, "the end of the transactions", func() bool { return w.pod.Status.Phase != corev1.PodRunning })
	said := w.said()
	for line := range strings.Lines(said) {
		fields := strings.Fields(line)
		if strings.Contains(line, "aborted in command") || strings.Contains(line, "ERROR") || strings.Contains(line, "FATAL") {
			failed++
			w.bed.Log(strings.TrimSpace(line))
		}
		if len(fields) == 2 && fields[0] == "longest" {
			micros, err := strconv.ParseInt(fields[1], 10, 64)
			w.bed.Must(err)
			longest = append(longest, time.Duration(micros)*time.Microsecond)
		}
		if strings.HasPrefix(line, "number of") {
			w.bed.Log(strings.TrimSpace(line))
		}
	}
	if len(longest) == 0 {
		w.bed.Fatal(said)
	}
	slices.Sort(longest)
	return failed, longest
}

// busy fails the test if the transactions have ended: then what was done meanwhile shows nothing.
func (w *bench) busy() {
	w.bed.Helper()
	if said := w.said(); strings.Contains(said, "ended ") {
		w.bed.Fatalf("the transactions have ended: %s", said)
	}
}

// switchOver as a person would, and waits for it.
func (b *bed) switchOver(cluster *v1alpha1.PostgresCluster, token string) {
	b.Helper()
	b.Merge(cluster, fmt.Sprintf(`{"spec":{"switchover":{"token":%q}}}`, token))
	b.Await(cluster, "the switchover "+token, func() bool {
		s := cluster.Status.Switchover
		return s != nil && s.Token == token && s.State == v1alpha1.SwitchoverDone
	})
	b.awaitInstances(cluster, int(cluster.Spec.Instances))
}

// pooled makes a cluster of three with a pooler in front.
func (b *bed) pooled() (*v1alpha1.PostgresCluster, *v1alpha1.Pooler) {
	b.Helper()
	cluster := b.replicated(17)
	pooler := &v1alpha1.Pooler{ObjectMeta: b.Meta("shop"), Spec: v1alpha1.PoolerSpec{Cluster: v1alpha1.LocalReference{Name: "shop"}, Instances: 2, PoolSize: 10}}
	b.Must(b.Create(b.Context(), pooler))
	b.AwaitTrue(pooler, v1alpha1.ConditionReady)
	b.SQL("shop", "CREATE TABLE rows (client int); ALTER TABLE rows OWNER TO app")
	return cluster, pooler
}

// It is not parallel: it takes controllers away.
func TestClientsOfAPoolerNoticeNoPlannedChange(t *testing.T) {
	b := newBed(t, "minio")
	cluster, pooler := b.pooled()

	direct := b.startBench("direct", "shop-rw", inserts, time.Minute)
	b.switchOver(cluster, "direct")
	if failed, _ := direct.end(); failed == 0 {
		t.Error("a switchover costs clients nothing without a pooler, so this test can't fail")
	}

	b.SQL("shop", "TRUNCATE rows")
	controllers := b.controllersAway()
	pooled := b.startBench("pooled", "shop-pooler."+b.Namespace+".svc", inserts, 5*time.Minute)
	primary := cluster.Status.Primary
	b.Must(b.Delete(t.Context(), b.Pod(primary))) // in order, and with all controllers away
	b.Await(&corev1.Pod{ObjectMeta: b.Meta(primary)}, "another primary", func() bool { return b.primaryNow() != primary })
	controllers()
	b.awaitInstances(cluster, 3)
	b.switchOver(cluster, "pooled")
	b.Merge(cluster, `{"spec":{"postgresql":{"parameters":{"max_connections":"60"}}}}`)
	b.AwaitReason(cluster, v1alpha1.ConditionUpToDate, v1alpha1.ReasonCurrent, "")
	b.awaitInstances(cluster, 3)
	pooled.busy()
	failed, longest := pooled.end()
	t.Logf("longest wait of a client: median %v, most %v", longest[len(longest)/2], longest[len(longest)-1])
	if failed > 0 || len(longest) != 50 {
		t.Errorf("%d failures, %d clients", failed, len(longest))
	}
	if rows := b.SQL("shop", "SELECT count(*) FROM rows"); !strings.Contains(pooled.said(), "number of transactions actually processed: "+rows) {
		t.Errorf("there are %s rows, and not as many as transactions were acknowledged", rows)
	}
	b.AwaitTrue(pooler, v1alpha1.ConditionReady)
	b.readersNoticeNoSwitchover(cluster)
}

// readersNoticeNoSwitchover has clients read by way of a pooler that leads to the replicas, one of which becomes the primary.
func (b *bed) readersNoticeNoSwitchover(cluster *v1alpha1.PostgresCluster) {
	b.Helper()
	pooler := &v1alpha1.Pooler{ObjectMeta: b.Meta("readers"), Spec: v1alpha1.PoolerSpec{
		Cluster: v1alpha1.LocalReference{Name: "shop"}, Access: v1alpha1.PoolReadOnly, Instances: 1, PoolSize: 10,
	}}
	b.Must(b.Create(b.Context(), pooler))
	b.AwaitTrue(pooler, v1alpha1.ConditionReady)
	reading := b.startBench("reading", "readers-pooler."+b.Namespace+".svc", reads, time.Minute)
	readers := func(instance string) string {
		out, err := b.SQLOn(instance, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'reading'")
		b.Must(err)
		return out
	}
	if n := readers(cluster.Status.Primary); n != "0" {
		b.Errorf("%s readers are at the primary", n)
	}
	former := cluster.Status.Primary
	b.switchOver(cluster, "readers")
	b.Await(cluster, "readers at the former primary, and none at the new one", func() bool {
		return readers(former) != "0" && readers(cluster.Status.Primary) == "0"
	})
	if failed, longest := reading.end(); failed > 0 || len(longest) != 50 {
		b.Errorf("%d failures, %d clients", failed, len(longest))
	}
}

// primaryNow is where the EndpointSlice leads to: no controller has to have seen it.
func (b *bed) primaryNow() string {
	b.Helper()
	out, err := exec.CommandContext(b.Context(), place.Kubectl(b.T), "get", "-n", b.Namespace, "endpointslice", "shop-rw", "-o", "jsonpath={.endpoints[0].targetRef.name}").Output()
	b.Must(err)
	return string(out)
}

// controllersAway scales the db- and the pooler-controller to nothing, until the function that it returns is called.
func (b *bed) controllersAway() (back func()) {
	b.Helper()
	scale := func(replicas int32) {
		for _, name := range []string{"db-controller", "pooler-controller"} {
			d := &appsv1.Deployment{}
			b.Must(b.Get(b.Context(), client.ObjectKey{Namespace: "howdah-system", Name: name}, d))
			before := d.DeepCopy()
			d.Spec.Replicas = ptr.To(replicas)
			b.Must(b.Patch(b.Context(), d, client.MergeFrom(before)))
		}
	}
	scale(0)
	done := false
	b.Cleanup(func() {
		if !done {
			scale(1)
		}
	})
	return func() { done = true; scale(1) }
}
