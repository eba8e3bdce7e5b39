//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/place"
)

// runbook is a chapter of the page about alerts, for somebody who types what it says.
type runbook struct {
	*bed
	cluster  *v1alpha1.PostgresCluster
	commands []string
}

// spans are what the page says to type, each a block or within a line.
var spans = regexp.MustCompile("(?s)```(sql|sh)\n(.*?)```|`((?:SELECT|kubectl) [^`]*)`")

// runbook reads one, with other words for some of it.
func (b *bed) runbook(cluster *v1alpha1.PostgresCluster, title string, words ...string) *runbook {
	b.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "metrics.md"))
	b.Must(err)
	_, text, found := strings.Cut(string(page), "\n### "+title+"\n")
	if !found {
		b.Fatalf("the page has no chapter %q", title)
	}
	text, _, _ = strings.Cut(text, "\n### ")
	text, _, _ = strings.Cut(text, "\n## ")
	r := &runbook{bed: b, cluster: cluster}
	for _, span := range spans.FindAllStringSubmatch(strings.NewReplacer(words...).Replace(text), -1) {
		switch span[1] {
		case "sql":
			for statement := range strings.SplitSeq(strings.TrimSpace(span[2]), ";\n") {
				r.commands = append(r.commands, strings.Join(strings.Fields(statement), " "))
			}
		case "sh":
			r.commands = append(r.commands, strings.ReplaceAll(span[2], "\n   ", "\n"))
		default:
			r.commands = append(r.commands, strings.Join(strings.Fields(span[3]), " "))
		}
	}
	return r
}

// command that begins so, and has this in it.
func (r *runbook) command(begins, has string) string {
	r.Helper()
	for _, command := range r.commands {
		if strings.HasPrefix(strings.TrimSpace(command), begins) && strings.Contains(command, has) {
			return command
		}
	}
	r.Fatalf("the page says nowhere to type %s … %s; it says %q", begins, has, r.commands)
	return ""
}

// sql types a statement of the page in a session as the page opens it, and returns the rows.
func (r *runbook) sql(instance, has string) string {
	r.Helper()
	statement := r.command("", has)
	out, err := r.Exec(instance, "psql", "-XAtd", "app", "-v", "ON_ERROR_STOP=1", "-c", statement)
	if err != nil {
		r.Fatalf("%s: %v", statement, err)
	}
	return out
}

// shell types a command line of the page.
func (r *runbook) shell(has string) string {
	r.Helper()
	out, err := r.typeIn(r.command("kubectl", has))
	if err != nil {
		r.Fatalf("%s: %v: %s", has, err, out)
	}
	return strings.TrimSpace(out)
}

// plugin types a command line of kubectl-howdah.
func (r *runbook) plugin(program, has string) {
	r.Helper()
	line := r.command("kubectl howdah ", has)
	args := append(strings.Fields(line)[2:], "--namespace", r.Namespace)
	if out, err := exec.CommandContext(r.Context(), program, args...).CombinedOutput(); err != nil {
		r.Fatalf("%s: %v: %s", line, err, out)
	}
}

// until looks again and again; nothing wakes us when a row changes.
func (r *runbook) until(what string, done func() bool) {
	r.Helper()
	r.Await(r.cluster, what, done)
}

// TestRunbooksEndWhatTheyAreFor brings about what an alert is for, and then does what the page says, word by word, until it is over.
func TestRunbooksEndWhatTheyAreFor(t *testing.T) {
	t.Parallel()
	onlyInFull(t, "the page changes rarely")
	b := newBed(t, "minio")
	cluster := b.NewCluster("shop", 18)
	cluster.Spec.Instances = 2
	cluster.Spec.PostgreSQL.Parameters = map[string]v1alpha1.ParameterValue{
		"max_connections": "30", "max_slot_wal_keep_size": "64MB", "wal_keep_size": "32MB", "autovacuum_naptime": "2s",
		"autovacuum_freeze_max_age": "100000", "vacuum_freeze_min_age": "0",
	}
	b.Must(b.Create(t.Context(), cluster))
	b.awaitInstances(cluster, 2)
	b.SQL("shop", "CREATE TABLE public.orders AS SELECT generate_series(1, 1000) AS id")
	for _, one := range []struct {
		name  string
		trial func(*testing.T, *bed, *v1alpha1.PostgresCluster)
	}{
		{"a replica lags", aReplicaLags},
		{"transaction IDs run out", transactionIDsRunOut},
		{"connections are exhausted", connectionsAreExhausted},
		{"a replication slot is lost", aSlotIsLost},
		{"WAL is not archived", walIsNotArchived},
		{"a page is damaged", aPageIsDamaged},
	} {
		if !t.Run(one.name, func(t *testing.T) {
			within := *b.Place
			within.T = t
			one.trial(t, &bed{&within}, cluster)
		}) {
			t.FailNow()
		}
	}
}

func aReplicaLags(_ *testing.T, b *bed, cluster *v1alpha1.PostgresCluster) {
	r := b.runbook(cluster, "A replica lags")
	primary, replica := b.pair(cluster)
	_, err := b.SQLOn(replica, "SELECT pg_wal_replay_pause()")
	b.Must(err)
	b.SQL("shop", "INSERT INTO public.orders SELECT generate_series(1, 100000)")
	notReplayed := func() int {
		for row := range strings.Lines(r.sql(primary, "AS not_replayed")) {
			if fields := strings.Split(strings.TrimSpace(row), "|"); fields[0] == replica {
				bytes, err := strconv.Atoi(fields[len(fields)-1])
				b.Must(err)
				return bytes
			}
		}
		return 0
	}
	r.until("the page to show that WAL is not replayed", func() bool { return notReplayed() > 1<<20 })
	if state := r.sql(replica, "pg_get_wal_replay_pause_state"); state != "paused" {
		b.Errorf("the page shows %q", state)
	}
	r.sql(replica, "pg_wal_replay_resume")
	r.until("everything to be replayed", func() bool { return notReplayed() == 0 })
}

// pair is the primary and its replica.
func (b *bed) pair(cluster *v1alpha1.PostgresCluster) (primary, replica string) {
	b.Helper()
	b.awaitInstances(cluster, 2)
	primary = b.Primary(cluster.Name)
	for _, instance := range cluster.Status.Instances {
		if instance.Name != primary {
			replica = instance.Name
		}
	}
	return primary, replica
}

func transactionIDsRunOut(t *testing.T, b *bed, cluster *v1alpha1.PostgresCluster) {
	r := b.runbook(cluster, "Transaction IDs run out")
	primary, _ := b.pair(cluster)
	held, release := context.WithCancel(t.Context())
	defer release()
	go func() {
		kubectl := exec.CommandContext(held, place.Kubectl(t), "exec", "-n", b.Namespace, primary, "--", "psql", "-Xd", "app",
			"-c", "BEGIN ISOLATION LEVEL REPEATABLE READ", "-c", "SELECT 1", "-c", "SELECT pg_sleep(3600)")
		_ = kubectl.Run()
	}()
	holder := func() []string { return strings.Split(firstLine(r.sql(primary, "age(backend_xmin)")), "|") }
	r.until("a session that holds back vacuum", func() bool { return strings.Contains(strings.Join(holder(), "|"), "pg_sleep(3600)") })
	b.SQL("shop", "DO $$ BEGIN FOR i IN 1..150000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$")
	age := func() int {
		for row := range strings.Lines(r.sql(primary, "age(datfrozenxid)")) {
			if found, isApp := strings.CutPrefix(strings.TrimSpace(row), "app|"); isApp {
				age, err := strconv.Atoi(found)
				b.Must(err)
				return age
			}
		}
		t.Fatal("the page doesn't show the database app")
		return 0
	}
	if before := age(); before < 150000 {
		t.Fatalf("nothing holds back vacuum: the age is %d", before)
	}
	r.command("SELECT pg_terminate_backend(pid)", "")
	b.SQL("shop", "SELECT pg_terminate_backend("+holder()[0]+")")
	if oldest := r.sql(primary, "age(relfrozenxid)"); oldest == "" {
		t.Error("the page shows no tables")
	}
	r.sql(primary, "VACUUM (VERBOSE")
	r.until("the age to fall", func() bool { return age() < 100000 })
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

func connectionsAreExhausted(t *testing.T, b *bed, cluster *v1alpha1.PostgresCluster) {
	r := b.runbook(cluster, "Connections are exhausted", "10 minutes", "0 seconds")
	primary, _ := b.pair(cluster)
	b.ClientPod("greedy", "shop", "registry.local/postgresql:18", "sh", "-c",
		`for n in $(seq 40); do (echo "BEGIN; SELECT 1;"; sleep 3600) | psql >/dev/null 2>&1 & done; wait`)
	b.ClientPod("client", "shop", "registry.local/postgresql:18", "sleep", "infinity")
	var refused string
	r.until("clients to be refused", func() bool {
		_, err := b.Exec("client", "psql", "-XAtc", "SELECT 1")
		if err != nil {
			refused = err.Error()
		}
		return strings.Contains(refused, "remaining connection slots") || strings.Contains(refused, "too many clients")
	})
	if who := firstLine(r.sql(primary, "count(*), max(now() - state_change)")); !strings.HasPrefix(who, "app|psql|") || !strings.Contains(who, "|idle in transaction|") {
		t.Errorf("the page shows %s", who)
	}
	if ended := r.sql(primary, "state = 'idle in transaction'"); !strings.Contains(ended, "t") {
		t.Errorf("the page ended %q", ended)
	}
	r.until("clients to come in", func() bool { _, err := b.Exec("client", "psql", "-XAtc", "SELECT 1"); return err == nil })
	b.Must(b.Delete(t.Context(), b.Pod("greedy")))
}

func aSlotIsLost(t *testing.T, b *bed, cluster *v1alpha1.PostgresCluster) {
	r := b.runbook(cluster, "A replication slot is lost", "…", "reader")
	primary, _ := b.pair(cluster)
	b.SQL("shop", "SELECT pg_create_physical_replication_slot('reader', true)")
	b.SQL("shop", "SELECT count(pg_logical_emit_message(false, 'x', repeat('x', 1000000))) FROM generate_series(1, 200)")
	r.until("the page to show a lost slot", func() bool {
		b.SQL("shop", "CHECKPOINT")
		return regexp.MustCompile(`(?m)^reader\|physical\|f\|lost\|`).MatchString(r.sql(primary, "wal_status, safe_wal_size"))
	})
	r.sql(primary, "pg_drop_replication_slot('reader')")
	if left := r.sql(primary, "wal_status, safe_wal_size"); strings.Contains(left, "reader") {
		t.Errorf("the slot is left: %s", left)
	}
	b.awaitInstances(cluster, 2)
}

func walIsNotArchived(t *testing.T, b *bed, cluster *v1alpha1.PostgresCluster) {
	r := b.runbook(cluster, "WAL is not archived", "pgrepo minio", "pgrepo repo")
	secret := &corev1.Secret{}
	b.Must(b.Get(t.Context(), client.ObjectKey{Namespace: b.Namespace, Name: "repo"}, secret))
	for key := range secret.Data {
		secret.Data[key] = []byte("wrong")
	}
	b.Must(b.Update(t.Context(), secret))
	w := b.startWriter("shop")
	b.Await(cluster, "archiving to fail", func() bool {
		c := place.Condition(cluster, v1alpha1.ConditionArchiving)
		return c != nil && c.Status == metav1.ConditionFalse
	})
	if cause := r.shell(`"Archiving"`); cause == "" {
		t.Error("the page shows no cause")
	} else {
		t.Logf("the cause: %s", cause)
	}
	if repository := r.shell("describe pgrepo"); !strings.Contains(repository, "Conditions:") {
		t.Errorf("the page shows %s", repository)
	}
	b.MakeRepository("elsewhere", b.Store["AWS_SECRET_ACCESS_KEY"])
	r.shell(`"name":"elsewhere"`)
	b.AwaitTrue(cluster, v1alpha1.ConditionArchiving)
	r.until("what waited to be archived", func() bool { return r.shell("archive.waiting") == "" })
	backups := &v1alpha1.BackupList{}
	b.Must(b.List(t.Context(), backups, client.InNamespace(b.Namespace)))
	if len(backups.Items) != 1 {
		t.Fatalf("there are %d Backups", len(backups.Items))
	}
	b.AwaitTrue(&backups.Items[0], v1alpha1.ConditionSucceeded)
	r.until("the archive to be complete until now", func() bool {
		until, err := time.Parse(time.RFC3339, r.shell("completeUntil"))
		return err == nil && time.Since(until) < time.Minute
	})
	w.judge()
}

func aPageIsDamaged(t *testing.T, b *bed, cluster *v1alpha1.PostgresCluster) {
	primary, replica := b.pair(cluster)
	named := []string{"shop-1", replica, "shop-0", primary, " psql shop ", " psql app "}
	r, again := b.runbook(cluster, "A page is damaged", named...), b.runbook(cluster, "Replacing the volume of a replica", named...)
	plugin := filepath.Join(t.TempDir(), "kubectl-howdah")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", plugin, "../../cmd/kubectl-howdah").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	rows := b.SQL("shop", "SELECT count(*) FROM public.orders")
	b.SQL("shop", "CREATE EXTENSION IF NOT EXISTS pg_buffercache", "CHECKPOINT")
	file := b.SQL("shop", "SELECT pg_relation_filepath('public.orders')")
	if out, err := b.Exec(primary, "sh", "-c", fmt.Sprintf("echo damaged | dd of=/var/lib/howdah/current/pgdata/%s bs=1 seek=5000 conv=notrunc", file)); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b.SQL("shop", "SELECT count(pg_buffercache_evict(bufferid)) FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('public.orders')")
	if _, err := b.SQLOn(primary, "SELECT count(*) FROM public.orders"); err == nil || !strings.Contains(err.Error(), "invalid page") {
		t.Fatalf("the page is not damaged: %v", err)
	}
	r.until("the page to show the database", func() bool { return strings.HasPrefix(r.sql(primary, "checksum_failures > 0"), "app|") })
	line := strings.Replace(r.command("kubectl exec", "count(*)"), "exec -it", "exec", 1) // there is no terminal
	if out, err := b.typeIn(line); err != nil || !strings.Contains(out, rows) {
		t.Fatalf("%s: %v: %s", line, err, out)
	}
	r.plugin(plugin, "switchover")
	b.Await(cluster, "another primary", func() bool { return cluster.Status.Primary == replica })
	b.awaitInstances(cluster, 2)
	again.shell("scale")
	b.awaitInstances(cluster, 3)
	again.plugin(plugin, "reinit")
	intact := func() bool {
		out, err := b.SQLOn(primary, "SELECT count(*) FROM public.orders")
		return err == nil && out == rows
	}
	r.until("an intact page", intact)
	again.shell("wait")
	// A disk that isn't sound: the volume goes.
	claim := string(b.claimOf(primary).UID)
	again.shell("delete pvc")
	b.Await(cluster, "another volume", func() bool {
		found := &corev1.PersistentVolumeClaim{}
		err := b.Get(t.Context(), client.ObjectKey{Namespace: b.Namespace, Name: "data-" + primary}, found)
		return err == nil && string(found.UID) != claim && found.DeletionTimestamp == nil
	})
	again.shell("wait")
	r.until("all rows on it", intact)
}

func (b *bed) claimOf(instance string) *corev1.PersistentVolumeClaim {
	b.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	b.Must(b.Get(b.Context(), client.ObjectKey{Namespace: b.Namespace, Name: "data-" + instance}, claim))
	return claim
}
