//go:build e2e

package e2e

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/howdah/test/testkit/place"
	"howdah.dev/howdah/test/testkit/writes"
)

// writeNumbers writes numbered rows through the -rw Service, each over a new connection, and prints the time and the
// number of each row that the server has acknowledged. psql ends non-zero when it doesn't know that the row is there.
const writeNumbers = `
until psql -qc 'CREATE TABLE IF NOT EXISTS numbers (n bigint PRIMARY KEY)'; do sleep 0.1; done
n=0
while :; do
	n=$((n+1))
	psql -qc "INSERT INTO numbers VALUES ($n)" 2>/dev/null && echo "ack $(date +%s%N) $n"
	sleep 0.02
done`

// writer is a client that continues writing while something is done to its cluster, and then judges.
type writer struct {
	bed     *bed
	pod     *corev1.Pod
	cluster string
}

func (b *bed) startWriter(cluster string) *writer {
	b.Helper()
	w := &writer{bed: b, cluster: cluster, pod: b.ClientPod(cluster+"-writer", cluster, "registry.local/postgresql:17", "bash", "-c", writeNumbers)}
	w.awaitAcks(5)
	return w
}

func (w *writer) acks() []writes.Ack {
	w.bed.Helper()
	out, err := exec.CommandContext(w.bed.Context(), place.Kubectl(w.bed.T), "logs", "-n", w.bed.Namespace, w.pod.Name).Output()
	w.bed.Must(err)
	var acks []writes.Ack
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[0] != "ack" {
			continue
		}
		nanos, err := strconv.ParseInt(fields[1], 10, 64)
		w.bed.Must(err)
		acks = append(acks, writes.Ack{At: time.Unix(0, nanos), Row: w.row(fields[2])})
	}
	return acks
}

func (w *writer) row(number string) writes.Row {
	w.bed.Helper()
	n, err := strconv.ParseInt(number, 10, 64)
	w.bed.Must(err)
	return writes.Row{Client: w.pod.Name, N: n}
}

// awaitAcks waits until this many more rows are acknowledged than now.
func (w *writer) awaitAcks(more int) {
	w.bed.Helper()
	before := len(w.acks())
	w.bed.Await(w.pod, fmt.Sprintf("%d more rows", more), func() bool { return len(w.acks()) >= before+more })
}

// judge says the longest time without an acknowledged row, and fails the test if one that was acknowledged is lost.
func (w *writer) judge() time.Duration {
	w.bed.Helper()
	w.awaitAcks(5)
	acks, present := w.acks(), map[writes.Row]bool{}
	for _, number := range strings.Fields(w.bed.SQL(w.cluster, "SELECT n FROM numbers")) {
		present[w.row(number)] = true
	}
	gap := writes.Longest(acks, acks[0].At, acks[len(acks)-1].At)
	lost := writes.Lost(acks, present)
	w.bed.Logf("%d rows acknowledged, %d lost, longest gap for new connections %s", len(acks), len(lost), gap.Round(10*time.Millisecond))
	if len(lost) > 0 {
		w.bed.Errorf("%d acknowledged rows are lost, from %d to %d", len(lost), lost[0].N, lost[len(lost)-1].N)
	}
	return gap
}

// missing counts the rows that were acknowledged before a time, and those of them that are not present.
func (w *writer) missing(acks []writes.Ack, present map[string]bool, until time.Time) (before, lost int) {
	for _, ack := range acks {
		if !ack.At.Before(until) {
			continue
		}
		if before++; !present[strconv.FormatInt(ack.Row.N, 10)] {
			lost++
		}
	}
	return before, lost
}
